"""What can be joined from disk: md-tasks and dd-tasks, in steps that can be interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from watersmeet.model import Side
from watersmeet.operators.emitter import in_order
from watersmeet.operators.memory import PartitionedMemory
from watersmeet.operators.met import Presence, presence_of
from watersmeet.operators.progressive.disk import DiskPartition
from watersmeet.operators.progressive.history import LAST_CODE, DdRecord, MdRecord
from watersmeet.operators.progressive.merging import Found, Merging, Passed
from watersmeet.rows.address import Index
from watersmeet.store.index import PairBuffer
from watersmeet.store.runs import Piece, SpilledRun
from watersmeet.store.spill import IoKind, SpillArea
from watersmeet.store.table import Table


@dataclass(frozen=True, slots=True)
class FoundInMemory:
    """Pairs of rows in a table, of side `side`, with rows of a piece that was read."""

    side: Side
    table: Table
    piece: Piece
    table_index: Index
    piece_index: Index


Step = Iterator[Found | FoundInMemory | Passed]


class DiskTask(Protocol):
    """Work on disk rows that goes step by step; between steps anything else may happen."""

    done: bool

    @property
    def catching_up(self) -> bool:
        """Whether it was begun again and is not yet where it had been."""
        ...

    def step(self, stamp: int) -> Step: ...

    def save(self) -> dict[str, Any]:
        """How far it has come, as JSON values."""
        ...

    def abandon(self) -> None:
        """Remove the files that it was writing."""
        ...


class MdTask:
    """R_mem_i[j] x the disk runs of the other side (RPJ 5.1).

    Blocks are probed against the whole memory index, which finds partition j's rows without
    sorting them. What has been read at which stamp goes into the history after every step, so
    the task may be interrupted after any block that ends with a code of its own.
    """

    def __init__(
        self,
        disk: DiskPartition,
        memory_side: Side,
        memory: PartitionedMemory,
        *,
        pairs: PairBuffer,
        since: int,
        run: int = 0,
        block: int = 0,
    ) -> None:
        """`since` is when the last such task began: older rows owe nothing (Lemma 2)."""
        self.done = False
        self.run, self.block = run, block
        self._disk = disk
        self._side = memory_side
        self._memory = memory
        self._pairs = pairs
        self._since = since
        self._reading: tuple[int, Any] | None = None

    def step(self, stamp: int) -> Step:
        runs = self._disk.runs[self._side.other]
        if self.run >= len(runs):
            self.done = True
            return
        run = runs[self.run]
        first = run.last_code(self.block - 1) + 1 if self.block else 0
        while True:
            piece = self._read(run)
            yield from self._join(piece)
            self.block += 1
            if self.block == run.block_count:
                last = LAST_CODE
                self.run, self.block = self.run + 1, 0
                break
            last = run.last_code(self.block - 1)
            if last < run.first_code(self.block):
                break
        self._disk.history.scanned(self._side, MdRecord(stamp, run.departed, (first, last)))
        self.done = self.run >= len(runs)

    @property
    def catching_up(self) -> bool:
        return False

    def save(self) -> dict[str, Any]:
        return {"since": self._since, "run": self.run, "block": self.block}

    def abandon(self) -> None:
        """Nothing is being written."""

    def _read(self, run: SpilledRun) -> Piece:
        if self._reading is None or self._reading[0] != self.run:
            self._reading = (self.run, run.open(IoKind.SCAN))
        piece: Piece = self._reading[1](self.block)
        return piece

    def _join(self, piece: Piece) -> Step:
        table = self._memory.tables[self._side]  # a new one after every resize
        here = Presence(table.stamps, departed=None, codes=None)
        left, right = in_order(self._side, here, presence_of(piece))
        for rows, asked in table.find(piece.codes, self._pairs, since=self._since):
            pairs = in_order(self._side, rows, asked)
            kept = self._disk.history.keep_new(left, right, pairs)
            if kept:
                yield FoundInMemory(self._side, table, piece, rows[:kept], asked[:kept])


class DdTask:
    """R_disk1[j] x R_disk2[j] by progressive sort-merge join (RPJ 5.2).

    Merging operations take up to `fan_in` neighbouring runs of each side, pass after pass, until
    each side is one run. Runs of the two sides are matched by their place in the pass, however
    many there are of each (RPJ, Figure 6).
    """

    def __init__(
        self,
        disk: DiskPartition,
        schemas: tuple[pa.Schema, pa.Schema],
        *,
        fan_in: int,
        pairs: PairBuffer,
        area: SpillArea,
        block_rows: int,
        begun: dict[str, Any] | None = None,
    ) -> None:
        self.done = False
        self._disk = disk
        self._schemas = schemas
        self._fan_in = max(fan_in, 2)
        self._pairs = pairs
        self._area = area
        self._block_rows = block_rows
        # The runs of this pass that are still to be merged: how many from the end of each list.
        # Runs flushed while the task is interrupted come after them and are not touched.
        self._limit = [len(runs) for runs in disk.runs]
        self._at = [0, 0]
        self._now: Merging | None = None
        if begun is not None:
            self._limit, self._at = list(begun["limit"]), list(begun["at"])
            # A position means something only for the same runs read in the same steps.
            self._fan_in, self._block_rows = begun["fan_in"], begun["block_rows"]
            if begun["position"] is not None:
                self._now = self._merging(begun["position"], begun["substeps"])
        elif not self._worthwhile():
            self.done = True

    def step(self, stamp: int) -> Step:
        if self._now is None:
            self._now = self._merging(0, 0)
        yield from self._now.step()
        if self._now.done:
            self._install(self._now)
            self._now = None

    @property
    def catching_up(self) -> bool:
        return self._now is not None and self._now.catching_up

    def save(self) -> dict[str, Any]:
        now = self._now
        return {
            "limit": list(self._limit),
            "at": list(self._at),
            "fan_in": self._fan_in,
            "block_rows": self._block_rows,
            "position": now.position if now else None,
            "substeps": now.substeps if now else 0,
        }

    def abandon(self) -> None:
        if self._now is not None:
            self._now.abandon()

    def _worthwhile(self) -> bool:
        return all(self._limit) or any(limit > 1 for limit in self._limit)

    def _merging(self, position: int, substeps: int) -> Merging:
        runs = [self._disk.runs[side][self._slice(side)] for side in Side]
        return Merging(
            (runs[0], runs[1]),
            self._schemas,
            history=self._disk.history,
            pairs=self._pairs,
            position=position,
            substeps=substeps,
            ahead=self._block_rows,
            output=(self._area, self._block_rows),
        )

    def _slice(self, side: Side) -> slice:
        start = self._at[side]
        return slice(start, min(start + self._fan_in, self._limit[side]))

    def _install(self, merging: Merging) -> None:
        """Put the merged runs where their parts were, and go on to the next operation."""
        if all(merging.runs):
            left, right = ((runs[0].departed[0], runs[-1].departed[1]) for runs in merging.runs)
            self._disk.history.merged(DdRecord(left, right))
        for side, merged in zip(Side, merging.finish(), strict=True):
            parts = list(self._disk.runs[side][self._slice(side)])
            if merged is not None:
                self._disk.runs[side][self._slice(side)] = [merged]
                self._limit[side] -= len(parts) - 1
                for part in parts:
                    part.remove()
            self._at[side] += bool(parts)
        if all(at >= limit for at, limit in zip(self._at, self._limit, strict=True)):
            self._at = [0, 0]
            self.done = all(limit <= 1 for limit in self._limit)
