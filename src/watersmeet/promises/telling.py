"""What a keeper of promises tells the join: values of some columns as promises of codes or keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.model import Side
from watersmeet.promises.axes import Axis
from watersmeet.promises.kinds import Unique
from watersmeet.promises.values import from_json, to_json
from watersmeet.promises.watched import Watched
from watersmeet.rows.encoded import Codes
from watersmeet.rows.leaves import Mask
from watersmeet.rows.promises import Promise
from watersmeet.rows.schema import JoinSchema
from watersmeet.rows.types import rounds


def has_unique_keys(schema: JoinSchema, promise: Unique) -> bool:
    """Whether no two rows have the same key, because columns that are part of it are unique, and
    no two of their values become the same part of a key."""
    side = promise.side
    keys = {key.of(side): key for key in schema.keys}
    unique = keys if promise.columns is None else promise.columns
    return bool(unique) and all(
        name in keys and not rounds(schema.inputs[side].field(name).type, keys[name].kind)
        for name in unique
    )


@dataclass(frozen=True, slots=True)
class Told:
    """Codes of values under one watched predicate."""

    number: int
    codes: Codes
    known: Mask
    """Which of them can be promised: codes that stand for one value alone, or that have a key."""
    keys: pa.Array | None = None
    """The keys, where several may have the same code."""

    def where(self, mask: Mask) -> Told:
        """The same codes, of which only some can be promised."""
        return replace(self, known=self.known & mask)

    def at(self, index: NDArray[np.int64]) -> Told:
        keys = None if self.keys is None else self.keys.take(pa.array(index))
        return Told(self.number, self.codes[index], self.known[index], keys)

    def followed_by(self, other: Told) -> Told:
        codes = np.concatenate([self.codes, other.codes])
        known = np.concatenate([self.known, other.known])
        keys = None if self.keys is None else pa.concat_arrays([self.keys, other.keys])
        return Told(self.number, codes, known, keys)

    def save(self) -> list[Any]:
        keys = [] if self.keys is None else [to_json(self.keys)]
        return [self.number, self.codes.tolist(), self.known.tolist(), *keys]

    @classmethod
    def load(cls, saved: list[Any]) -> Told:
        number, codes, known, *keys = saved
        named = from_json(keys[0], pa.large_binary()) if keys else None
        return cls(number, np.array(codes, np.uint64), np.array(known, np.bool_), named)


class Telling:
    """How values of some columns become promises of codes."""

    def __init__(
        self, watched: Watched, side: Side, names: Sequence[str], *, may_name_keys: bool = True
    ) -> None:
        self._watched = watched
        self._side = side
        stored = watched.schema.stored(side)
        self._place = stored.get_field_index(names[0])
        self.axes: list[tuple[int, Axis]] = []
        if len(names) == 1:
            self.axes = watched.about(side, names[0])
        self._equal = watched.equal(side, names)
        if self._equal is not None:
            _, equal = self._equal
            rounded = (rounds(stored.field(key.of(side)).type, key.kind) for key in equal.keys)
            # What can be told in order is told so; other values may become the same key.
            in_order = equal.codes_decide and bool(self.axes)
            if in_order or any(rounded) or not (equal.codes_decide or may_name_keys):
                self._equal = None

    @property
    def speaks(self) -> bool:
        """Whether anything can be promised."""
        return bool(self.axes) or self._equal is not None

    @property
    def names_keys(self) -> bool:
        """Whether promises name keys, because several may have the same code."""
        return self._equal is not None and not self._equal[1].codes_decide

    def codes(self, rows: pa.RecordBatch, *, in_order: bool = True) -> list[Told]:
        """The codes of these rows; without those that keep the order of values, if another has
        told them as ranges."""
        told: list[Told] = []
        rest = np.ones(rows.num_rows, np.bool_)
        for number, axis in self.axes:
            coded = axis.encode(rows.column(self._place))
            if in_order:
                told.append(Told(number, coded.codes, coded.known))
            rest &= ~coded.known
        if self._equal is not None:
            number, equal = self._equal
            encoded = equal.encoder(self._side)(rows)
            known = rest if encoded.valid is None else rest & encoded.valid
            keys = equal.keys_of(self._side, encoded, rows)
            told.append(Told(number, encoded.codes, known, keys))
        return told

    def promises(self, told: list[Told]) -> list[Promise]:
        """No more rows with these values."""
        made: list[Promise] = []
        for each in told:
            if not each.known.any():
                continue
            if each.keys is not None:
                keys = each.keys.filter(pa.array(each.known))
                made.append(Promise.of_keys(each.number, each.codes[each.known], keys))
                continue
            some = np.unique(each.codes[each.known])
            ranges = np.column_stack([some, some])
            made.append(self._watched.promise(each.number, self._side, ranges))
        return made
