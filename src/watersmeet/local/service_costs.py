"""Measures what the cost model of enrichment needs, by running the real parts of the join.

Time is that of the thread, so that other programs show in it as little as possible. A join is made
as it would be for a user, with rows of the stream and of the master table; its parts are called as
it calls them, for as many rows at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from watersmeet.model import Side
from watersmeet.operators.family import make_enricher
from watersmeet.operators.semistream.cache import ENTRY_BYTES
from watersmeet.operators.semistream.join import SemiStreamJoin
from watersmeet.operators.semistream.rotating import Switching
from watersmeet.operators.stage import Stage
from watersmeet.operators.tuning import Tuning
from watersmeet.policies.service import ServiceCosts, ServiceSizes
from watersmeet.rows.address import Matches, Rows
from watersmeet.rows.batch import BatchRows
from watersmeet.rows.encoded import Codes
from watersmeet.rows.schema import JoinSchema
from watersmeet.rows.values import rows_at
from watersmeet.store.account import MemoryAccount
from watersmeet.store.master.table import Master
from watersmeet.store.spill import SpillArea

# Of the memory for rows, so much is filled with waiting rows: there is room for a cache beside it.
_FILLED = 0.75
_MOST_WAITING = 2_000_000
_MOST_PORTIONS = 48
_BATCH_ROWS = 20_000
_CACHED_CODES = 4096
# Of SSBJ's three states one collects.
_COLLECTING = 1 / 3
_REPEATS = 3


class Measured(NamedTuple):
    costs: ServiceCosts
    sizes: ServiceSizes


def measure_service(
    schema: JoinSchema,
    algorithm: str,
    *,
    master: Callable[[], Master],
    stream: pa.RecordBatch,
    memory: int,
    spill: SpillArea,
    tuning: Tuning | None = None,
) -> Measured:
    """What a join of this algorithm takes with so much memory. `master` opens the table, or a part
    of it, and `stream` are some of the rows that will come."""
    join = make_enricher(
        algorithm,
        schema,
        master=master(),
        memory=MemoryAccount(memory),
        spill=spill,
        clock=lambda: 0.0,
        tuning=tuning or Tuning(),
    )
    try:
        return _Measuring(schema, join, stream).measure()
    finally:
        join.close()


class _Scanned(NamedTuple):
    """How long waiting rows took, all together."""

    append: float
    scan: float
    expire: float


class _Measuring:
    def __init__(self, schema: JoinSchema, join: SemiStreamJoin, stream: pa.RecordBatch) -> None:
        self._schema = schema
        self._join = join
        self._workspace = join.workspace
        encoded = schema.encode(Side.LEFT, stream).with_keys()
        self._rows, self._codes = encoded.rows, np.ascontiguousarray(encoded.codes)
        self._batch = stream.slice(0, _BATCH_ROWS)
        self._random = np.random.default_rng(1)
        self._waiting_bytes = 0.0

    def measure(self) -> Measured:
        workspace, skips = self._workspace, self._workspace.algorithm.skips
        look_up, serve = self._cached()
        count = self._rows_that_wait()
        # The first time the system hands out the memory, which a join that goes on has.
        self._wait(self._random_codes(count))
        # Random codes find nothing. What grows with their number is a matter of waiting rows.
        few = self._wait(self._random_codes(max(count // 8, 1)))
        full = self._wait(self._random_codes(count))
        output = self._output(count)
        read = self._read()
        each = max(full.scan - few.scan, 0.0) / max(count - count // 8, 1) if skips else 0.0
        others = max(full.scan - each * count - read * workspace.master.nbytes, 0.0)
        costs = ServiceCosts(
            read=read,
            find=others / max(workspace.master.rows, 1),
            collect=0.0 if skips else self._collect(),
            arrive=self._arrive(),
            look_up=look_up,
            append=full.append / count,
            expire=full.expire / count + each,
            output=max(output, serve),
            serve=serve,
        )
        sizes = ServiceSizes(
            waiting=self._waiting_bytes, cached=self._cached_bytes, entry=ENTRY_BYTES
        )
        return Measured(costs, sizes)

    # ---- the stream's side ----------------------------------------------------------------------

    def _arrive(self) -> float:
        batch = self._batch
        return _quickest(lambda: self._schema.encode(Side.LEFT, batch)) / max(len(batch), 1)

    def _rows_that_wait(self) -> int:
        memory, rows = self._workspace.memory, self._rows
        nbytes = memory.batch_bytes(Side.LEFT, rows) / max(len(rows), 1)
        room = _FILLED * (memory.capacity - memory.reserved)
        return int(min(max(room / max(nbytes, 1), 1), _MOST_WAITING))

    def _random_codes(self, count: int) -> Codes:
        codes: Codes = self._random.integers(1, 2**64 - 1, count, dtype=np.uint64)
        return codes

    def _wait(self, codes: Codes) -> _Scanned:
        """Rows with these codes wait for one scan of the master table, and leave."""
        workspace, table = self._workspace, self._workspace.memory.table
        workspace.memory.cache.clear()
        append = _seconds(lambda: self._fill(codes))
        self._waiting_bytes = table.nbytes / max(len(table), 1)
        # In full memory only values are cached that are worth it.
        self._join.caching.give_up()
        scan = _seconds(self._scan_once)
        expire = _seconds(self._join.scan.close_gaps)
        return _Scanned(append, scan, expire)

    def _output(self, count: int) -> float:
        """Seconds for a result of a row that waits among so many. They are found in order of their
        codes, which is any order of their arrival, so each is somewhere else in memory.

        That is not the difference between a scan in which rows find partners and one in which they
        find none: with little of the master at hand few find any, and it was lost in the noise."""
        workspace, table = self._workspace, self._workspace.memory.table
        if not workspace.master.rows or not len(self._rows):
            return 0.0
        workspace.memory.cache.clear()
        self._fill(self._random_codes(count))
        seconds, results = 0.0, 0
        for portion in list(self._portions())[:_REPEATS]:
            read = workspace.master.read(*portion).rows
            most = min(len(workspace.pairs), len(read), len(table))
            stream = Rows(table, self._random.integers(0, len(table), most))
            pair = stream, Rows(BatchRows(read), np.arange(most))
            seconds += _seconds(partial(self._report, pair, Stage.MD))
            results += most
        self._scan_once()
        self._join.scan.close_gaps()
        return seconds / max(results, 1)

    def _report(self, pair: tuple[Rows, Rows], stage: Stage) -> None:
        # Their keys are different, and they are results only because nobody asks.
        self._schema.verify(*pair)
        for matches in self._workspace.emitter.limiter.passed(Matches(pair, stage)):
            self._schema.materialise(matches)

    def _fill(self, codes: Codes) -> None:
        """As many rows at a time as come with one step."""
        workspace, rows = self._workspace, self._rows
        for start in range(0, len(codes), _BATCH_ROWS):
            some = codes[start : start + _BATCH_ROWS]
            # Rows that are not in the cache are copied out of the batch that came.
            missed = rows_at(rows, np.arange(start, start + len(some)) % len(rows))
            step = min(self._join.scan.rows_per_step(), len(some))
            for at in range(0, len(some), step):
                part = some[at : at + step]
                workspace.memory.table.add(
                    part, workspace.draw(len(part)), missed.slice(at, len(part))
                )
        self._join.scan.take_in()

    # ---- the master's side ----------------------------------------------------------------------

    def _read(self) -> float:
        """Seconds for a byte."""
        master, ends = self._workspace.master, self._workspace.master.places.ends
        portions = list(self._portions())
        seconds = _quickest(lambda: [master.read(*portion) for portion in portions])
        nbytes = sum(int(ends[stop] - ends[begin]) for begin, stop in portions)
        return seconds / max(nbytes, 1)

    def _portions(self) -> Iterator[tuple[int, int]]:
        master = self._workspace.master
        blocks = max(self._workspace.portion_bytes // max(master.largest_block, 1), 1)
        for begin in list(range(0, len(master), blocks))[:_MOST_PORTIONS]:
            yield begin, min(begin + blocks, len(master))

    def _scan_once(self) -> None:
        while self._workspace.waiting:
            for matches in self._join.scan.step():
                self._schema.materialise(matches)

    def _collect(self) -> float:
        """Seconds for a master row, on average over the three states."""
        master = self._workspace.master
        read = [master.read(*portion) for portion in list(self._portions())[:4]]
        if not read:
            return 0.0
        codes = np.unique(np.concatenate([each.codes for each in read]))[::16].copy()
        switching = Switching(codes, np.full(len(codes), 1000))
        most = np.full(len(codes), 2**31)

        def collect() -> None:
            for each in read:
                switching.collect(each, most)

        seconds = _seconds(collect)
        return _COLLECTING * seconds / max(sum(len(each.codes) for each in read), 1)

    # ---- the cache ------------------------------------------------------------------------------

    def _cached(self) -> tuple[float, float]:
        """Seconds for a stream row to be looked up among some thousand entries, and for a result
        of a cached row."""
        workspace, cache = self._workspace, self._workspace.memory.cache
        master = workspace.master
        found = master.read(0, 1).rows if len(master) else workspace.no_master_rows()
        each = min(_CACHED_CODES, len(found))
        while each > 1 and cache.growth(each, found.slice(0, each)) > workspace.memory.room:
            each //= 2
        codes = self._random_codes(each)
        cache.add(codes, np.ones(each, np.int64), found.slice(0, each), hits=0, born=0)
        self._cached_bytes = cache.mean_row_bytes()
        wanted = self._random_codes(_BATCH_ROWS)
        if each:
            wanted[::2] = codes[self._random.integers(0, each, len(wanted[::2]))]
        look_up = _quickest(lambda: cache.find(wanted)) / len(wanted)
        if not each or not len(self._rows):
            return look_up, 0.0
        count = min(len(workspace.pairs), _BATCH_ROWS // 2)
        stream = rows_at(self._rows, np.arange(_BATCH_ROWS) % len(self._rows))
        pair = (
            Rows(BatchRows(stream), np.arange(count) * 2 % len(stream)),
            Rows(cache.rows, self._random.integers(0, len(cache.rows), count)),
        )

        return look_up, _quickest(partial(self._report, pair, Stage.MM)) / count


def _seconds(act: Callable[[], Any]) -> float:
    began = time.thread_time()
    act()
    return time.thread_time() - began


def _quickest(act: Callable[[], Any]) -> float:
    return min(_seconds(act) for _ in range(_REPEATS))
