"""What the parts of a join with a master table share: its rows, its cache, the version it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from watersmeet.errors import MemoryTooSmall, SchemaError
from watersmeet.model import Side
from watersmeet.operators.semistream.algorithm import SemiStreamAlgorithm
from watersmeet.operators.semistream.memory import SemiStreamMemory
from watersmeet.operators.semistream.metrics import SemiStreamMetrics
from watersmeet.operators.semistream.patience import SINCE, Patience, PatientRows
from watersmeet.operators.semistream.waiting import WaitingRows
from watersmeet.operators.tuning import Tuning
from watersmeet.operators.workspace import Workspace
from watersmeet.rows.address import Index, Matches, RowSource
from watersmeet.rows.batch import BatchRows
from watersmeet.rows.schema import JoinSchema
from watersmeet.rows.values import rows_where
from watersmeet.store.account import MemoryAccount
from watersmeet.store.index import Codes
from watersmeet.store.master.table import Master
from watersmeet.store.shares import MemoryShares
from watersmeet.store.spill import SpillArea
from watersmeet.store.table import Table

# Rows that wait for newer versions are read back one spilled block at a time.
_LOADED_BLOCKS = 8
# Besides the table of places, arrays are made of its columns when they are first used.
_PLACES_FACTOR = 2


class SemiStreamWorkspace(Workspace):
    """Waiting rows, cached rows and the version of the master table that is being read.

    Every stream row gets a rising stamp when it arrives.
    """

    memory: SemiStreamMemory
    metrics: SemiStreamMetrics

    def __init__(
        self,
        schema: JoinSchema,
        algorithm: SemiStreamAlgorithm,
        *,
        master: Master,
        account: MemoryAccount,
        spill: SpillArea,
        clock: Callable[[], float],
        tuning: Tuning,
        patience: Patience | None = None,
    ) -> None:
        self.asked = schema
        if patience is not None:
            schema = schema.with_stored(Side.LEFT, SINCE)
        shares = MemoryShares.split(account.limit)
        memory = SemiStreamMemory(schema, nbytes=shares.store, in_order=algorithm.skips)
        super().__init__(
            schema,
            memory,
            account=account,
            spill=spill,
            tuning=tuning,
            blocks=_LOADED_BLOCKS,
            metrics=SemiStreamMetrics(),
        )
        self.algorithm = algorithm
        self.clock = clock
        self.patient: PatientRows | None = None
        if patience is not None:
            self.patient = PatientRows(
                schema, memory, spill=spill, patience=patience, block_bytes=self.block_bytes
            )
            # Whether a row has found a partner decides whether it is patient.
            self.emitter.marked = (True, False)
        self.stamp = 1
        self.closed = False
        self.expired = 0
        """Rows of the cyclic scan's table that have left: its oldest."""
        self.master = master
        self.use(master)

    # ---- the master table -----------------------------------------------------------------------

    def use(self, master: Master) -> None:
        """Read this version from now on."""
        self.check(master)
        self.master = master
        self.report_memory()

    def check(self, master: Master) -> None:
        """Refuse a version with other columns, or whose blocks do not fit."""
        expected = self.schema.stored(Side.RIGHT)
        if not master.schema.equals(expected):
            raise SchemaError(
                f"Version {master.version!r} of the master table has the columns "
                f"{_listed(master.schema)}, not {_listed(expected)}.",
                remedy="Give every version of the master table the same columns and types, or "
                "start anew with other ones.",
            )
        least = least_memory(master, self.account.limit, self.portion_bytes)
        if least > self.account.limit:
            raise MemoryTooSmall(
                f"The master table was laid down in blocks of up to {master.largest_block:,} "
                f"bytes, and {self.account.limit:,} bytes of memory leave {self.portion_bytes:,} "
                "for reading.",
                remedy=f"Give it at least {least:,} bytes, or lay it down for less memory.",
            )

    @property
    def portion_bytes(self) -> int:
        """Bytes of master rows that one step reads at most."""
        return self.tuning.portion_bytes or self.shares.loaded

    def mean_master_bytes(self) -> float:
        """Bytes of a master row as it was laid down."""
        return self.master.nbytes / max(self.master.rows, 1)

    def no_master_rows(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pylist([], self.schema.stored(Side.RIGHT))

    # ---- results --------------------------------------------------------------------------------

    def of_version(self, found: Iterator[Matches], version: str | None = None) -> Iterator[Matches]:
        """These results, which say the version that they met: the one that is read, if no other is
        named."""
        version = version or self.master.version
        for matches in found:
            yield Matches(matches.rows, matches.stage, version)

    def alone(self, source: RowSource, index: Index) -> Iterator[Matches]:
        """Report stream rows that will find no partner, if the join type keeps them."""
        return self.of_version(self.emitter.alone(Side.LEFT, source, index))

    def without_partner(self, table: WaitingRows | Table, index: Index) -> Iterator[Matches]:
        """Of these rows, which have met all of this version, those that have found no partner are
        reported, or wait for the next version."""
        emitter = self.emitter
        if self.patient is None:
            found = emitter.unmatched(Side.LEFT, table, index, table.stamps)
            yield from self.of_version(found)
            return
        index = index[emitter.marks.unmarked(table.stamps[index])]
        for start in range(0, len(index), len(self.pairs)):
            some = index[start : start + len(self.pairs)]
            yield from self.be_patient(table.codes(some), table.batch(some))

    def be_patient(self, codes: Codes, rows: pa.RecordBatch) -> Iterator[Matches]:
        """Have rows wait for the next version, if they have time; report the others."""
        assert self.patient is not None
        timely = self.patient.have_time(rows)
        yield from self.alone(BatchRows(rows), np.flatnonzero(~timely))
        self.patient.add(codes[timely], rows_where(rows, timely))
        self.memory.patient = self.patient.nbytes

    def bound_chunks(self, arriving_bytes: float) -> None:
        """Limit the rows of a chunk so that their copies fit the share of memory for results."""
        stream = max(arriving_bytes, self.memory.mean_bytes(Side.LEFT))
        self.pairs.bound(int(self.shares.chunk / (stream + self.mean_master_bytes())))

    # ---- memory ---------------------------------------------------------------------------------

    def draw(self, rows: int) -> Index:
        """The next stamps, for so many rows; each has a mark if rows are marked at all."""
        self.stamp += rows
        if any(self.emitter.marked):
            self.emitter.marks.cover(self.stamp + 1)
            self._reserve()
        return np.arange(self.stamp - rows, self.stamp)

    def forget_old_marks(self) -> None:
        """Forget the marks of rows that arrived before the oldest one that waits."""
        if any(self.emitter.marked):
            self.emitter.marks.forget(self.oldest())
            self._reserve()

    def oldest(self) -> int:
        """The stamp of the oldest row that waits; the next stamp if none does."""
        stamps = self.memory.table.stamps
        return int(stamps[0]) if len(stamps) else self.stamp

    @property
    def waiting(self) -> int:
        """Rows without a verdict."""
        table = self.memory.table
        return table.waiting if isinstance(table, WaitingRows) else len(table) - self.expired

    def _reserve(self) -> None:
        if self.closed:
            return
        marks = self.emitter.marks.nbytes if any(self.emitter.marked) else 0
        self.memory.reserved = marks + _PLACES_FACTOR * self.master.places.nbytes

    def report_memory(self, building: int = 0) -> None:
        self._reserve()
        memory, metrics = self.memory, self.metrics
        self.account.hold(memory.nbytes, "waiting rows")
        self.account.hold(memory.cache.nbytes, "cache")
        self.account.hold(memory.collected, "rows to be cached")
        self.account.hold(memory.patient, "rows that wait for a version")
        self.account.hold(memory.reserved, "marks and places of blocks")
        self.account.hold(building, "master rows being joined")
        metrics.memory_used, metrics.memory_peak = self.account.used, self.account.peak
        metrics.waiting_rows = self.waiting
        metrics.patient_rows = 0 if self.patient is None else len(self.patient)
        if self.closed:  # What the cache held in the end can still be asked for.
            return
        cache = memory.cache
        metrics.cache_entries, metrics.negative_entries = len(cache), cache.negative
        metrics.cache_rows, metrics.cache_bytes = len(cache.rows), cache.nbytes

    def close(self) -> None:
        self.closed = True
        super().close()
        self.master.close()


def least_memory(master: Master, limit: int, portion: int) -> int:
    """The memory in which the largest block can be read, if a `limit` leaves `portion` for that."""
    return -(-master.largest_block * limit // max(portion, 1))


def _listed(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)
