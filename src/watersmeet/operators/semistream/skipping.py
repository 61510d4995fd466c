"""The scan that skips: it goes round the master table, and reads the blocks somebody waits for.

The master table is in order of code, so a waiting row needs only the blocks of its code. Waiting
rows are in order of code, too: those ahead of the scan, and those behind it, which have to wait
until the scan has come to the end and begins again. When many wait, nearly every block is read,
one after the other; when few do, it is a look-up for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from watersmeet.kernels import semistream as kernels
from watersmeet.kernels import sorting
from watersmeet.operators.semistream.cache import expanded
from watersmeet.operators.semistream.caching import AdaptiveCaching
from watersmeet.operators.semistream.reading import WantedBlocks
from watersmeet.operators.semistream.waiting import Numbers, RowOrder, WaitingRows
from watersmeet.operators.semistream.workspace import SemiStreamWorkspace
from watersmeet.operators.stage import Stage
from watersmeet.rows.address import Index, Matches
from watersmeet.rows.batch import BatchRows
from watersmeet.store.index import Codes
from watersmeet.store.master.table import Master, MasterRows

Found = tuple[Index, Index]
"""For each of some waiting rows, where the master rows of its code begin, and how many they are."""


class SkippingScan:
    """A row meets all blocks of its code, once, in the order of the blocks.

    `block` is the next block of this cycle. A row is `ahead` if its code's first block has not been
    passed in this cycle, and else `behind`. If one code has more blocks than a step can read, the
    scan stands `inside` that code for a while: its rows that were ahead when its first block was
    read stay ahead until its last has been; later ones are behind.
    """

    def __init__(self, workspace: SemiStreamWorkspace, caching: AdaptiveCaching) -> None:
        self._workspace = workspace
        self._memory = workspace.memory
        self._caching = caching
        self._blocks = WantedBlocks(workspace)
        self.block = 0
        self.inside: int | None = None
        """Inside a code: rows with a smaller stamp were ahead when its first block was read."""
        self._merged = 0
        """Rows with smaller numbers are ahead or behind; the others have arrived since."""
        self._closing = False
        """Whether rows that arrive wait for the next version."""
        self._seconds = 0.0
        self._make_orders()

    def _make_orders(self) -> None:
        rows = max(self._memory.most_rows(), len(self._table) + 2)
        self.ahead, self.behind = RowOrder(rows), RowOrder(rows)

    @property
    def _master(self) -> Master:
        return self._workspace.master

    @property
    def _table(self) -> WaitingRows:
        table = self._memory.table
        assert isinstance(table, WaitingRows)
        return table

    @property
    def waiting(self) -> int:
        """How many rows wait, for whichever version."""
        return self._table.waiting

    @property
    def is_done(self) -> bool:
        """Whether no row waits for this version."""
        late = 0 if self._closing else len(self._table) - self._merged
        return not (len(self.ahead) or len(self.behind) or late)

    def rows_per_step(self) -> int:
        """How many rows may come together: as many as there are."""
        return 2**31

    # ---- rows that arrived ----------------------------------------------------------------------

    def take_in(self) -> None:
        """Rows that have arrived take part from now on, ahead of the scan or behind it."""
        if self._closing:
            return
        table, first = self._table, self._merged
        codes, rows = sorting.sort(np.ascontiguousarray(table.codes(slice(first, len(table)))))
        self._sort_in(codes, rows + np.int32(first))
        self._merged = len(table)

    def _sort_in(self, codes: Codes, rows: Numbers) -> None:
        """Put rows ahead of the scan or behind it; their codes are in order."""
        passed = 0
        if self.block:
            # A code that ends the last block may go on in the next: its beginning has been passed.
            last = self._master.places.last[self.block - 1]
            passed = int(np.searchsorted(codes, last, side="right"))
        self.behind.merge(codes[:passed], rows[:passed])
        self.ahead.merge(codes[passed:], rows[passed:])

    def is_due(self) -> bool:
        """Whether so many rows have come that a step has to follow: memory alone decides that."""
        return False

    # ---- the scan -------------------------------------------------------------------------------

    def step(self) -> Iterator[Matches]:
        """Read the next blocks that somebody waits for; rows whose codes have been passed leave."""
        if self.is_done:
            return
        if not len(self.ahead):
            if self.block:
                self._workspace.metrics.blocks_skipped += len(self._master) - self.block
                self._begin_cycle()
            self.take_in()
        began = self._workspace.clock()
        places = self._master.places
        read, stop, leaving, meeting = self._blocks.read_on(self.ahead, self.block, self.inside)
        found = self._located(read, meeting)
        if read is not None:
            yield from self._workspace.of_version(self._meet(read, found))
        begun = 0 if self.inside is None else self.ahead.until(places.first[self.block])
        self._cache(read, found, slice(begun, leaving))
        yield from self._leave(leaving)
        if meeting == leaving:
            self.inside = None
        elif self.inside is None or places.first[stop] != places.first[self.block]:
            self.inside = int(self._table.stamps[self._merged - 1]) + 1
        self._seconds += self._workspace.clock() - began
        self.block = stop
        if stop == len(places):
            self._begin_cycle()
        self._workspace.report_memory()

    def _begin_cycle(self) -> None:
        """Nobody is ahead: go on from the first block. Those that were behind are ahead at once:
        if rows that come now were put before them, they would wait for more than a cycle."""
        self.block = 0
        self.ahead, self.behind = self.behind, self.ahead
        metrics = self._workspace.metrics
        metrics.cycles += 1
        metrics.cycle_seconds, self._seconds = self._seconds, 0.0
        self._caching.begin_cycle()

    def _located(self, read: MasterRows | None, count: int) -> Found:
        """Where the master rows of the first rows ahead are."""
        starts, counts = np.zeros(count, np.int64), np.zeros(count, np.int64)
        if read is not None:
            kernels.locate(self.ahead.codes[:count], read.codes, starts, counts)
        return starts, counts

    def _meet(self, read: MasterRows, found: Found) -> Iterator[Matches]:
        """The first rows ahead meet the master rows of their codes."""
        workspace, table = self._workspace, self._table
        sources, stamps = (table, BatchRows(read.rows)), table.stamps
        starts, counts = found
        rows = self.ahead.rows[: len(starts)].astype(np.int64)
        for pairs in expanded(rows, starts, counts, workspace.pairs):
            yield from workspace.emitter.pairs(sources, pairs, (stamps, stamps), Stage.MD)

    def _cache(self, read: MasterRows | None, found: Found, whole: slice) -> None:
        """Offer the codes of rows that leave to the cache, but for those of which blocks were read
        before this step: not all of their rows are here."""
        codes = self.ahead.codes[whole]
        if self._closing or not len(codes):
            return
        first = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
        waiting = np.diff(np.append(first, len(codes)))
        rows = self._workspace.no_master_rows() if read is None else read.rows
        starts, counts = (each[whole][first] for each in found)
        self._caching.admit(codes[first], waiting, starts, counts, rows)

    def _leave(self, count: int) -> Iterator[Matches]:
        """The first rows ahead have met all of this version."""
        workspace, table = self._workspace, self._table
        rows = self.ahead.rows[:count].astype(np.int64)
        yield from workspace.without_partner(table, rows)
        self.ahead.drop(count)
        table.leave(rows)

    # ---- memory ---------------------------------------------------------------------------------

    def close_gaps(self) -> None:
        """Forget the rows that have left."""
        table = self._table
        if not table.left:
            return
        keep = table.kept()
        numbers = np.cumsum(keep, dtype=np.int32) - np.int32(1)
        self._merged = int(np.count_nonzero(keep[: self._merged]))
        self._memory.forget(keep)
        self.ahead.renumber(numbers)
        self.behind.renumber(numbers)
        self._workspace.forget_old_marks()

    def begin_anew(self, stood: dict[str, Any] | None = None) -> None:
        """The table was made anew: find all its rows again. The scan goes on where it stands, or
        where a saved one `stood`."""
        stood = stood or self.save()
        self._make_orders()
        self._load(stood)

    # ---- versions and saved states --------------------------------------------------------------

    def close_version(self) -> None:
        """Rows that arrive from now on wait for the next version; the others finish with this."""
        self.take_in()
        self._closing = True

    def open_version(self) -> None:
        """The next version is there, and nobody waits for the last one."""
        self.close_gaps()
        self._closing = False
        self.block, self.inside, self._merged = 0, None, 0
        self.take_in()

    def save(self) -> dict[str, Any]:
        """Where the scan stands, as JSON values. Gaps have been closed."""
        late = len(self._table) - self._merged if self._closing else 0
        return {"block": self.block, "inside": self.inside, "late": late, "closing": self._closing}

    def _load(self, saved: dict[str, Any]) -> None:
        table = self._table
        self.block, self.inside = saved["block"], saved["inside"]
        self._merged = len(table) - saved["late"]
        codes, rows = sorting.sort(np.ascontiguousarray(table.codes(slice(0, self._merged))))
        if self.inside is not None:
            begun = codes == self._master.places.first[self.block]
            begun &= table.stamps[rows] < self.inside
            self.ahead.merge(codes[begun], rows[begun])
            codes, rows = codes[~begun], rows[~begun]
        self._sort_in(codes, rows)
        self._closing = saved["closing"]
