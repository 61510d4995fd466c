"""Totals of blocks as they come from several threads, inside a share of the memory."""

from __future__ import annotations

import threading

from watersmeet.aggregates.allowance import TooManyGroups
from watersmeet.aggregates.ask.question import ResolvedQuestion
from watersmeet.aggregates.partials.totals import BlockTotals, GroupTotals, added_up
from watersmeet.store.leftovers import hand_back
from watersmeet.words import megabytes

# Adding up costs as much as there is already, so it waits for as much again, and this at least.
_WAITING = 1 << 16
# While parts are added up: the parts, all of them in one, and the sum; and what Arrow needs to
# number a group, measured with texts.
_COPIES = 3
_NUMBERING_BYTES = 250
_WIDE_BYTES = 64


def part_bytes(part: GroupTotals) -> int:
    """What totals by group take."""
    held = part.pairs.nbytes + part.rows.nbytes + sum(values.nbytes for values in part.groups)
    for sums in part.sums:
        values = sums.total.values
        wide = _WIDE_BYTES * len(values) if values.dtype == object else 0
        held += sums.count.nbytes + values.nbytes + wide
        held += sum(
            each.nbytes for each in (sums.error, sums.squares, sums.ends) if each is not None
        )
    return int(held)


class Summing:
    """Keeps the totals of each block apart for an estimate, or adds them up for an answer."""

    def __init__(self, question: ResolvedQuestion, *, most: int, apart: bool) -> None:
        self._question = question
        self._most = most
        self._apart = apart
        self._lock = threading.Lock()
        self._found: list[BlockTotals] = []
        self._waiting = 0
        self._bytes = 0

    def add(self, block: BlockTotals) -> None:
        with self._lock:
            self._found.append(block)
            self._bytes += part_bytes(block.part)
            self._waiting += len(block.part)
            if not self._apart and len(self._found) > 1:
                first = len(self._found[0].part)
                waiting = self._waiting - first
                if waiting > max(first, _WAITING) or self._needed() > self._most:
                    self._add_up()
            self._check()

    def totals(self) -> list[BlockTotals]:
        with self._lock:
            if not self._apart and len(self._found) > 1:
                self._add_up()
                self._check()
            self._in_order()
            return self._found

    def _in_order(self) -> None:
        """Threads end in any order; groups are numbered, and doubles added, in that of the blocks,
        so that the same seed gives the same answer."""
        self._found.sort(key=lambda each: each.block)

    def _add_up(self) -> None:
        self._in_order()
        hand_back()  # what was freed since the last time: adding up takes as much again
        self._found = [added_up(self._found, self._question)]
        self._waiting = len(self._found[0].part)
        self._bytes = part_bytes(self._found[0].part)

    def _needed(self) -> int:
        return _COPIES * self._bytes + _NUMBERING_BYTES * self._waiting

    def _check(self) -> None:
        if self._needed() > self._most:
            raise too_many_groups(self._waiting, self._needed(), self._most)


def too_many_groups(groups: int, needed: int, most: int) -> TooManyGroups:
    return TooManyGroups(
        f"There are at least {groups:,} groups, whose totals take {megabytes(needed)}; of memory= "
        f"there are {megabytes(most)} for them.",
        remedy=f"Give about {megabytes(2 * needed).replace(' ', '').replace(',', '')} more, group "
        "more coarsely, or use Spark's own aggregate.",
    )


def sample_bytes(question: ResolvedQuestion) -> int:
    """About what a group takes while its intervals are made: sums of products of all moments, as
    they are kept and as they are computed with, and the cells of all looks."""
    moments = question.moments
    squares = moments * (moments + 1) // 2
    cubes = moments * (moments + 1) * (moments + 2) // 6
    expressions = len(question.aggregates.expressions)
    kept = 4 * moments + 2 * squares + cubes + 2 * expressions + 4
    # Room is doubled when it is used up.
    return 8 * (2 * kept + 3 * (squares + cubes)) + 400 * len(question.aggregates.asked)
