"""What mechanisms share that keep rows in tables and spill them as runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from watersmeet.model import Side
from watersmeet.operators.emitter import ResultEmitter
from watersmeet.operators.memory import MemoryPart
from watersmeet.operators.metrics import Metrics
from watersmeet.operators.tuning import Tuning
from watersmeet.rows.address import Index, Matches
from watersmeet.rows.schema import EncodedRows, JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.index import PairBuffer
from watersmeet.store.runs import SpilledRun
from watersmeet.store.shares import MemoryShares
from watersmeet.store.spill import SpillArea

_SMALLEST_BLOCK = 4096

MakeRoom = Callable[[int], Iterator[Matches]]
"""Makes at least this many bytes of rows leave memory, or this many rows if rows are counted."""


class Workspace:
    """The rows in memory, the spill area, the emitter of results and the memory account.

    Mechanisms add their runs, and what they know of who has met whom.
    """

    def __init__(
        self,
        schema: JoinSchema,
        memory: MemoryPart,
        *,
        account: MemoryAccount,
        spill: SpillArea,
        tuning: Tuning,
        blocks: int,
        metrics: Metrics | None = None,
    ) -> None:
        """`blocks` is how many spilled blocks the mechanism loads at a time; `metrics` are its own,
        if it counts more than others."""
        self.schema = schema
        self.tuning = tuning
        self.account = account
        self.spill = spill
        self.metrics = metrics or Metrics.of(len(schema.inputs))
        self.memory = memory
        self.shares = shares = MemoryShares.split(account.limit)
        self.block_bytes = max(min(spill.block_bytes, shares.block(blocks)), _SMALLEST_BLOCK)
        most = shares.chunk // sum(memory.row_bytes)
        self.pairs = PairBuffer(max(1, min(tuning.chunk_rows, most)))
        self.emitter = ResultEmitter(schema, self.metrics, self.pairs, most_bytes=shares.results)

    # ---- rows that arrive -----------------------------------------------------------------------

    def arrived(self, input: int, encoded: EncodedRows) -> Index | None:
        """Count rows that came. Returns those whose key is null, so that they match nothing; None
        if there are none."""
        self.metrics.rows_in[input] += len(encoded.rows)
        if encoded.valid is None or encoded.valid.all():
            return None
        nulls = np.flatnonzero(~encoded.valid)
        self.metrics.null_keys[input] += len(nulls)
        return nulls

    # ---- memory ---------------------------------------------------------------------------------

    def bound_chunks(self, arriving_bytes: float) -> None:
        """Limit the rows of a chunk so that their copies fit the share of memory for results."""
        held = (self.memory.mean_bytes(n) for n in range(len(self.memory.tables)))
        widest = arriving_bytes + sum(held)
        self.pairs.bound(int(self.shares.chunk / widest))

    def lend(self, nbytes: int, make_room: MakeRoom) -> Iterator[Matches]:
        """Lend `nbytes` of the memory for rows to waiting input, in all; 0 takes all of it back."""
        self.memory.lent = nbytes
        yield from self._fit(make_room)

    def resize(self, limit: int, make_room: MakeRoom) -> Iterator[Matches]:
        """Go on with another memory limit; rows that do not fit it are spilled."""
        shares = MemoryShares.split(limit)
        capacity = self.tuning.memory_rows or shares.store
        self.memory.capacity = capacity
        yield from self._fit(make_room)
        self.account.limit, self.shares = limit, shares
        self.emitter.limiter.most_bytes = shares.results
        self.memory.resize(capacity)
        self.report_memory()

    def _fit(self, make_room: MakeRoom) -> Iterator[Matches]:
        # Not until `used` fits: marks cannot be flushed, and may need more than the capacity.
        memory = self.memory
        while memory.used > memory.capacity and not memory.is_empty:
            yield from make_room(memory.used - memory.capacity)

    def forget_marks(self, now: int, runs: Sequence[Sequence[SpilledRun]]) -> None:
        """Forget the marks of rows that came before the oldest row in memory or in these runs of
        each side; `now` is the next stamp."""
        if not any(self.emitter.marked):
            return
        oldest = now
        for side, table in zip(Side, self.memory.tables, strict=True):
            if self.emitter.marked[side]:
                first = [run.earliest for run in runs[side]]
                oldest = min([oldest, *table.stamps[:1].tolist(), *first])
        self.emitter.marks.forget(oldest)
        self.memory.reserved = self.emitter.marks.nbytes

    def report_memory(self, building: int = 0) -> None:
        """Tell the account how much is held; `building` are the bytes of a third table."""
        self.account.hold(self.memory.nbytes, "rows")
        self.account.hold(self.memory.reserved, "marks")
        self.account.hold(building, "partition being joined")
        self.metrics.memory_used = self.account.used
        self.metrics.memory_peak = self.account.peak

    def close(self) -> None:
        """Free all memory and remove the spilled files."""
        self.spill.close()
        self.memory.free()
        self.report_memory()
