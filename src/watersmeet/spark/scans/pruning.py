"""Can a row group hold a row that the filter keeps? Its least and greatest values may rule it out.

Only whole numbers are looked at, days and microseconds among them: of text a writer may have kept a
shortened form, and of floats NaN is in no statistics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from watersmeet.spark.scans.parquet import Reading
from watersmeet.spark.scans.predicates import Choice, Column, Condition, Constant, Expression

Range = tuple[int, int]
"""The least and the greatest value that is not null."""


class Statistics:
    """What one file's footer says about the columns that a filter looks at."""

    def __init__(self, file: pq.ParquetFile, found: Mapping[int, Reading]) -> None:
        """`found` has the columns by the positions that conditions use."""
        self._metadata = file.metadata
        paths = [file.schema.column(number).path for number in range(len(file.schema))]
        # For each position, the column's number in the file and what one of its units stands for.
        self._places: dict[int, tuple[int, int]] = {}
        for position, reading in found.items():
            unit = None if reading.name is None else _unit(file.schema_arrow.field(reading.name))
            if unit is not None and reading.name in paths:
                self._places[position] = paths.index(reading.name), unit

    def may_hold(self, group: int, conditions: Sequence[Expression]) -> bool:
        """Whether a row of the group can fulfil all of them."""
        return all(self._may_fulfil(group, condition) for condition in conditions)

    def _may_fulfil(self, group: int, condition: Expression) -> bool:
        if not isinstance(condition, Condition) or len(condition.operands) != 2:
            return True
        column, other = condition.operands
        if not isinstance(column, Column):
            return True
        values = self.range(group, column.position)
        return values is None or _meets(condition.operation, values, other)

    def range(self, group: int, position: int) -> Range | None:
        """What the values of a column lie between, if the footer says so in a way we follow."""
        if position not in self._places:
            return None
        number, unit = self._places[position]
        column = self._metadata.row_group(group).column(number)
        statistics = column.statistics
        if column.physical_type == "INT96" or statistics is None or not statistics.has_min_max:
            return None
        return statistics.min_raw * unit, statistics.max_raw * unit


def _unit(field: pa.Field) -> int | None:
    """None for types whose statistics we do not follow."""
    if pt.is_signed_integer(field.type) or pt.is_date32(field.type):
        return 1
    if pt.is_timestamp(field.type):
        return {"us": 1, "ms": 1_000}.get(field.type.unit)
    return None


def _meets(operation: str, values: Range, other: Expression) -> bool:
    least, greatest = values
    if isinstance(other, Choice) and operation in ("in", "in with null"):
        return any(least <= value <= greatest for value in other.values)
    if not isinstance(other, Constant) or not isinstance(other.value, int):
        return True
    if operation == "=":
        return least <= other.value <= greatest
    if operation == "<":
        return least < other.value
    if operation == "<=":
        return least <= other.value
    if operation == ">":
        return greatest > other.value
    if operation == ">=":
        return greatest >= other.value
    return True
