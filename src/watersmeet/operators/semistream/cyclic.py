"""The papers' scan: it goes round the master table without end, portion by portion (MESHJOIN).

Stream rows that have come since the last step are a chunk. A chunk meets every portion from the one
that is read next to the one before it in the next cycle, and then leaves: oldest chunk first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from watersmeet.operators.semistream.keeping import CacheKeeper
from watersmeet.operators.semistream.workspace import SemiStreamWorkspace
from watersmeet.operators.stage import Stage
from watersmeet.rows.address import Index, Matches
from watersmeet.rows.batch import BatchRows
from watersmeet.store.master.table import Master, MasterRows
from watersmeet.store.table import Table


class Chunk(NamedTuple):
    """Rows that began together (the paper's queue Q has one element for each)."""

    until: int
    """The stamp after that of its last row."""
    turn: int
    """How many blocks, of all cycles together, the scan had passed when it began."""


class CyclicScan:
    """A row meets every block once: those of one full cycle, which begins where it came in.

    `passed` counts the blocks of all cycles. Since portions may change in size when memory does, a
    portion ends where a chunk has to leave.
    """

    def __init__(self, workspace: SemiStreamWorkspace, caching: CacheKeeper) -> None:
        self._workspace = workspace
        self._memory = workspace.memory
        self._caching = caching
        self.passed = 0
        self.chunks: deque[Chunk] = deque()
        self._taken = 0
        """Rows with a stamp below are in a chunk."""
        self._closing = False
        self._seconds = 0.0

    @property
    def _master(self) -> Master:
        return self._workspace.master

    @property
    def _table(self) -> Table:
        table = self._memory.table
        assert isinstance(table, Table)
        return table

    @property
    def block(self) -> int:
        """The next block that is read."""
        return self.passed % max(len(self._master), 1)

    @property
    def is_done(self) -> bool:
        """Whether no row waits for this version."""
        return not self.chunks and (self._closing or not self._fresh)

    @property
    def _fresh(self) -> int:
        """How many rows are in no chunk yet."""
        return len(self._table) - self._number(self._taken)

    def _number(self, stamp: int) -> int:
        """How many rows of the table came before this stamp."""
        return int(np.searchsorted(self._table.stamps, stamp))

    def rows_per_step(self) -> int:
        """w: so many rows a step, and all of memory is full when the first of them leave."""
        memory = self._memory
        others = memory.cache.nbytes + memory.reserved
        others += max(memory.collected, self._caching.coming)
        rows = (memory.capacity - others) / self._table.mean_bytes()
        return max(int(rows / self._steps()), 1)

    def _steps(self) -> float:
        """k: in how many portions the master table is read. A portion has whole blocks."""
        master = self._master
        blocks = self._workspace.portion_bytes // max(master.largest_block, 1)
        return max(len(master) / max(blocks, 1), 1.0)

    def is_due(self) -> bool:
        """Whether so many rows have come that a step has to follow."""
        return self._fresh >= self.rows_per_step()

    # ---- the scan -------------------------------------------------------------------------------

    def take_in(self) -> None:
        """Rows that have come since the last step begin with the next one."""
        if not self._closing and self._fresh:
            until = int(self._table.stamps[-1]) + 1
            self.chunks.append(Chunk(until, self.passed))
            self._taken = until

    def step(self) -> Iterator[Matches]:
        """Read the next portion, and probe H_S with it (SSBJ 3.1, lines 24-41)."""
        self.take_in()
        if not self.chunks:
            return
        workspace, metrics = self._workspace, self._workspace.metrics
        began = workspace.clock()
        begin, stop = self._next_portion()
        if begin < stop:
            if begin == 0 and not self._closing:
                # Rows that have left would take the room of what is moved into the cache.
                self.close_gaps()
                self._caching.begin_cycle()
            ends = self._master.places.ends
            metrics.steps += 1
            metrics.blocks_read += stop - begin
            metrics.bytes_read += int(ends[stop] - ends[begin])
            workspace.report_memory(int(ends[stop] - ends[begin]))
            read = self._master.read(begin, stop)
            waiting = np.zeros(len(read.codes), np.int64)
            yield from workspace.of_version(self._meet(read, waiting))
            if not self._closing:
                self._caching.met(read, waiting, (begin, stop))
        self.passed += stop - begin
        yield from self._expire()
        self._seconds += workspace.clock() - began
        if stop == len(self._master):
            metrics.cycles += 1
            metrics.cycle_seconds, self._seconds = self._seconds, 0.0
        workspace.report_memory()

    def _next_portion(self) -> tuple[int, int]:
        places, begin = self._master.places, self.block
        if not len(places):
            return 0, 0
        most = places.ends[begin] + self._workspace.portion_bytes
        stop = max(int(np.searchsorted(places.ends, most, side="right")) - 1, begin + 1)
        leaves = self.chunks[0].turn + len(places) - self.passed
        return begin, min(stop, begin + leaves)

    def _meet(self, read: MasterRows, waiting: Index) -> Iterator[Matches]:
        """All master rows of a portion look for waiting rows. `waiting` is filled with how many
        each finds."""
        workspace, table = self._workspace, self._table
        sources, stamps = (table, BatchRows(read.rows)), table.stamps
        late = self._number(self._taken)
        for rows, found in table.index.find(read.codes, workspace.pairs, workspace.expired):
            if self._closing:
                # Rows that came after the next version was there wait for that one.
                mine = rows < late
                rows, found = rows[mine], found[mine]
            np.add.at(waiting, found, 1)
            if len(rows):
                yield from workspace.emitter.pairs(
                    sources, (rows, found), (stamps, stamps), Stage.MD
                )

    def _expire(self) -> Iterator[Matches]:
        """Chunks that have met every block leave (lines 39-41). Nothing is moved: the index finds
        no rows below a number."""
        workspace, table = self._workspace, self._table
        blocks = len(self._master)
        while self.chunks and self.chunks[0].turn + blocks <= self.passed:
            stop = self._number(self.chunks.popleft().until)
            rows = np.arange(workspace.expired, stop)
            yield from workspace.without_partner(table, rows)
            workspace.expired = stop

    # ---- memory ---------------------------------------------------------------------------------

    def close_gaps(self) -> None:
        """Forget the rows that have left."""
        workspace = self._workspace
        if workspace.expired:
            keep = np.arange(len(self._table)) >= workspace.expired
            self._memory.forget(keep)
            workspace.expired = 0
            workspace.forget_old_marks()

    def begin_anew(self, stood: dict[str, Any] | None = None) -> None:
        """The table was made anew, with the same rows. The scan goes on where it stands, or where
        a saved one `stood`."""
        if stood is not None:
            self.passed = stood["passed"]
            self.chunks = deque(Chunk(*chunk) for chunk in stood["chunks"])
            self._taken, self._closing = stood["taken"], stood["closing"]

    # ---- versions and saved states --------------------------------------------------------------

    def close_version(self) -> None:
        """Rows that arrive from now on wait for the next version; the others finish with this."""
        self.take_in()
        self._taken = self._workspace.stamp
        self._closing = True
        self._caching.forget()

    def open_version(self) -> None:
        """The next version is there, and nobody waits for the last one."""
        self.close_gaps()
        self._closing = False
        self.passed, self._taken = 0, 0
        self.take_in()

    def save(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "chunks": [list(chunk) for chunk in self.chunks],
            "taken": self._taken,
            "closing": self._closing,
        }
