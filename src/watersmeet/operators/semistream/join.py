"""Joins of a stream with a master table on disk (SSBJ 3).

cache phase    an arriving row whose code is in the cache is joined completely, and is done
disk phase     the others wait until a scan of the master table has shown them all their partners
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.errors import InvalidArgument
from watersmeet.model import JoinType, Side
from watersmeet.operators.memory import NewRows
from watersmeet.operators.saved import Manifest, SavedRows, StateArea
from watersmeet.operators.semistream import state
from watersmeet.operators.semistream.algorithm import Caching, SemiStreamAlgorithm
from watersmeet.operators.semistream.caching import AdaptiveCaching
from watersmeet.operators.semistream.cyclic import CyclicScan
from watersmeet.operators.semistream.keeping import CacheKeeper
from watersmeet.operators.semistream.patience import Patience
from watersmeet.operators.semistream.rotating import RotatingCaching
from watersmeet.operators.semistream.skipping import SkippingScan
from watersmeet.operators.semistream.unique import UniqueCaching
from watersmeet.operators.semistream.workspace import SemiStreamWorkspace
from watersmeet.operators.stage import Stage
from watersmeet.operators.tuning import Tuning
from watersmeet.rows.address import Index, Matches
from watersmeet.rows.batch import BatchRows
from watersmeet.rows.predicates import EqualKeys
from watersmeet.rows.promises import Promise
from watersmeet.rows.schema import EncodedRows, JoinSchema
from watersmeet.rows.values import rows_at, rows_where
from watersmeet.store.account import MemoryAccount
from watersmeet.store.index import Codes
from watersmeet.store.master.table import Master
from watersmeet.store.spill import SpillArea

# Rows that make room let so many of the waiting ones leave: to forget some, all others are moved.
_LEAVE_AT_ONCE = 1 / 8
PATIENCE = 3.0
"""A stream that never pauses is scanned for when this many times the length of a cycle have passed
since the last scan. So a scan takes at most a quarter of the time, and a row has its verdict after
at most so many cycles and one."""


class SemiStreamJoin:
    """The stream is input 0, the master table stands for input 1, and nothing is pushed there.

    Each result is reported exactly once: by the cache, which has all master rows of a code or
    none, when the stream row arrives; or else by the scan, which shows every waiting row all master
    rows of its code once.
    """

    def __init__(
        self,
        schema: JoinSchema,
        algorithm: SemiStreamAlgorithm,
        *,
        master: Master,
        memory: MemoryAccount,
        spill: SpillArea,
        clock: Callable[[], float],
        tuning: Tuning | None = None,
        patience: Patience | None = None,
        following: Master | None = None,
    ) -> None:
        """With `patience`, rows that find no partner wait for newer versions. `following` is the
        version that a restored join had been given last, if rows waited for the one before."""
        check_enrichment(schema)
        self.workspace = SemiStreamWorkspace(
            schema,
            algorithm,
            master=master,
            account=memory,
            spill=spill,
            clock=clock,
            tuning=tuning or Tuning(),
            patience=patience,
        )
        self.caching, self.scan = _scan_of(self.workspace)
        self.metrics = self.workspace.metrics
        self.metrics.statistics = self.statistics
        self._next = following
        """The version to go on with when nobody waits for the present one."""
        self._scanned = clock()
        self._saved = SavedRows(self.workspace, self.workspace.memory.leaving)

    @property
    def limit(self) -> int:
        return self.workspace.account.limit

    # ---- arriving -------------------------------------------------------------------------------

    def push(self, input: int, batch: pa.RecordBatch) -> Iterator[Matches]:
        """Rows of the stream arrive: the cache phase (SSBJ 3.1, lines 15-23)."""
        if input != Side.LEFT:
            raise InvalidArgument(
                "Rows were pushed to the master table's input.",
                remedy="Push stream rows to input 0; hand new master rows over with take_over.",
            )
        return self._arrive(batch)

    def _arrive(self, batch: pa.RecordBatch) -> Iterator[Matches]:
        workspace = self.workspace
        encoded = workspace.asked.encode(Side.LEFT, batch)
        if (nulls := workspace.arrived(Side.LEFT, encoded)) is not None:
            alone = workspace.emitter.alone(Side.LEFT, BatchRows(encoded.rows), nulls)
            yield from workspace.of_version(alone, self.versions[-1])
            encoded = encoded.with_keys()
        count = len(encoded.rows)
        if not count:
            return
        if workspace.patient is not None:
            encoded = replace(encoded, rows=workspace.patient.stamped(encoded.rows))
        workspace.bound_chunks(workspace.memory.batch_bytes(Side.LEFT, encoded.rows) / count)
        self.caching.arrived(count)
        entries = workspace.memory.cache.find(encoded.codes)
        misses = np.flatnonzero(entries < 0)
        if len(misses) < count:
            yield from self._serve(encoded, entries)
            yield from self._wait(rows_at(encoded.rows, misses), encoded.codes[misses])
        else:
            yield from self._wait(encoded.rows, encoded.codes)
        if self._is_overdue():
            yield from self._scan(lambda: False)
        yield from self._report_overdue()
        workspace.forget_old_marks()
        workspace.report_memory()

    def _serve(self, encoded: EncodedRows, entries: Index) -> Iterator[Matches]:
        """Join the rows whose codes have an entry in the cache."""
        workspace, cache = self.workspace, self.workspace.memory.cache
        hits = np.flatnonzero(entries >= 0)
        workspace.metrics.cache_hits += len(hits)
        source, stamps = BatchRows(encoded.rows), workspace.draw(len(encoded.rows))
        sources, at = (source, cache.rows), (stamps, stamps)
        for pairs in cache.pairs(hits, entries[hits], workspace.pairs):
            found = workspace.emitter.pairs(sources, pairs, at, Stage.MM)
            yield from workspace.of_version(found)
        if workspace.patient is None:
            found = workspace.emitter.unmatched(Side.LEFT, source, hits, stamps)
            yield from workspace.of_version(found)
        else:
            alone = hits[workspace.emitter.marks.unmarked(stamps[hits])]
            yield from workspace.be_patient(encoded.codes[alone], rows_at(encoded.rows, alone))

    def _wait(self, rows: pa.RecordBatch, codes: Codes) -> Iterator[Matches]:
        """Have rows wait for the scan, which goes on when there is no room for them."""
        workspace, memory = self.workspace, self.workspace.memory
        for piece in memory.pieces(Side.LEFT, rows):
            yield from self._make_room_for(piece)
            start, stop = piece.place.start, piece.place.stop
            while start < stop:
                count = min(self.scan.rows_per_step(), stop - start)
                part = slice(start, start + count)
                # Stamps are drawn here: the step before may have brought patient rows back.
                memory.table.add(codes[part], workspace.draw(count), rows.slice(start, count))
                start += count
                if self.scan.is_due():
                    yield from self._step()

    def _is_overdue(self) -> bool:
        """Whether rows have waited for long, although the stream has never paused."""
        if not self.workspace.waiting:
            return False
        since = self.workspace.clock() - self._scanned
        return since > PATIENCE * self.metrics.cycle_seconds

    # ---- the scan -------------------------------------------------------------------------------

    def idle(self, pause: Callable[[], bool]) -> Iterator[Matches]:
        """The disk phase, until nobody waits."""
        return self._scan(pause)

    def settle(self, pause: Callable[[], bool] = lambda: False) -> Iterator[Matches]:
        return self._scan(pause)

    def _scan(self, pause: Callable[[], bool]) -> Iterator[Matches]:
        self.scan.take_in()
        while self.workspace.waiting and not pause():
            yield from self._step()
        table = self.workspace.memory.table
        if self.workspace.waiting < len(table) * (1 - _LEAVE_AT_ONCE):
            self.scan.close_gaps()
        yield from self._report_overdue()
        self.workspace.report_memory()

    def _step(self) -> Iterator[Matches]:
        yield from self.scan.step()
        self._scanned = self.workspace.clock()
        if self._next is not None and self.scan.is_done:
            yield from self._switch()

    def _report_overdue(self) -> Iterator[Matches]:
        """Report patient rows that have no time left."""
        workspace = self.workspace
        if workspace.patient is not None:
            for rows in workspace.patient.overdue():
                yield from workspace.alone(BatchRows(rows), np.arange(len(rows)))
            workspace.memory.patient = workspace.patient.nbytes

    def end(self, input: int) -> Iterator[Matches]:
        yield from ()

    def finish(self) -> Iterator[Matches]:
        yield from self._scan(lambda: False)
        self.scan.close_gaps()
        if (patient := self.workspace.patient) is not None:
            for _, rows in patient.take_all():
                yield from self.workspace.alone(BatchRows(rows), np.arange(len(rows)))
            self.workspace.memory.patient = 0
        self.workspace.report_memory()

    def owed(self) -> list[int]:
        return [self.workspace.waiting, 0]

    def due(self) -> float | None:
        """When patient rows will next be reported though nothing comes, by the clock of their
        deadline; None if there are none."""
        return None if self.workspace.patient is None else self.workspace.patient.due()

    def punctuate(self, input: int, promise: Promise) -> Iterator[Matches]:
        """Stream rows wait for the master table, not for other stream rows."""
        yield from ()

    # ---- versions of the master table -----------------------------------------------------------

    def take_over(self, master: Master) -> Iterator[Matches]:
        """Go on with a new version of the master table.

        Rows that have arrived finish with the version before; those that arrive from now on meet
        the new one. It is `closed` by the join, as the first is.
        """
        self.workspace.check(master)
        if self._next is not None:
            self._next.close()
        else:
            self.scan.close_version()
        self._next = master
        self.workspace.memory.cache.clear()
        if self.scan.is_done:
            yield from self._switch()
        self.workspace.report_memory()

    def _switch(self) -> Iterator[Matches]:
        """Nobody waits for the present version: the next one is read from now on."""
        assert self._next is not None
        yield from self._report_overdue()
        old, new, self._next = self.workspace.master, self._next, None
        self.workspace.use(new)
        old.close()
        self.metrics.versions_met += 1
        self.scan.open_version()
        yield from self._return_patient_rows()

    def _return_patient_rows(self) -> Iterator[Matches]:
        """Rows that found no partner in older versions wait for this one, if they have time."""
        workspace = self.workspace
        if workspace.patient is None:
            return
        for codes, rows in workspace.patient.take_all():
            timely = workspace.patient.have_time(rows)
            yield from workspace.alone(BatchRows(rows), np.flatnonzero(~timely))
            if timely.any():
                yield from self._wait(rows_where(rows, timely), codes[timely])
        workspace.memory.patient = workspace.patient.nbytes

    def count_master(self, *, rows: int, without_key: int) -> None:
        """So many rows of a version of the master were read, some of them without a key."""
        self.metrics.rows_in[Side.RIGHT] += rows
        self.metrics.null_keys[Side.RIGHT] += without_key

    @property
    def versions(self) -> list[str]:
        """The versions that rows wait for: the one that is read, and the next if there is one."""
        masters = [self.workspace.master, *([] if self._next is None else [self._next])]
        return [master.version for master in masters]

    # ---- memory ---------------------------------------------------------------------------------

    def _make_room_for(self, piece: NewRows) -> Iterator[Matches]:
        memory = self.workspace.memory
        while (overflow := memory.overflow(piece)) and not memory.is_empty:
            yield from self._make_room(overflow)

    def _make_room(self, overflow: int) -> Iterator[Matches]:
        """Free some bytes: gaps, entries that are not worth it, waiting rows that leave."""
        memory = self.workspace.memory
        target = memory.used - overflow
        self.scan.close_gaps()
        if memory.used <= target:
            return
        self.caching.give_up()
        if memory.used > target and self.workspace.waiting:
            rows = (memory.used - target) / memory.mean_bytes(Side.LEFT)
            enough = max(rows, self.workspace.waiting * _LEAVE_AT_ONCE)
            least = self.workspace.waiting - enough
            self.scan.take_in()
            while self.workspace.waiting and self.workspace.waiting > least:
                yield from self._step()
            self.scan.close_gaps()
        if memory.used > target and not self.workspace.waiting:
            self.caching.give_way()
        self.workspace.report_memory()

    def lend(self, nbytes: int) -> Iterator[Matches]:
        return self.workspace.lend(nbytes, self._make_room)

    def resize(self, limit: int) -> Iterator[Matches]:
        """Another memory limit; the cache begins anew."""
        self.scan.close_gaps()
        yield from self.workspace.resize(limit, self._make_room)
        self.scan.begin_anew()

    def tidy(self) -> Iterator[Matches]:
        self.scan.close_gaps()
        self.workspace.report_memory()
        yield from ()

    # ---- saved states ---------------------------------------------------------------------------

    def save(self, area: StateArea) -> Manifest:
        self.scan.close_gaps()
        return state.save(self, self._saved, area)

    def load(self, area: StateArea, manifest: Manifest) -> None:
        state.load(self, self._saved, area, manifest)

    def close(self) -> None:
        if self._next is not None:
            self._next.close()
        self.workspace.close()

    def statistics(self) -> dict[str, Any]:
        """The share of stream rows that the cache served, and what a scan costs with and without
        it: MESHJOIN in the same memory reads the whole table once for every memory full of rows."""
        metrics, workspace = self.metrics, self.workspace
        rows = metrics.rows_in[0] - metrics.null_keys[0]
        vs = workspace.memory.tables[0].latest_mean_bytes()
        full = max(workspace.memory.capacity / vs, 1.0)
        return {
            "cache_share": metrics.cache_hits / rows if rows else 0.0,
            "stream_row_bytes": vs,
            "cached_row_bytes": workspace.memory.cache.mean_row_bytes(),
            "meshjoin_bytes": rows / full * workspace.master.nbytes,
        }


_KEEPERS = {
    Caching.NONE: CacheKeeper,
    Caching.UNIQUE: UniqueCaching,
    Caching.ROTATING: RotatingCaching,
}


def _scan_of(workspace: SemiStreamWorkspace) -> tuple[CacheKeeper, SkippingScan | CyclicScan]:
    """The scan of the algorithm, and who keeps its cache."""
    if workspace.algorithm.skips:
        adaptive = AdaptiveCaching(workspace)
        return adaptive, SkippingScan(workspace, adaptive)
    keeper = _KEEPERS[workspace.algorithm.caching](workspace)
    return keeper, CyclicScan(workspace, keeper)


def check_enrichment(schema: JoinSchema) -> None:
    """Refuse what cannot be joined with a master table."""
    if schema.how in (JoinType.RIGHT, JoinType.FULL):
        raise InvalidArgument(
            f"how={str(schema.how)!r} would report master rows that no stream row has met, and a "
            "stream has no end at which that is known.",
            remedy="Use inner, left, semi or anti; or join two tables.",
        )
    near = [each for each in schema.predicates if not isinstance(each, EqualKeys)]
    if near or len(schema.inputs) != 2:
        words = ", ".join(schema.bands) or f"{len(schema.inputs)} inputs"
        raise InvalidArgument(
            f"A stream meets a master table on equal keys, not on {words}.",
            remedy="Join on equal keys and put the rest into `condition`, or use join_streams.",
        )
