"""Dropping rows before the end: those that can be part of no result any more.

A row can be dropped when all its partners that are there have met it and no more will come.
`end` promises the latter for a whole input, `punctuate` for ranges of codes. Each result is
reported exactly once for three reasons:

* **A row is dropped only when it owes nothing.** A row in memory has met all of the other side's
  memory. It may owe pairs with the other side's runs: not with runs that left memory after the row
  came, and not with runs that an md-task has read since then. Both stay true for ever. So for each
  side and partition there is a stamp, `purged`, that only rises: rows that came before it owe
  nothing. A row on disk is dropped when the history says that its run has met all runs of the
  other side and all of its memory.
* **A row without a partner is reported in the call that drops it**, by outer and anti joins. After
  that it is neither in memory nor in a run, where the clean-up would find it again.
* **A dropped row does not come back when a join is restored.** Runs are replaced by runs without
  the row. The segments in which rows of memory were saved still have it, so promises are
  saved too: at any moment no row is in memory that came before `purged` of its partition and whose
  partners had been promised not to come when memory was last swept (`Watching.swept`). Exactly
  these rows are left out when a segment is read (`ProgressiveWorkspace.was_dropped`). Rows that
  came later stay, although the promise is about their partners too: they may owe something. Rows
  whose partners were promised since the last sweep stay, too: they may have to be reported.
  Keys that were promised by name are forgotten some time. Where promises may name keys, a bit
  for each row that was saved says whether it is in memory still (`AnyOrder`).

Memory is swept when `purge_after` promises have come, when it is full, and whenever the join is
idle or settled (MJoin, section 5.2): a sweep never waits for new rows. When the join is tidied, it
is swept for rows that owed something before, unless promises wait to be many. Runs are read when
many rows have come, and when the join has nothing else to do.

A row that has one partner at most, because keys of the other side are unique, is decided when it
has found it, wherever that was (MJoin, Figure 7): it is dropped on arrival, by the next sweep, or
from its run, whatever its run owes. Until then it stays, so partners on disk are not missed.

A row that comes after the promise about its partners is dropped as soon as it has met the rows
that are there: at once or, if its partition has runs of the other side, when those have been read.

Promises of codes are ignored where equal codes need not be equal keys, and those that name keys
where nobody said that there would be any: the result is right without them.
Rows that break a promise are counted, and joined with the rows that are there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from watersmeet.model import Side
from watersmeet.operators.emitter import Stamps
from watersmeet.operators.progressive.debt import find_debt
from watersmeet.operators.progressive.watching import CodedRows, Watching
from watersmeet.operators.progressive.workspace import ProgressiveWorkspace
from watersmeet.rows.address import Index, Matches, Rows
from watersmeet.rows.edges import TakenRows
from watersmeet.rows.encoded import Codes
from watersmeet.rows.leaves import Mask
from watersmeet.rows.promises import Promise, Ranges, intersect
from watersmeet.store.runs import Piece, RunWriter, Spans, SpilledRun, united_spans
from watersmeet.store.spill import IoKind
from watersmeet.store.table import Table

# How many ranges both sides must have promised before these promises are forgotten. To forget them
# costs a save of all rows in memory.
_MANY_SPENT = 256
# Fewer rows of a side are not looked through only for those that have found their only partner:
# they take little memory, and go when more have come or the join is tidied.
_MANY_DECIDED = 512


class Purging:
    """Accepts promises, and drops rows: those in memory when enough promises have come, those on
    disk now and then."""

    def __init__(self, workspace: ProgressiveWorkspace) -> None:
        self._workspace = workspace
        self._read_after = 0
        """How many rows had come when the runs were last read to find rows to drop."""
        self._heard_before = self._heard_at_start = 0
        """`Watching.heard` when the last reading of all runs to find rows to drop began, and when
        the one that is under way did."""
        self._at_last_tidy = (-1, -1)
        """How many rows and promises had come when `tidy` was last called."""
        self._next_partition = 0
        """Where to go on reading runs."""
        self.times_read = 0
        """How often all runs have been read since the join was made or restored."""
        self.spent: Ranges | None = None
        """Codes that no row has and none will have. Promises about them are forgotten by the next
        save, which saves all rows in memory anew."""

    def accept(self, side: Side, promise: Promise) -> Iterator[Matches]:
        """Remember a promise about rows of `side`. When enough of them have come, drop rows of the
        other side in memory."""
        workspace = self._workspace
        workspace.watching.accept(side, promise)
        crowded = self._all_is_in_memory and workspace.watching.is_crowded(0)
        if sum(workspace.watching.unswept) >= workspace.tuning.purge_after or crowded:
            yield from self.sweep_new()
            if crowded:
                self.forget_keys()

    @property
    def _all_is_in_memory(self) -> bool:
        """Whether all rows are in memory, and have met there."""
        workspace = self._workspace
        return workspace.algorithm.joins_on_arrival and not workspace.expected.on_disk.any()

    @property
    def sweeps_when_tidied(self) -> bool:
        """Whether no promises wait until more have come. However often a runtime tidies, memory is
        not looked through more often than the user asked for."""
        waiting = sum(self._workspace.watching.unswept)
        return not 0 < waiting < self._workspace.tuning.purge_after

    @property
    def waits(self) -> bool:
        """Whether there may be rows, in memory or on disk, that nobody has looked for since
        promises came."""
        return any(self._workspace.watching.unswept) or self.is_behind

    def sweep_new(self) -> Iterator[Matches]:
        """Drop rows in memory that may go since promises came. Rows that have found their only
        partner go, too, if there are enough rows to be worth it."""
        watching = self._workspace.watching
        for side in Side:
            if watching.unswept[side.other]:
                yield from self._sweep_side(side, since=0)
            elif side in self._workspace.emitter.one_partner:
                table = self._workspace.memory.tables[side]
                if len(table) >= _MANY_DECIDED:
                    yield from self._drop(side, table, self._decided(table.stamps))
        watching.sweep_is_done()

    def sweep(self) -> Iterator[Matches]:
        """Drop rows in memory that may go. Some owed something when their partners were promised
        not to come, and owe nothing now."""
        watching = self._workspace.watching
        for side in Side:
            decides = side in self._workspace.emitter.one_partner
            if watching.is_promised(side.other) or decides:
                anew = watching.unswept[side.other] or decides
                first = 0 if anew else int(self._workspace.purged[side].min())
                yield from self._sweep_side(side, since=first)
        watching.sweep_is_done()

    def _sweep_side(self, side: Side, *, since: int) -> Iterator[Matches]:
        """Drop what can be dropped of the rows that came at the stamp `since` or later."""
        workspace = self._workspace
        table, purged = workspace.memory.tables[side], workspace.purged[side]
        np.maximum(purged, self._owing_nothing(side), out=purged)
        first = int(np.searchsorted(table.stamps, since)) if since else 0
        if first == len(table):
            return
        gone = self._without_partners(side, table, first)
        if workspace.emitter.decides(side):
            gone |= self._decided(table.stamps[first:])
        yield from self._drop(side, table, gone)

    def _without_partners(self, side: Side, table: Table, first: int) -> Mask:
        """Which rows from number `first` on owe nothing and will find no partner."""
        workspace, watching = self._workspace, self._workspace.watching
        codes, stamps = table.codes_from(first), table.stamps[first:]
        purged = workspace.purged[side]
        every = np.arange(first, len(table))
        if int(stamps[-1]) < int(purged.min()):  # all of them: so it is where nothing is on disk
            return watching.without_partners(side, _coded(watching, side, table, codes, every))
        gone = stamps < purged[workspace.memory.partition_of(codes)]
        coded = _coded(watching, side, table, codes[gone], every[gone])
        gone[gone] = watching.without_partners(side, coded)
        return np.asarray(gone)

    def _decided(self, stamps: Stamps) -> Mask:
        """Which rows of a side that is decided by a partner have found one."""
        return ~self._workspace.emitter.marks.unmarked(stamps)

    def _drop(self, side: Side, table: Table, gone: Mask) -> Iterator[Matches]:
        """Drop some of the last rows of a table; `gone` is about as many of them as it has."""
        workspace = self._workspace
        first, count = len(table) - len(gone), int(np.count_nonzero(gone))
        if not count:
            return
        if workspace.schema.how.keeps_unmatched(side):
            index = first + np.flatnonzero(gone)
            yield from workspace.emitter.unmatched(side, table, index, table.stamps)
        keep = np.ones(len(table), np.bool_)
        np.logical_not(gone, out=keep[first:])
        workspace.memory.drop(side, keep, table.count_dropped(keep))
        workspace.metrics.rows_purged += count
        workspace.report_memory()

    def _owing_nothing(self, side: Side) -> NDArray[np.int64]:
        """For each partition a stamp: rows in memory that came before it owe nothing."""
        workspace = self._workspace
        if not workspace.algorithm.joins_on_arrival:  # memory may owe memory, or come to owe it
            return np.zeros(workspace.tuning.partitions, np.int64)
        stamps = np.full(workspace.tuning.partitions, workspace.stamp)
        if not workspace.expected.on_disk[side.other].any():
            return stamps
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
        """Whether so many rows have come since the runs were last read, or so many keys were
        promised, that they should be read again. A promise does not tell how many rows on disk it
        is about."""
        rows = self._rows_to_read()
        came = sum(self._workspace.metrics.rows_in) - self._read_after
        due = came >= self._workspace.tuning.purge_share * rows
        return bool(rows and (due or self._workspace.watching.is_crowded(rows)))

    @property
    def is_behind(self) -> bool:
        """Whether there may be rows on disk that can be dropped, because of promises that came
        since the runs were last read."""
        watching = self._workspace.watching
        return watching.heard > self._heard_before and bool(self._rows_to_read())

    def is_quiet(self) -> bool:
        """Whether neither rows nor promises have come since this was last asked, though there may
        be rows on disk that can be dropped. A purge does not wait for new rows."""
        now = (sum(self._workspace.metrics.rows_in), self._workspace.watching.heard)
        before, self._at_last_tidy = self._at_last_tidy, now
        return self.is_behind and before == now

    def _rows_to_read(self) -> int:
        workspace = self._workspace
        if not (workspace.watching.promises or any(map(workspace.emitter.decides, Side))):
            return 0
        rows = int(workspace.expected.on_disk.sum())
        if not workspace.algorithm.joins_on_arrival:  # then memory is flushed, and read as runs
            rows += int(workspace.memory.rows.sum())
        return rows

    def purge_runs(self, pause: Callable[[], bool] | None = None) -> Iterator[Matches]:
        """Write runs again without the rows that can be dropped: all of them, or until `pause()`,
        and go on there when called again. No task may be under way. From a run that owes something
        only rows that are decided are dropped."""
        workspace = self._workspace
        if pause is None or self._next_partition == 0:
            self._next_partition = 0
            self._read_after = sum(workspace.metrics.rows_in)
            self._heard_at_start = workspace.watching.heard
        outputs = [_Output(workspace, side) for side in Side]
        while pause is None or not pause():
            for side in Side:
                if workspace.watching.is_promised(side.other) or workspace.emitter.decides(side):
                    yield from self._purge_partition(side, self._next_partition, outputs[side])
            self._next_partition += 1
            if self._next_partition == workspace.tuning.partitions:
                self._next_partition, self._heard_before = 0, self._heard_at_start
                self.times_read += 1
                break
        for output in outputs:
            output.close()

    def _purge_partition(self, side: Side, p: int, output: _Output) -> Iterator[Matches]:
        workspace, disk = self._workspace, self._workspace.disk[p]
        debt = find_debt(workspace, p)
        kept: list[SpilledRun] = []
        for number, run in enumerate(disk.runs[side]):
            owes = debt is not None and bool(debt.of(side)[number])
            if not self._has_droppable(side, run, owes=owes):
                kept.append(run)
                continue
            live = yield from self._rewritten(side, run, output, owes=owes)
            if live is not None:
                kept.append(live)
            workspace.metrics.rows_purged += run.rows - (live.rows if live else 0)
            run.remove()
        if kept != disk.runs[side]:
            disk.runs[side][:] = kept
            workspace.disk.changed(p)
            workspace.expected.purged(side, p, sum(run.rows for run in kept))

    def _has_droppable(self, side: Side, run: SpilledRun, *, owes: bool) -> bool:
        decides = self._workspace.emitter.decides(side)
        if (owes and not decides) or self._is_droppable_unread(side, run, owes=owes):
            return not owes
        blocks = np.arange(run.block_count)
        if not decides:
            blocks = blocks[self._workspace.watching.blocks_to_read(side, run)]
        pieces = map(run.open(IoKind.SCAN), blocks.tolist())
        return any(self._droppable(side, piece, owes=owes).any() for piece in pieces)

    def _is_droppable_unread(self, side: Side, run: SpilledRun, *, owes: bool) -> bool:
        """Whether all rows of a run can be dropped and none of them must be reported."""
        if owes or self._workspace.schema.how.keeps_unmatched(side):
            return False
        return self._workspace.watching.no_row_has_partners(side, run)

    def _rewritten(
        self, side: Side, run: SpilledRun, output: _Output, *, owes: bool
    ) -> Generator[Matches, None, SpilledRun | None]:
        """Write a run again, and report dropped rows without a partner; None if no row is left."""
        if self._is_droppable_unread(side, run, owes=owes):
            return None
        read = run.open(IoKind.MERGE_READ)
        stamps: list[Stamps] = []
        spans: list[Spans] = []
        for number in range(run.block_count):
            piece = read(number)
            gone = self._droppable(side, piece, owes=owes)
            index = np.flatnonzero(gone)
            yield from self._workspace.emitter.unmatched(side, piece.source, index, piece.ats)
            piece = piece.take(np.flatnonzero(~gone))
            if len(piece):
                output.writer.append(piece)
                stamps += [piece.ats.min(keepdims=True), piece.ats.max(keepdims=True)]
                spans.append(self._workspace.watching.spans(side, piece.rows))
        if not stamps:
            return None
        came = np.concatenate(stamps)
        live = output.cut(run, arrived=(int(came.min()), int(came.max())))
        live.spans = united_spans(spans)
        return live

    def _droppable(self, side: Side, piece: Piece, *, owes: bool) -> Mask:
        emitter = self._workspace.emitter
        gone = np.zeros(len(piece), np.bool_)
        if emitter.decides(side):
            gone = self._decided(piece.ats)
        if owes:
            return gone
        watching = self._workspace.watching
        return gone | watching.without_partners(side, watching.coded(side, piece.codes, piece.rows))

    # ---- promises that have done their work -----------------------------------------------------

    def find_spent(self) -> None:
        """Find codes that both sides have promised and that no row has. To be called when all
        rows that can be dropped have been dropped."""
        workspace = self._workspace
        watching = workspace.watching
        both = intersect(*(watching.promises.of(side, 0) for side in Side))
        if len(both) < _MANY_SPENT:
            return
        for side, table in zip(Side, workspace.memory.tables, strict=True):
            every = np.arange(len(table))
            coded = _coded(watching, side, table, table.codes_from(0), every)
            if watching.without_partners(side, coded).any():
                return
        self.spent = both

    def forget_keys(self) -> None:
        """Forget promised keys but for the latest, if there are too many. To be called when all
        rows that can be dropped have been dropped. Rows that come later and have a key that was
        forgotten stay."""
        if self._workspace.watching.is_crowded(0):
            self._workspace.watching.forget_keys()

    def forget_spent(self) -> None:
        """Forget promises about `spent` codes: all rows in memory have been saved anew."""
        if self.spent is not None:
            self._workspace.watching.forget(self.spent)
            self.spent = None

    def save(self) -> dict[str, Any]:
        return {
            **self._workspace.watching.save(),
            "purged": self._workspace.purged.tolist(),
            "read_after": self._read_after,
            "heard_before": self._heard_before,
        }

    def load(self, saved: dict[str, Any]) -> None:
        self._workspace.watching.load(saved)
        self._workspace.purged[:] = saved["purged"]
        self._read_after = saved["read_after"]
        self._heard_before = saved.get("heard_before", 0)


def _coded(watching: Watching, side: Side, table: Table, codes: Codes, index: Index) -> CodedRows:
    """Rows of a table with their codes; `codes` are those under the first predicate."""
    return watching.coded(side, codes, TakenRows(Rows(table, index)))


class _Output:
    """A file for the runs of one side that are written again; it is made with the first of them."""

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
        """End a run that takes the place of this one."""
        self._runs += 1
        return self.writer.cut(run.departed, arrived=arrived, generation=run.generation)

    def close(self) -> None:
        if self._runs:
            self.writer.close()
