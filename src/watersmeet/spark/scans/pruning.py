"""Can a row group hold a row that the filter keeps? Its least and greatest values may rule it out.

Only whole numbers are looked at, days and microseconds among them: of text a writer may have kept a
shortened form, and of floats NaN is in no statistics.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from watersmeet.expressions.nodes import Column, Compare, In, Literal, Node
from watersmeet.spark.scans.parquet import Reading

_ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

Range = tuple[int, int]
"""The least and the greatest value that is not null."""


class Statistics:
    """What one file's footer says about the columns that a filter looks at."""

    def __init__(self, file: pq.ParquetFile, found: Mapping[str, Reading]) -> None:
        """`found` has the columns by the names that conditions use."""
        self._metadata = file.metadata
        paths = [file.schema.column(number).path for number in range(len(file.schema))]
        # For each name, the column's number in the file and what one of its units stands for.
        self._places: dict[str, tuple[int, int]] = {}
        for name, reading in found.items():
            unit = None if reading.name is None else _unit(file.schema_arrow.field(reading.name))
            if unit is not None and reading.name in paths:
                self._places[name] = paths.index(reading.name), unit

    def may_hold(self, group: int, conditions: Sequence[Node]) -> bool:
        """Whether a row of the group can fulfil all of them."""
        return all(self._may_fulfil(group, condition) for condition in conditions)

    def _may_fulfil(self, group: int, condition: Node) -> bool:
        match condition:
            case Compare(sign, Column(_, name), Literal(value)) if isinstance(value, int):
                ends = self.range(group, name)
                return ends is None or _meets(sign, ends, value)
            case In(Column(_, name), values):
                ends = self.range(group, name)
                return ends is None or any(_meets("=", ends, value) for value in values)
        return True

    def range(self, group: int, name: str) -> Range | None:
        """What the values of a column lie between, if the footer says so in a way we follow."""
        if name not in self._places:
            return None
        number, unit = self._places[name]
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


def _meets(sign: str, ends: Range, value: Any) -> bool:
    least, greatest = ends
    if sign in ("=", "<=>"):
        return bool(least <= value <= greatest)
    if sign in ("<", "<="):
        return bool(_ORDERS[sign](least, value))
    if sign in (">", ">="):
        return bool(_ORDERS[sign](greatest, value))
    return True
