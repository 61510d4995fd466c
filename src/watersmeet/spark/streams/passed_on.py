"""Marker rows in the result of a join of streams: what all of its instances are done with.

An instance knows its own rows only. Two cases:

* A value of the whole key belongs to one instance, which alone has rows with it. It tells such a
  value as soon as it is done with it, in the same batch; others say nothing about it.
* Everything else (times, orders, ranges, one of several key columns) concerns all instances. Each
  notes in its version with what it is done; in the next batch the first instance reads the versions
  of all and tells what all have noted. A version never changes, so every attempt at the batch finds
  the same.

Marker rows are the last rows of what a version puts out, so they come exactly as often as its other
rows do, and never before a row that they would speak of: all rows of earlier batches have come out,
and of this batch no instance has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.model import Side
from watersmeet.operators.progressive.join import ProgressiveJoin
from watersmeet.promises.marked import MarkedOutput
from watersmeet.promises.passing import Passed, Passing, nothing_kept
from watersmeet.promises.subjects import Form
from watersmeet.rows.promises import Promise, Ranges, intersect, subtract, unite
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.routing import HashRouter

Noted = list[tuple[int, list[list[int]]]]
"""By subject, ranges of codes, for JSON."""


class PassedOn:
    """What one instance passes on in one batch."""

    def __init__(
        self,
        marked: MarkedOutput,
        join: JoinSchema,
        *,
        instance: int,
        instances: int,
        before: dict[str, Any] | None,
    ) -> None:
        """`before` is what the version before says of it."""
        self._marked = marked
        self._join = join
        self._instance = instance
        self._instances = instances
        self._passing = Passing(marked.subjects)
        self._times_read = 0
        self._noted: list[Passed] = []
        self._agreed: list[Passed] = []
        """What all instances have noted, to be told in this batch."""
        self._gathered: dict[int, list[Ranges]] = {}
        """By subject, what each instance is done with that not all are; of values that are told in
        order, all that each is done with. Only the first instance knows it."""
        if before is not None:
            self._passing.load(before["own"])
            self._gathered = {
                place: [_ranges(each) for each in some] for place, some in before["gathered"]
            }

    def gather(self, noted: Sequence[Noted]) -> None:
        """Take in what the instances noted in the batch before."""
        if self._instance > 0:
            return
        changed = set[int]()
        for number, each in enumerate(noted):
            for place, ranges in each:
                nothing = [_ranges([]) for _ in range(self._instances)]
                mine = self._gathered.setdefault(place, nothing)
                mine[number] = unite(np.concatenate([mine[number], _ranges(ranges)]))
                changed.add(place)
        for place in sorted(changed):
            if self._is_in_order(place):
                self._agreed += self._further(place)
            elif len(agreed := reduce(intersect, self._gathered[place])):
                self._gathered[place] = [subtract(each, agreed) for each in self._gathered[place]]
                self._agreed.append(Passed(place, agreed))

    def _further(self, place: int) -> list[Passed]:
        """All that is agreed about values that are told in order, if it is more than before: what
        was told is kept as one more set of ranges."""
        sets = self._gathered[place]
        told = sets.pop() if len(sets) > self._instances else _ranges([])
        agreed = reduce(intersect, sets)
        sets.append(agreed)
        return [Passed(place, agreed)] if agreed.tolist() != told.tolist() else []

    def hear(self, side: Side, promise: Promise) -> None:
        self._passing.hear(side, promise)

    def begin(self, operator: ProgressiveJoin) -> None:
        self._times_read = operator.times_purged[1]

    def rows(self, operator: ProgressiveJoin, *, finished: bool) -> pa.RecordBatch | None:
        """Marker rows of this batch, after all its other rows; None if there are none."""
        found: list[Passed] = []
        if self._passing.waits:
            read = operator.times_purged[1] != self._times_read
            kept = nothing_kept if finished else partial(operator.kept_codes, read=read)
            found = self._passing.look(kept)
        alone = [each for each in found if self._belongs_to_one(each.subject)]
        self._noted = [each for each in found if not self._belongs_to_one(each.subject)]
        markers = self._marked.markers(alone)
        if markers is not None and self._instances > 1:
            markers = self._own(markers)
        agreed = self._marked.markers(self._agreed)
        both = [each for each in (markers, agreed) if each is not None and len(each)]
        if not both:
            return None
        return pa.Table.from_batches(both).combine_chunks().to_batches()[0]

    def _is_in_order(self, place: int) -> bool:
        return self._marked.subjects[place].form in (Form.UP_TO, Form.FROM)

    def _belongs_to_one(self, place: int) -> bool:
        """Whether a marker row of a subject concerns one instance only."""
        subject = self._marked.subjects[place]
        is_whole = subject.number == 0 or len(self._join.keys) == 1
        fixes_key = is_whole and len(subject.sides) == 2 and subject.form is Form.EQUAL
        return self._instances == 1 or fixes_key

    def _own(self, markers: pa.RecordBatch) -> pa.RecordBatch:
        """Those about keys of this instance."""
        router = HashRouter.of(self._join, instances=self._instances)
        mine = np.zeros(len(markers), np.bool_)
        for place, subject in enumerate(self._marked.subjects):
            if not self._belongs_to_one(place):
                continue
            columns = [markers.column(column) for column in subject.columns]
            about = np.logical_and.reduce([_present(column) for column in columns])
            names = [key.left for key in self._join.keys]
            rows = pa.RecordBatch.from_arrays(columns, names=names).filter(pa.array(about))
            mine[np.flatnonzero(about)] = router.assign(Side.LEFT, rows) == self._instance
        return markers.filter(pa.array(mine))

    @property
    def is_news(self) -> bool:
        """Whether the first instance has to be told what this one noted."""
        return bool(self._noted)

    def describe(self) -> dict[str, Any]:
        return {
            "own": self._passing.save(),
            "noted": [(each.subject, each.ranges.tolist()) for each in self._noted],
            "gathered": [
                (place, [each.tolist() for each in some])
                for place, some in sorted(self._gathered.items())
            ],
        }


def _ranges(saved: list[list[int]]) -> Ranges:
    return np.array(saved, np.uint64).reshape(-1, 2)


def _present(column: pa.Array) -> Any:
    return column.is_valid().to_numpy(zero_copy_only=False)
