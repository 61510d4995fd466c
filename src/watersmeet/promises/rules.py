"""Rules: what a keeper does for one promise. Here those about values that have come before.

A rule says which rows break what was promised before their batch, what must hold between the rows
of one batch, and what the rows that were accepted promise about rows to come.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.kernels import promised
from watersmeet.model import Side
from watersmeet.promises.remembered import Line, Points
from watersmeet.promises.telling import Telling, Told
from watersmeet.promises.values import Scale, Together, comparable, from_json, present, to_json
from watersmeet.rows.encoded import Codes
from watersmeet.rows.leaves import Mask
from watersmeet.rows.promises import Promise
from watersmeet.rows.schema import JoinSchema


class Step(NamedTuple):
    """What a rule asks of the rows of one batch, one after the other (`promised.find_broken`)."""

    kind: int
    codes: Codes
    floors: Codes
    present: Mask
    bound: int = 0
    current: int = -1
    groups: int = 0


class Rule(ABC):
    """One promise about one side: number `place` of all promises."""

    def __init__(self, place: int, side: Side, words: str) -> None:
        self.place = place
        self.side = side
        self.words = words

    def prior(self, rows: pa.RecordBatch) -> Mask | None:
        """Which rows break what was promised before this batch."""
        return None

    def step(self, rows: pa.RecordBatch) -> Step | None:
        """What must hold between the rows of this batch."""
        return None

    @abstractmethod
    def accept(self, rows: pa.RecordBatch) -> list[Promise]:
        """What these rows promise, now that they are part of the join."""

    @abstractmethod
    def why(self, row: pa.RecordBatch) -> str:
        """Why a row, alone in its batch, breaks the promise."""

    @property
    def forgotten(self) -> int:
        """How much of what was promised is not checked any more, for want of room."""
        return 0

    @abstractmethod
    def save(self) -> dict[str, Any]: ...

    @abstractmethod
    def load(self, saved: dict[str, Any]) -> None: ...


class Columns:
    """Some columns of one side, and their values as they are remembered."""

    def __init__(self, schema: JoinSchema, side: Side, names: Sequence[str]) -> None:
        self.names = tuple(names)
        stored = schema.stored(side)
        self.places = tuple(stored.get_field_index(name) for name in names)
        kinds = tuple(stored.field(place).type for place in self.places)
        pads = {key.of(side): key.padding[side] for key in schema.keys}
        paddings = tuple(pads.get(name, 0) for name in names)
        self.order = Scale.of(kinds[0], paddings[0]) if len(names) == 1 else None
        """How values of the only column are ordered; None if they are not."""
        coded = self.order is not None and self.order.axis is not None
        self.scale = self.order if coded else None
        """How the only column becomes codes of its own; None if bytes stand for values."""
        self._together = Together(self.places, kinds, paddings)

    def plain(self, rows: pa.RecordBatch) -> pa.Array:
        return self.plain_of([rows.column(place) for place in self.places])

    def plain_of(self, columns: list[pa.Array]) -> pa.Array:
        if self.scale is not None:
            return self.scale.plain(columns[0])
        return self._together.plain(columns)

    def ordered_values(self, rows: pa.RecordBatch) -> pa.Array:
        """The values of the only column, in their order."""
        assert self.order is not None
        return self.order.plain(rows.column(self.places[0]))

    @property
    def plain_type(self) -> pa.DataType:
        return pa.uint64() if self.scale is not None else pa.large_binary()

    def words(self, row: pa.RecordBatch) -> str:
        """The values of a row, for a person to read."""
        values = [str(row.column(place)[0].as_py())[:60] for place in self.places]
        pairs = zip(self.names, values, strict=True)
        return " and ".join(f"{name} = {value}" for name, value in pairs)


class Seen:
    """Values that have been promised not to come again."""

    def __init__(self, columns: Columns, most: int) -> None:
        self.line = Line(most) if columns.scale is not None else None
        self._points = Points(most)

    def covers(self, values: pa.Array) -> Mask:
        if self.line is None:
            return self._points.covers(values)
        return self.line.covers(comparable(values)[0]) & present(values)

    def add(self, values: pa.Array) -> None:
        if self.line is None:
            self._points.add(values)
        else:
            codes = comparable(values)[0][present(values)]
            self.line.add(np.column_stack([codes, codes]))

    @property
    def forgotten(self) -> int:
        return self._points.forgotten if self.line is None else self.line.forgotten

    def save(self) -> dict[str, Any]:
        return self._points.save() if self.line is None else self.line.save()

    def load(self, saved: dict[str, Any]) -> None:
        if self.line is None:
            self._points.load(saved)
        else:
            self.line.load(saved)


class UniqueRule(Rule):
    """A row's values are promised as soon as it has come."""

    def __init__(
        self, place: int, words: str, columns: Columns, telling: Telling, side: Side, most: int
    ) -> None:
        super().__init__(place, side, words)
        self.columns = columns
        self._telling = telling
        self.seen = Seen(columns, most)

    def prior(self, rows: pa.RecordBatch) -> Mask | None:
        return self.seen.covers(self.columns.plain(rows))

    def step(self, rows: pa.RecordBatch) -> Step | None:
        codes, there, groups = _grouped(self.columns.plain(rows))
        return Step(promised.UNIQUE, codes, codes, there, groups=groups)

    def accept(self, rows: pa.RecordBatch) -> list[Promise]:
        self.seen.add(self.columns.plain(rows))
        return self._telling.promises(self._telling.codes(rows))

    def why(self, row: pa.RecordBatch) -> str:
        return f"a row with {self.columns.words(row)} had come before"

    @property
    def forgotten(self) -> int:
        return self.seen.forgotten

    def save(self) -> dict[str, Any]:
        return self.seen.save()

    def load(self, saved: dict[str, Any]) -> None:
        self.seen.load(saved)


class ClusteredRule(Rule):
    """The values that came before another are promised when that other one comes.

    *Open* are the values that may come again. Where rows of a batch have an order it is the last
    one that came. Where they have none, each new value of a batch may have been the last: then
    all new values are open, until the next batch has one of them, or another.
    """

    def __init__(
        self,
        place: int,
        words: str,
        columns: Columns,
        telling: Telling,
        side: Side,
        most: int,
        *,
        ordered: bool,
    ) -> None:
        super().__init__(place, side, words)
        self.columns = columns
        self._telling = telling
        self._most = most
        self._ordered = ordered
        self.seen = Seen(columns, most)
        """Values whose rows have ended."""
        self._open = pa.array([], columns.plain_type)
        self._told: list[Told] = []
        """The codes of the open values, under each watched predicate."""

    def prior(self, rows: pa.RecordBatch) -> Mask | None:
        values = self.columns.plain(rows)
        ended = self.seen.covers(values)
        if not self._ordered and len(self._open) > 1:
            # Only one of the open values was the last one: others that come again had ended.
            again = pc.unique(values.filter(_is_in(values, self._open)))
            if len(again) > 1:
                ended |= _mask(_is_in(values, again.take(pc.sort_indices(again)[1:])))
        return ended

    def step(self, rows: pa.RecordBatch) -> Step | None:
        if not self._ordered:
            return None
        values = self.columns.plain(rows)
        codes, there, groups = _grouped(pa.concat_arrays([self._open, values]))
        skipped = len(self._open)
        current = int(codes[0]) if skipped else -1
        codes, there = codes[skipped:], there[skipped:]
        return Step(promised.CLUSTERED, codes, codes, there, current=current, groups=groups)

    def accept(self, rows: pa.RecordBatch) -> list[Promise]:
        values = self.columns.plain(rows)
        rows = rows.filter(pa.array(present(values)))
        values = values.filter(pa.array(present(values)))
        if not len(values):
            return []
        told = self._with_open(self._telling.codes(rows))
        both = pa.concat_arrays([self._open, values])
        if self._ordered:
            stays = _mask(_is_in(both, both[-1:]))
        elif (new := ~_mask(_is_in(both, self._open))).any():
            stays = new
        else:
            stays = _mask(_is_in(both, values))
        self.seen.add(both.filter(pa.array(~stays)))
        ended = [each.where(~stays) for each in told]
        # One line for each open value; so many that there is no room for are never promised.
        index = _first_of_each(both, stays)[: self._most]
        self._open = both.take(pa.array(index))
        self._told = [each.at(index) for each in told]
        return self._telling.promises(ended)

    def _with_open(self, told: list[Told]) -> list[Told]:
        """The codes of the open values, followed by those of new rows."""
        none = np.empty(0, np.int64)
        before = self._told or [each.at(none) for each in told]
        return [old.followed_by(new) for old, new in zip(before, told, strict=True)]

    def why(self, row: pa.RecordBatch) -> str:
        return f"rows with {self.columns.words(row)} had ended: other values came after them"

    @property
    def forgotten(self) -> int:
        return self.seen.forgotten

    def save(self) -> dict[str, Any]:
        told = [each.save() for each in self._told]
        return {"ended": self.seen.save(), "open": to_json(self._open), "told": told}

    def load(self, saved: dict[str, Any]) -> None:
        self.seen.load(saved["ended"])
        self._open = from_json(saved["open"], self.columns.plain_type)
        self._told = [Told.load(each) for each in saved["told"]]


def _grouped(values: pa.Array) -> tuple[Codes, Mask, int]:
    """A number for each value, the same for equal ones; which are not null; how many numbers."""
    encoded = values.dictionary_encode()
    numbers = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.uint64)
    return numbers, present(values), max(len(encoded.dictionary), 1)


def _is_in(values: pa.Array, others: pa.Array) -> pa.Array:
    return pc.is_in(values, value_set=others, skip_nulls=True)


def _mask(found: pa.Array) -> Mask:
    mask: Mask = found.to_numpy(zero_copy_only=False)
    return mask


def _first_of_each(values: pa.Array, wanted: Mask) -> Any:
    """The places of the first of each value among those that are wanted."""
    places = np.flatnonzero(wanted)
    numbers, _, _ = _grouped(values.take(pa.array(places)))
    return places[np.sort(np.unique(numbers, return_index=True)[1])]
