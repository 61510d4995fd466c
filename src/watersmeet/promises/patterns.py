"""Marker rows, and what each of them says about the columns of rows to come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from watersmeet.errors import SchemaError, one_line
from watersmeet.promises.heard import Limits
from watersmeet.promises.kinds import Equality, FromTo, How, OneOf
from watersmeet.promises.values import present
from watersmeet.rows.leaves import Mask

Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Said:
    """Punctuations that marker rows said: number k is of the marker row `rows[k]`."""

    rows: Places
    limits: tuple[Limits, ...]
    wanted: tuple[Mask, ...]
    """For each column, which punctuations say something about it."""

    def where(self, mask: Mask) -> Said:
        limits = tuple(each.where(mask) for each in self.limits)
        return Said(self.rows[mask], limits, tuple(each[mask] for each in self.wanted))

    def by_columns(self) -> list[tuple[tuple[int, ...], Mask]]:
        """The sets of columns that punctuations say something about, by position in `limits`, and
        which of them speak of each set."""
        if not self.wanted:
            return [((), np.ones(len(self.rows), np.bool_))]
        spoken, group = np.unique(np.stack(self.wanted, axis=1), axis=0, return_inverse=True)
        return [
            (tuple(np.flatnonzero(columns).tolist()), group.reshape(-1) == number)
            for number, columns in enumerate(spoken)
        ]


def read_markers(pattern: Sequence[tuple[str, How]], rows: pa.RecordBatch) -> Said:
    """What marker rows say, by a pattern. A list of values says as much as a punctuation for each
    value; an empty one says nothing."""
    lists = {name: rows.column(how.column) for name, how in pattern if isinstance(how, OneOf)}
    origin = np.arange(rows.num_rows)
    chosen: dict[str, pa.Array] = {}
    for name, values in lists.items():
        parent, elements = _spread(values.take(pa.array(origin)))
        origin = origin[parent]
        chosen = {other: each.take(pa.array(parent)) for other, each in chosen.items()}
        chosen[name] = elements
    limits: list[Limits] = []
    for name, how in pattern:
        kind = rows.schema.field(name).type
        match how:
            case Equality():
                low = high = rows.column(name)
            case FromTo(first, last):
                low, high = (_bound(rows, end, kind) for end in (first, last))
            case OneOf():
                limits.append(Limits(name, *[_cast(chosen[name], kind, name)] * 2))
                continue
        index = pa.array(origin)
        low = low.take(index)
        limits.append(Limits(name, low, low if isinstance(how, Equality) else high.take(index)))
    wanted = tuple(present(each.low) | present(each.high) for each in limits)
    return Said(origin, tuple(limits), wanted)


def _spread(lists: pa.Array) -> tuple[Places, pa.Array]:
    """A line for each element that is not null, and one for each list that is null: the list that
    it comes from, and the element."""
    is_list = present(lists)
    sizes = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    starts = np.cumsum(sizes) - sizes
    lines = np.where(is_list, sizes, 1)
    parent = np.repeat(np.arange(len(lists)), lines)
    nth = np.arange(len(parent)) - np.repeat(np.cumsum(lines) - lines, lines)
    index = pa.array(starts[parent] + nth, mask=~is_list[parent])
    elements = pc.list_flatten(lists).take(index)
    kept = present(elements) | ~is_list[parent]
    return parent[kept], elements.filter(pa.array(kept))


def _bound(rows: pa.RecordBatch, column: str | None, kind: pa.DataType) -> pa.Array:
    if column is None:
        return pa.nulls(rows.num_rows, kind)
    return _cast(rows.column(column), kind, column)


def _cast(values: pa.Array, kind: pa.DataType, column: str) -> pa.Array:
    if values.type == kind:
        return values
    try:
        return values.cast(kind)
    except pa.ArrowInvalid as error:
        raise SchemaError(
            f"A marker row has a value in {column!r} that no {kind} is: {one_line(error)}.",
            remedy="Give the columns of a pattern the type of the column that they speak of.",
        ) from error
