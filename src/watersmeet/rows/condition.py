"""A filter that is part of ON: a pair that fails it is no match, and null counts as failing."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.acero as acero
import pyarrow.compute as pc

from watersmeet.errors import (
    ConditionFailed,
    InvalidArgument,
    SchemaError,
    WatersmeetError,
    one_line,
)
from watersmeet.rows.address import Rows
from watersmeet.rows.leaves import Mask
from watersmeet.rows.output import OutputColumn

_MISSING = re.compile(r"No match for FieldRef\.Name\((.*?)\) in")

Predicate = Callable[[pa.RecordBatch], pa.Array]


@runtime_checkable
class Bindable(Protocol):
    """A condition in another language, SQL say, that can be computed once the columns are known."""

    def bind(self, schema: pa.Schema) -> BoundCondition:
        """The condition over these columns of a pair, or an error that says what is wrong."""
        ...


class BoundCondition(Protocol):
    @property
    def names(self) -> Sequence[str]:
        """The columns that it reads."""
        ...

    def holds(self, batch: pa.RecordBatch) -> Mask:
        """For which rows it is true; the batch has the columns `names`."""
        ...


ConditionLike: TypeAlias = "pc.Expression | Predicate | Bindable"


@dataclass(frozen=True, slots=True)
class Condition:
    """A filter of joined pairs, and the columns that are copied for it."""

    predicate: pc.Expression | Predicate | BoundCondition
    columns: tuple[OutputColumn, ...]
    schema: pa.Schema

    @classmethod
    def resolve(cls, predicate: ConditionLike, columns: Sequence[OutputColumn]) -> Condition:
        """Check an expression against the columns of a pair; keep only the columns it names."""
        schema = pa.schema([column.field for column in columns])
        if isinstance(predicate, pc.Expression):
            kind = _bind(predicate, schema)
            if not pa.types.is_boolean(kind):
                raise SchemaError(
                    f"The condition {predicate} is of type {kind}, not boolean.",
                    remedy="Compare its value with something.",
                )
            used = _used(predicate, schema)
            return cls._over(predicate, columns, used)
        if isinstance(predicate, Bindable):
            bound = predicate.bind(schema)
            return cls._over(bound, columns, bound.names)
        if not callable(predicate):
            raise InvalidArgument(
                f"condition={predicate!r} is no filter.",
                remedy="Give a pyarrow.compute expression or a function of a record batch.",
            )
        return cls(predicate, tuple(columns), schema)

    @classmethod
    def _over(
        cls,
        predicate: pc.Expression | BoundCondition,
        columns: Sequence[OutputColumn],
        used: Collection[str],
    ) -> Condition:
        chosen = tuple(column for column in columns if column.field.name in used)
        return cls(predicate, chosen, pa.schema([column.field for column in chosen]))

    def holds(self, rows: Sequence[Rows]) -> Mask:
        """For which candidates it is true; `rows` has one row of each input for each of them."""
        count = len(rows[0])
        gathered = [column.gather(rows, count) for column in self.columns]
        try:
            return self._evaluated(gathered, count)
        except WatersmeetError:
            raise
        except Exception as error:
            raise ConditionFailed(
                f"The condition raised {type(error).__name__}: {one_line(error)}.",
                remedy="Have it answer for every pair of rows with equal keys; nothing after the "
                "pair that it failed on was delivered.",
            ) from error

    def _evaluated(self, gathered: Sequence[pa.Array], rows: int) -> Mask:
        predicate = self.predicate
        if isinstance(predicate, pc.Expression):
            return _evaluate(predicate, gathered, self.schema, rows)
        if not gathered:
            batch = pa.RecordBatch.from_struct_array(
                pa.StructArray.from_buffers(pa.struct([]), rows, [None])
            )
        else:
            batch = pa.RecordBatch.from_arrays(list(gathered), schema=self.schema)
        if callable(predicate):
            return self._checked(predicate(batch), rows)
        return predicate.holds(batch)

    def _checked(self, answer: Any, rows: int) -> Mask:
        if isinstance(answer, pa.ChunkedArray):
            answer = answer.combine_chunks()
        if isinstance(answer, pa.Scalar) or not hasattr(answer, "__len__"):
            raise InvalidArgument(
                f"The condition returned {answer!r} for {rows} pairs.",
                remedy="Return one boolean for each row of the batch.",
            )
        if not isinstance(answer, pa.Array):
            answer = pa.array(answer)
        if not pa.types.is_boolean(answer.type) or len(answer) != rows:
            raise InvalidArgument(
                f"The condition returned {len(answer)} values of type {answer.type} "
                f"for {rows} pairs.",
                remedy="Return one boolean for each row of the batch.",
            )
        return _as_mask(answer)


def _as_mask(answer: pa.Array) -> Mask:
    if answer.null_count:
        answer = answer.fill_null(False)
    mask: Mask = answer.to_numpy(zero_copy_only=False)
    return mask


def _evaluate(
    expression: pc.Expression, columns: Sequence[pa.Array], schema: pa.Schema, rows: int
) -> Mask:
    if not columns:
        # An expression without columns has one value; Acero needs a row to compute it on.
        schema, columns = pa.schema([("row", pa.bool_())]), [pa.nulls(rows, pa.bool_())]
    table = pa.Table.from_arrays(list(columns), schema=schema)
    answer = _project(expression, table).column(0).combine_chunks()
    mask = _as_mask(answer)
    return mask if len(mask) == rows else np.zeros(rows, np.bool_)


def _project(expression: pc.Expression, table: pa.Table) -> pa.Table:
    plan = acero.Declaration.from_sequence(
        [
            acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
            acero.Declaration("project", acero.ProjectNodeOptions([expression], ["holds"])),
        ]
    )
    return plan.to_table(use_threads=False)


def _bind(expression: pc.Expression, schema: pa.Schema) -> pa.DataType:
    """The type of the expression's value, if the schema has the columns it names."""
    try:
        return _project(expression, schema.empty_table()).schema.field(0).type
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError) as error:
        # Arrow's text goes on with the whole schema, a line for each column.
        reason = one_line(error)
        missing = _MISSING.match(reason)
        if missing is not None:
            reason = f"there is no column {missing[1]!r}"
        raise SchemaError(
            f"The condition {expression} does not fit the joined columns "
            f"{', '.join(schema.names)}: {reason}.",
            remedy="Use the output's column names, suffixes included, and comparable types.",
        ) from error


def _used(expression: pc.Expression, schema: pa.Schema) -> set[str]:
    """The columns without which the expression cannot be computed.

    Expressions do not list their fields, so columns are left out, half of them at a time, to see
    whether the expression still binds. An expression that names columns by position is given all,
    since positions would shift.
    """
    if "FieldPath(" in str(expression):
        return set(schema.names)

    def needed(names: list[str], others: list[str]) -> set[str]:
        if not names or _binds(expression, [schema.field(name) for name in others]):
            return set()
        if len(names) == 1:
            return set(names)
        half = len(names) // 2
        first, second = names[:half], names[half:]
        return needed(first, others + second) | needed(second, others + first)

    return needed(schema.names, [])


def _binds(expression: pc.Expression, fields: list[pa.Field]) -> bool:
    try:
        _bind(expression, pa.schema(fields))
    except SchemaError:
        return False
    return True
