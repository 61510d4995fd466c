"""Join(i): all pairs of a partition's rows that have not met, from memory and disk (PR-Join 4.2).

The smaller side is read into a hash table (`build`), and the rows of the other side (`probe`) look
for partners there. Both are read in the order in which their rows came, so old rows, which have met
each other, come first. They are known by their numbers, and an old row looks only for new ones. If
the smaller side does not fit, it is taken in portions, and the other side is read for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

import numpy as np

from watersmeet.model import Side
from watersmeet.operators.emitter import in_order
from watersmeet.operators.met import Presence, presence_of
from watersmeet.operators.rectangle.memory import StampedRows
from watersmeet.operators.rectangle.workspace import RectangleWorkspace
from watersmeet.operators.stage import Stage
from watersmeet.rows.address import Index, Matches
from watersmeet.store.index import Codes
from watersmeet.store.runs import Piece
from watersmeet.store.table import Table, batch_bytes

Found = Iterator[tuple[Index, Index]]
Finished = Generator[Matches, None, bool]


@dataclass
class PartitionJoin:
    """One join of a partition. If it is the `last`, rows without a partner are reported, too."""

    workspace: RectangleWorkspace
    p: int
    stage: Stage
    last: bool = False

    def run(self, pause: Callable[[], bool] | None = None) -> Finished:
        """Join, asking `pause` after every piece; returns False if that interrupted it.

        The cover knows what was joined until then, so an interrupted join is simply begun anew.
        """
        progress, cover = self.workspace.progress, self.workspace.cover(self.p)
        corner = cover.corner
        joined = progress.joined[:, self.p] if corner else 0
        new = progress.arrived[:, self.p] - joined
        if self._has_work(new):
            build, free = self._choose()
            # Skip build rows that were joined before, unless the probe side has new rows, or build
            # rows without a partner must be reported.
            needs_old = not corner or new[build.other] or self._reports(build)
            since = 0 if needs_old or not corner else 2 * corner[build]
            pieces = self.workspace.pieces(build, self.p, since=since)
            portions = _Portions(self.workspace, pieces, free)
            finished = yield from self._scan_portions(build, portions, pause)
            if not finished:
                return False
        if self.workspace.covers_apart:
            cover.complete_corner(*progress.bounds)
        progress.joined_partition(self.p)
        self.workspace.metrics.dd_tasks += 1
        return True

    def _has_work(self, new: Index) -> bool:
        arrived = self.workspace.progress.arrived[:, self.p]
        if any(arrived[side] and self._reports(side) for side in Side):
            return True
        return bool(arrived.all() and new.any())

    def _reports(self, side: Side) -> bool:
        """Whether rows of a side without a partner are reported by this join."""
        return self.last and self.workspace.schema.how.keeps_unmatched(side)

    def _choose(self) -> tuple[Side, float]:
        """The smaller side, and how much of it can be in memory at once.

        To make room for it, rows of all partitions are spilled, as in the paper.
        """
        workspace, memory = self.workspace, self.workspace.memory
        needs = [self._size(side) for side in Side]
        build = Side.LEFT if needs[0] <= needs[1] else Side.RIGHT
        spare = workspace.shares.loaded + (workspace.shares.input if self.last else 0)
        if memory.unused(spare) < 1.1 * needs[build] and self.last:
            workspace.drop_before(self.p)
        while (free := memory.unused(spare)) < 1.1 * needs[build] and memory.rows.any():
            taken = workspace.algorithm.spill(workspace.resident())
            reason = f"room to join partition {self.p}"
            workspace.flush(taken, reason, kept_too=workspace.takes_kept(taken))
        return build, free

    def _size(self, side: Side) -> float:
        """How much memory all of the partition's rows of a side would take."""
        memory, (rows, nbytes) = self.workspace.memory, self.workspace.spilled[:, side, self.p]
        each = max(nbytes / rows if rows else 0.0, memory.mean_bytes(side))
        resident = memory.tables[side].by_partition[self.p]
        return float((rows + resident) * memory.row_size(each))

    # ---- portions of the smaller side -----------------------------------------------------------

    def _scan_portions(
        self, build: Side, portions: _Portions, pause: Callable[[], bool] | None
    ) -> Finished:
        workspace = self.workspace
        table = workspace.memory.beside(build)
        try:
            more = True
            while more:
                more = portions.fill(table)
                finished = yield from self._scan(build, table, more, pause)
                if not finished:
                    return False
                if self.last:
                    every = np.arange(len(table))
                    yield from workspace.emitter.unmatched(build, table, every, table.stamps)
                self._complete_corner(
                    build, table, workspace.progress.numbers[build.other], more=more
                )
                table.clear()
        finally:
            workspace.report_memory()
        return True

    def _scan(
        self, build: Side, table: Table, more: bool, pause: Callable[[], bool] | None
    ) -> Finished:
        workspace, probe = self.workspace, build.other
        since = 0 if self._reports(probe) else 2 * self._met_by_all(build, table)
        for piece in workspace.pieces(probe, self.p, since=since):
            if piece.ats[-1] < since:
                continue
            rows = StampedRows(piece.rows, piece.ats, piece.codes)
            sources, stamps = in_order(build, table, rows), in_order(build, table.stamps, piece.ats)
            for found, asked in self._new_pairs(build, table, piece):
                index = in_order(build, found, asked)
                yield from workspace.emitter.pairs(sources, index, stamps, self.stage)
            if self.last and not more:
                yield from workspace.emitter.unmatched(
                    probe, rows, np.arange(len(piece)), piece.ats
                )
            if pause is not None and pause():
                self._complete_corner(build, table, int(piece.ats[-1] >> 1) + 1, more=more)
                return False
        return True

    def _met_by_all(self, build: Side, table: Table) -> int:
        """A number n such that the first n probe rows have met all build rows in the table."""
        last = int(table.stamps[-1] >> 1) if len(table) else -1
        return self.workspace.cover(self.p).met_by(build, last + 1)

    def _complete_corner(self, build: Side, table: Table, scanned: int, *, more: bool) -> None:
        """Extend the cover: build rows up to the last one in the table have met the first `scanned`
        probe rows. Without `more` portions, those are all build rows."""
        if self.workspace.covers_apart and len(table):
            held = (
                int(table.stamps[-1] >> 1) + 1 if more else self.workspace.progress.numbers[build]
            )
            left, right = in_order(build, held, scanned)
            self.workspace.cover(self.p).complete_corner(left, right)

    # ---- pairs that have not met ----------------------------------------------------------------

    def _new_pairs(self, build: Side, table: Table, piece: Piece) -> Found:
        cover = self.workspace.cover(self.p)
        if (corner := cover.corner) is None:
            yield from self._outside_strips(build, table, piece)
            return
        old = int(np.searchsorted(piece.ats, 2 * corner[build.other]))
        if old:
            yield from self._find(table, piece.codes[:old], since=2 * corner[build] - 1)
        if old < len(piece):
            for found, asked in self._find(table, piece.codes[old:]):
                yield found, asked + old

    def _find(self, table: Table, wanted: Codes, *, since: int = 0) -> Found:
        return table.find(wanted, self.workspace.pairs, since=since)

    def _outside_strips(self, build: Side, table: Table, piece: Piece) -> Found:
        cover = self.workspace.cover(self.p)
        here = Presence(table.stamps, departed=None, codes=None)
        left, right = in_order(build, here, presence_of(piece))
        for found, asked in self._find(table, piece.codes):
            kept = cover.keep_new(left, right, in_order(build, found, asked))
            if kept:
                yield found[:kept], asked[:kept]


class _Portions:
    """Fills a table with as many rows of the smaller side as fit, again and again."""

    def __init__(self, workspace: RectangleWorkspace, pieces: Iterator[Piece], free: float) -> None:
        self._workspace = workspace
        self._pieces = pieces
        self._free = free
        self._rest = next(pieces, None)

    def fill(self, table: Table) -> bool:
        """Add the next rows, as many as fit but at least one; returns whether more are left."""
        memory = self._workspace.memory
        while (piece := self._rest) is not None:
            each = memory.row_size(batch_bytes(piece.rows) / len(piece))
            fits = int((self._free - memory.size(table)) / each)
            if fits < 1 and len(table):
                break
            taken = piece.slice(0, min(max(fits, 1), len(piece)))
            table.add(taken.codes, taken.ats, taken.rows)
            self._rest = (
                piece.slice(len(taken), len(piece))
                if len(taken) < len(piece)
                else next(self._pieces, None)
            )
        self._workspace.report_memory(table.nbytes)
        return self._rest is not None
