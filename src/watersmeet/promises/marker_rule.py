"""The rule for punctuations: marker rows say which rows will not come any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.expressions.condition import holds
from watersmeet.expressions.expression import Expression
from watersmeet.kernels import promised
from watersmeet.model import Side
from watersmeet.promises.axes import Axis
from watersmeet.promises.boxes import Boxes, covered
from watersmeet.promises.heard import Limits, Markers
from watersmeet.promises.kinds import How
from watersmeet.promises.patterns import Said, read_markers
from watersmeet.promises.remembered import Line, Points
from watersmeet.promises.rules import Columns, Rule
from watersmeet.promises.telling import Telling
from watersmeet.promises.values import comparable, present
from watersmeet.promises.watched import Watched
from watersmeet.rows.leaves import Mask
from watersmeet.rows.promises import LAST_CODE, Promise, Ranges

Places = NDArray[np.int64]


class MarkerRule(Rule):
    """What marker rows said, by the columns of which they said something."""

    def __init__(
        self,
        place: int,
        words: str,
        when: Expression,
        pattern: Sequence[tuple[str, How]],
        watched: Watched,
        side: Side,
        most: int,
    ) -> None:
        super().__init__(place, side, words)
        self._when = when
        self._pattern = tuple(pattern)
        self._watched = watched
        self._most = most
        self._groups: dict[tuple[int, ...], _Group] = {}
        """By the columns that are restricted, as positions in the pattern."""
        self._everything = False
        """Whether a marker row said that nothing comes any more."""

    def marks(self, rows: pa.RecordBatch) -> Mask:
        """Which rows are marker rows."""
        found: Mask = np.ascontiguousarray(holds(self._when.tree, rows))
        return found

    def read(self, rows: pa.RecordBatch) -> Said:
        """What marker rows say; ranges that are empty say nothing."""
        said = read_markers(self._pattern, rows)
        keep = np.ones(len(said.rows), np.bool_)
        for limits in said.limits:
            if limits.low is limits.high:
                continue
            scale = self._columns((limits.column,)).orders[0]
            assert scale is not None, "checked when the promise was given"
            low, high = scale.plain(limits.low), scale.plain(limits.high)
            lows, highs = comparable(low, high)
            keep &= ~(present(low) & present(high)) | (lows <= highs)
        return said.where(keep)

    def _columns(self, names: Sequence[str]) -> _Restricted:
        return _Restricted(self._watched, self.side, names)

    def prior(self, rows: pa.RecordBatch) -> Mask | None:
        broken = np.full(rows.num_rows, self._everything)
        for group in self._groups.values():
            broken |= group.covers(rows)
        return broken

    def among(self, rows: pa.RecordBatch, came: Places, said: Said) -> Mask:
        """Which rows of a batch came after a marker row of the same batch that said they would not.
        `came` are their places in the batch, as `said.rows` are those of marker rows."""
        broken = np.zeros(rows.num_rows, np.bool_)
        for columns, mask in said.by_columns():
            part = said.where(mask)
            if not columns:
                broken |= came > part.rows.min(initial=LAST_CODE >> 1)
                continue
            broken |= self._group(columns).covers_later(rows, came, part, columns)
        return broken

    def _group(self, columns: tuple[int, ...]) -> _Group:
        found = self._groups.get(columns)
        if found is None:
            names = [self._pattern[column][0] for column in columns]
            found = _Group(self._columns(names), self._most)
        return found

    def accept(self, rows: pa.RecordBatch) -> list[Promise]:
        return []

    def hear(self, said: Said, rows: pa.RecordBatch) -> list[Promise]:
        """What marker rows promise; `rows` has the marker row of each punctuation."""
        made: list[Promise] = []
        for columns, mask in said.by_columns():
            if not mask.any():
                continue
            if not columns:
                self._everything = True
                made.append(Promise.between(0, 0, LAST_CODE))
                continue
            group = self._groups[columns] = self._group(columns)
            part = said.where(mask)
            limits = [part.limits[column] for column in columns]
            group.add(limits)
            made += group.promises(limits, rows.filter(pa.array(mask)))
        return made

    def markers(self, said: Said, rows: pa.RecordBatch) -> Markers:
        return Markers(self.side, rows, said.limits)

    def why(self, row: pa.RecordBatch) -> str:
        return "a marker row had said that no more such rows come"

    @property
    def forgotten(self) -> int:
        return sum(group.memory.forgotten for group in self._groups.values())

    def save(self) -> dict[str, Any]:
        groups = [
            [list(columns), type(group.memory).__name__, group.memory.save()]
            for columns, group in sorted(self._groups.items())
        ]
        return {"everything": self._everything, "groups": groups}

    def load(self, saved: dict[str, Any]) -> None:
        self._everything = saved["everything"]
        self._groups = {}
        for columns, _, memory in saved["groups"]:
            group = self._groups[tuple(columns)] = self._group(tuple(columns))
            group.memory.load(memory)


class _Restricted:
    """Columns of which some marker rows say something, and how their values are compared."""

    def __init__(self, watched: Watched, side: Side, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.each = [Columns(watched.schema, side, [name]) for name in names]
        self.together = Columns(watched.schema, side, names)
        self.orders = [columns.order for columns in self.each]
        self.telling = Telling(watched, side, names)
        self.watched = watched
        self.side = side


class _Group:
    """What marker rows said about one set of columns."""

    def __init__(self, columns: _Restricted, most: int) -> None:
        self._columns = columns
        self._scales = [scale for scale in columns.orders if scale is not None]
        self.memory: Line | Points | Boxes
        if len(self._scales) < len(columns.names):
            self.memory = Points(most)
        elif columns.together.scale is not None:
            self.memory = Line(most)
        else:
            self.memory = Boxes(self._scales, most)

    def covers(self, rows: pa.RecordBatch) -> Mask:
        if isinstance(self.memory, Boxes):
            return self.memory.covers(self._values(rows))
        values = self._columns.together.plain(rows)
        if isinstance(self.memory, Points):
            return self.memory.covers(values)
        return self.memory.covers(comparable(values)[0]) & present(values)

    def _values(self, rows: pa.RecordBatch) -> list[pa.Array]:
        return [columns.ordered_values(rows) for columns in self._columns.each]

    def covers_later(
        self, rows: pa.RecordBatch, came: Places, said: Said, columns: tuple[int, ...]
    ) -> Mask:
        """Which rows came after a marker row that speaks of them."""
        limits = [said.limits[column] for column in columns]
        if isinstance(self.memory, Boxes):
            return covered(self._values(rows), came, self._ends(limits), said.rows)
        values = self._columns.together.plain(rows)
        if isinstance(self.memory, Points):
            return _equal_later(values, came, self._points(limits), said.rows)
        (codes,) = comparable(values)
        return present(values) & _inside_later(codes, came, self._ranges(limits), said.rows)

    def add(self, limits: Sequence[Limits]) -> None:
        if isinstance(self.memory, Boxes):
            self.memory.add(self._ends(limits))
        elif isinstance(self.memory, Points):
            self.memory.add(self._points(limits))
        else:
            self.memory.add(self._ranges(limits))

    def _points(self, limits: Sequence[Limits]) -> pa.Array:
        return self._columns.together.plain_of([each.low for each in limits])

    def _ends(self, limits: Sequence[Limits]) -> list[tuple[pa.Array, pa.Array]]:
        return [
            (scale.plain(each.low), scale.plain(each.high))
            for scale, each in zip(self._scales, limits, strict=True)
        ]

    def _ranges(self, limits: Sequence[Limits]) -> Ranges:
        ((low, high),) = self._ends(limits)
        return _closed(low, high)

    def promises(self, limits: Sequence[Limits], rows: pa.RecordBatch) -> list[Promise]:
        """What is promised under watched predicates: about a column alone, or the whole key."""
        columns, telling = self._columns, self._columns.telling
        made: list[Promise] = []
        for number, axis in telling.axes:
            ranges = _certain(axis, limits[0])
            if len(ranges):
                made.append(columns.watched.promise(number, columns.side, ranges))
        values = all(each.low is each.high for each in limits)
        if values and (telling.names_keys or (telling.speaks and not telling.axes)):
            filled = rows
            for place, each in zip(columns.together.places, limits, strict=True):
                filled = filled.set_column(place, rows.schema.field(place), each.low)
            made += telling.promises(telling.codes(filled, in_order=False))
        return made


def _closed(low: pa.Array, high: pa.Array) -> Ranges:
    """Ranges from plain values that are codes; null for no end."""
    lows, highs = comparable(low, high)
    first = np.where(present(low), lows, np.uint64(0))
    return np.column_stack([first, np.where(present(high), highs, np.uint64(LAST_CODE))])


def _certain(axis: Axis, limits: Limits) -> Ranges:
    """The codes that only values inside of the limits have."""
    low, high = axis.encode(limits.low), axis.encode(limits.high)
    one = np.uint64(1)
    first = np.where(low.known | (low.codes == LAST_CODE), low.codes, low.codes + one)
    last = np.where(high.known | (high.codes == 0), high.codes, high.codes - one)
    first = np.where(present(limits.low), first, np.uint64(0))
    last = np.where(present(limits.high), last, np.uint64(LAST_CODE))
    # A value that the type in which columns are compared does not have says nothing.
    possible = (low.present | ~present(limits.low)) & (high.present | ~present(limits.high))
    return np.column_stack([first, last])[possible & (first <= last)]


def _inside_later(codes: Any, came: Places, ranges: Ranges, ranges_came: Places) -> Mask:
    """Which codes lie in a range that came before them; ranges are in the order they came in."""
    if not len(ranges):
        return np.zeros(len(codes), np.bool_)
    # Each code at which a range starts, or that is the last of one, is a place of its own, and so
    # are all codes between two of them.
    ends = np.unique(ranges)
    starts = 2 * np.searchsorted(ends, ranges[:, 0]) + 1
    stops = 2 * np.searchsorted(ends, ranges[:, 1]) + 2
    first = np.full(2 * len(ends) + 1, len(ranges), np.int64)
    promised.paint(starts.astype(np.int64), stops.astype(np.int64), first)
    below = np.searchsorted(ends, codes, side="left")
    is_end = (below < len(ends)) & (ends[np.minimum(below, len(ends) - 1)] == codes)
    since = np.append(ranges_came, np.iinfo(np.int64).max)[first[2 * below + is_end]]
    later: Mask = since < came
    return later


def _equal_later(values: pa.Array, came: Places, points: pa.Array, points_came: Places) -> Mask:
    """Which values equal a point that came before them."""
    numbers = pa.concat_arrays([points, values]).dictionary_encode()
    index = numbers.indices.fill_null(0).to_numpy(zero_copy_only=False)
    since = np.full(max(len(numbers.dictionary), 1), np.iinfo(np.int64).max)
    known = present(points)
    np.minimum.at(since, index[: len(points)][known], points_came[known])
    later: Mask = present(values) & (since[index[len(points) :]] < came)
    return later
