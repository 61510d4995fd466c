"""Rows that may go before the end: what promises and first partners let a join forget.

A row may go when nothing can follow from it any more: all rows that match it and are there have met
it, and no more will come. `end` promises the latter for a whole input, `punctuate` for ranges of
codes. Nothing comes twice and nothing is lost, for three reasons:

* **A row goes only when it owes nothing.** A row in memory has met all of the other side's memory.
  What it may owe is pairs with the other side's disk, and it owes none once an md-task has joined
  them after it came, and none to runs that left memory while it was there. Both stay true for ever,
  so there is a stamp for each side and partition, `purged`, that only rises: rows that came before
  it owe nothing. A run goes, or is written again without some of its rows, when the history says
  that it has met all runs and all of memory on the other side.
* **It goes in the call in which it is reported.** An outer or anti join reports a row without a
  partner when it drops it, and a row that is neither in memory nor in a run is not there for the
  clean-up to report again.
* **It does not rise again.** Runs are replaced by runs without the row. A segment of saved rows is
  not; there the promise is the tombstone: at every moment no row is in memory that came before
  `purged` of its partition and whose partners were promised away. So of a segment's rows exactly
  these are left out when it is read (`ProgressiveWorkspace.let_go`), and rows that came later,
  although the promise speaks of them too, are kept.

A row that comes after the promise about its partners goes as soon as it has met what is there: at
once, or if something of its partition is on disk, when that has been settled.

Where equal codes are not equal keys, a promise is not accepted: nothing is let go, which is always
right. Who breaks a promise is counted, and joined with what is there.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from watersmeet.errors import InvalidArgument
from watersmeet.model import Side
from watersmeet.operators.emitter import Stamps
from watersmeet.operators.progressive.debt import find_debt
from watersmeet.operators.progressive.workspace import ProgressiveWorkspace
from watersmeet.rows.address import Matches
from watersmeet.rows.encoded import Codes
from watersmeet.rows.leaves import Mask
from watersmeet.rows.promises import Promise, Promises, Ranges, intersect
from watersmeet.store.runs import Piece, RunWriter, SpilledRun
from watersmeet.store.spill import IoKind

# Promises about both sides that may gather before they are forgotten, for which all rows in memory
# are saved anew.
_MANY_SPENT = 256


class Purging:
    """Lets go of rows in memory at once, and of rows on disk now and then."""

    def __init__(self, workspace: ProgressiveWorkspace) -> None:
        self._workspace = workspace
        self._read_after = 0
        """How many rows had come when the runs were last read for rows that may go."""
        self.spent: Ranges | None = None
        """Codes of which nothing is there and nothing will come: about them no promise is needed,
        once all that is saved of memory has been saved anew."""

    def accept(self, side: Side, promise: Promise) -> Iterator[Matches]:
        """Let go of what is in memory and waits for nothing else than what was promised away."""
        workspace = self._workspace
        if not 0 <= promise.predicate < len(workspace.schema.predicates):
            raise InvalidArgument(
                f"A promise is about predicate {promise.predicate}, and this join has "
                f"{len(workspace.schema.predicates)}.",
                remedy="Number predicates from 0 on, in the order of `on`.",
            )
        if workspace.schema.predicates[promise.predicate].codes_decide:
            workspace.promises.accept(side, promise)
            yield from self._sweep_side(side.other, since=0)

    def sweep(self) -> Iterator[Matches]:
        """Let go of rows in memory that owed something when they came and owe nothing now."""
        for side in Side:
            if self._workspace.is_promised(side.other):
                yield from self._sweep_side(side, since=int(self._workspace.purged[side].min()))

    def _sweep_side(self, side: Side, *, since: int) -> Iterator[Matches]:
        """Among the rows that came at the stamp `since` or later."""
        workspace = self._workspace
        table, purged = workspace.memory.tables[side], workspace.purged[side]
        np.maximum(purged, self._owing_nothing(side), out=purged)
        first = int(np.searchsorted(table.stamps, since))
        codes, stamps = table.codes(np.arange(first, len(table))), table.stamps[first:]
        gone = stamps < purged[workspace.memory.partition_of(codes)]
        gone[gone] = workspace.without_partners(side, codes[gone])
        index = first + np.flatnonzero(gone)
        if not len(index):
            return
        yield from workspace.emitter.unmatched(side, table, index, table.stamps)
        keep = np.ones(len(table), np.bool_)
        keep[index] = False
        counts = np.bincount(
            workspace.memory.partition_of(codes[gone]), minlength=workspace.tuning.partitions
        )
        table.drop(keep, counts)
        workspace.metrics.rows_purged += len(index)
        workspace.report_memory()

    def _owing_nothing(self, side: Side) -> NDArray[np.int64]:
        """By partition a stamp, such that rows in memory that came before it owe nothing."""
        workspace = self._workspace
        if not workspace.algorithm.joins_on_arrival:  # memory may owe memory, or come to owe it
            return np.zeros(workspace.tuning.partitions, np.int64)
        stamps = np.full(workspace.tuning.partitions, workspace.stamp)
        resident = workspace.memory.tables[side].by_partition
        for p, disk in enumerate(workspace.disk.partitions):
            if disk.runs[side.other] and resident[p]:
                debt = find_debt(workspace, p)
                if debt is not None and debt.md(side):
                    left = disk.runs[side.other][0].departed[0]
                    stamps[p] = max(left, workspace.expected.last_md[side, p])
        return stamps

    # ---- rows on disk ---------------------------------------------------------------------------

    @property
    def is_due(self) -> bool:
        """Whether so many rows have come that it is worth to read what is on disk. A promise does
        not say how many rows there it is about."""
        workspace = self._workspace
        rows = int(workspace.expected.on_disk.sum())
        if not workspace.algorithm.joins_on_arrival:  # then memory is written out, and read
            rows += int(workspace.memory.rows.sum())
        came = sum(workspace.metrics.rows_in) - self._read_after
        some_may_go = workspace.promises or any(map(workspace.emitter.decides, Side))
        return bool(some_may_go and rows and came >= workspace.tuning.purge_share * rows)

    def purge_runs(self) -> Iterator[Matches]:
        """Let go of what is on disk. No task may be under way there. Of runs that owe something
        only those rows go that are decided."""
        workspace = self._workspace
        self._read_after = sum(workspace.metrics.rows_in)
        for side in Side:
            if workspace.is_promised(side.other) or workspace.emitter.decides(side):
                output = _Output(workspace, side)
                for p in range(workspace.tuning.partitions):
                    yield from self._purge_partition(side, p, output)
                output.close()

    def _purge_partition(self, side: Side, p: int, output: _Output) -> Iterator[Matches]:
        workspace, disk = self._workspace, self._workspace.disk[p]
        debt = find_debt(workspace, p)
        kept: list[SpilledRun] = []
        for number, run in enumerate(disk.runs[side]):
            owes = debt is not None and bool(debt.of(side)[number])
            if not self._has_some_to_go(side, run, owes=owes):
                kept.append(run)
                continue
            live = yield from self._without_those_to_go(side, run, output, owes=owes)
            if live is not None:
                kept.append(live)
            workspace.metrics.rows_purged += run.rows - (live.rows if live else 0)
            run.remove()
        if kept != disk.runs[side]:
            disk.runs[side][:] = kept
            workspace.disk.changed(p)
            workspace.expected.purged(side, p, sum(run.rows for run in kept))

    def _has_some_to_go(self, side: Side, run: SpilledRun, *, owes: bool) -> bool:
        decides = self._workspace.emitter.decides(side)
        if (owes and not decides) or self._goes_whole(side, run, owes=owes):
            return not owes
        blocks = np.arange(run.block_count)
        if not decides:
            blocks = blocks[self._workspace.promises.touch(side.other, 0, *self._reach(side, run))]
        read = run.open(IoKind.SCAN)
        return any(self._to_go(side, read(number), owes=owes).any() for number in blocks.tolist())

    def _goes_whole(self, side: Side, run: SpilledRun, *, owes: bool) -> bool:
        """Whether a run can be dropped unread: no row of it is a result for want of a partner."""
        if owes or self._workspace.schema.how.keeps_unmatched(side):
            return False
        promises = self._workspace.promises
        return bool(promises.cover(side.other, 0, *self._reach(side, run)).all())

    def _reach(self, side: Side, run: SpilledRun) -> tuple[Codes, Codes]:
        """Where the partners of each block's rows are."""
        predicate = self._workspace.schema.predicates[0]
        first = np.array([block.first_code for block in run.blocks], np.uint64)
        last = np.array([block.last_code for block in run.blocks], np.uint64)
        return predicate.reach(side, first)[0], predicate.reach(side, last)[1]

    def _without_those_to_go(
        self, side: Side, run: SpilledRun, output: _Output, *, owes: bool
    ) -> Generator[Matches, None, SpilledRun | None]:
        """Write a run again; None if all of it may go."""
        if self._goes_whole(side, run, owes=owes):
            return None
        read = run.open(IoKind.MERGE_READ)
        stamps: list[Stamps] = []
        for number in range(run.block_count):
            piece = read(number)
            gone = self._to_go(side, piece, owes=owes)
            index = np.flatnonzero(gone)
            yield from self._workspace.emitter.unmatched(side, piece.source, index, piece.ats)
            piece = piece.take(np.flatnonzero(~gone))
            if len(piece):
                output.writer.append(piece)
                stamps += [piece.ats.min(keepdims=True), piece.ats.max(keepdims=True)]
        if not stamps:
            return None
        came = np.concatenate(stamps)
        return output.cut(run, arrived=(int(came.min()), int(came.max())))

    def _to_go(self, side: Side, piece: Piece, *, owes: bool) -> Mask:
        emitter = self._workspace.emitter
        gone = np.zeros(len(piece), np.bool_)
        if emitter.decides(side):
            gone = ~emitter.marks.unmarked(piece.ats)
        return gone if owes else gone | self._workspace.without_partners(side, piece.codes)

    # ---- promises that have done their work -----------------------------------------------------

    def find_spent(self) -> None:
        """See about which codes nothing more comes from either side and nothing is there. To be
        asked when all that may go has gone."""
        workspace = self._workspace
        both = intersect(*(workspace.promises.of(side, 0) for side in Side))
        if len(both) < _MANY_SPENT:
            return
        for side, table in zip(Side, workspace.memory.tables, strict=True):
            if workspace.without_partners(side, table.codes(np.arange(len(table)))).any():
                return
        self.spent = both

    def forget_spent(self) -> None:
        """All that is saved of memory is being saved anew."""
        if self.spent is not None:
            for side in Side:
                self._workspace.promises.forget(side, 0, self.spent)
            self.spent = None

    def save(self) -> dict[str, Any]:
        return {
            "promises": self._workspace.promises.save(),
            "purged": self._workspace.purged.tolist(),
            "read_after": self._read_after,
        }

    def load(self, saved: dict[str, Any]) -> None:
        self._workspace.promises = Promises.load(saved["promises"])
        self._workspace.purged[:] = saved["purged"]
        self._read_after = saved["read_after"]


class _Output:
    """A file for the runs of one side that are written again, if there are any."""

    def __init__(self, workspace: ProgressiveWorkspace, side: Side) -> None:
        self._workspace = workspace
        self._side = side
        self._runs = 0

    @cached_property
    def writer(self) -> RunWriter:
        workspace, side = self._workspace, self._side
        rows = workspace.memory.block_rows(side, workspace.block_bytes)
        schema = workspace.schema.stored(side)
        return RunWriter(workspace.spill, schema, IoKind.MERGE_WRITE, block_rows=rows)

    def cut(self, run: SpilledRun, *, arrived: tuple[int, int]) -> SpilledRun:
        """What was written since the last cut, in the place of a run."""
        self._runs += 1
        return self.writer.cut(run.departed, arrived=arrived, generation=run.generation)

    def close(self) -> None:
        if self._runs:
            self.writer.close()
