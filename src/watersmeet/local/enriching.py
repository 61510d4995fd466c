"""The loop of an enrichment, in the caller's thread or in several."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import cast

import pyarrow as pa

from watersmeet.local.dividing import Divider, bounds_of
from watersmeet.local.driver import Driver
from watersmeet.local.instances import Instances
from watersmeet.local.keeping import Keeper
from watersmeet.local.masters import MasterInput
from watersmeet.local.news import Arrived, Ended, Failed, LaidDown, Wanted
from watersmeet.local.sources import Source
from watersmeet.local.threaded import ThreadedDriver
from watersmeet.operators.base import JoinOperator
from watersmeet.operators.enriching import MASTER, EnrichQuestion
from watersmeet.operators.family import make_enricher
from watersmeet.operators.semistream.join import SemiStreamJoin
from watersmeet.operators.semistream.metrics import SemiStreamMetrics
from watersmeet.rows.address import Matches
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.master.table import Master
from watersmeet.store.spill import SpillArea

# How often an idle join looks whether the deadline of a row has passed.
_LOOKS_PER_DEADLINE = 4
_LONGEST_LOOK_S = 1.0


class EnrichDriver(Driver):
    """The loop of an enrichment: a reader for the stream, a keeper for the master.

    The master counts as complete: every row of the stream meets all of a version.
    """

    question: EnrichQuestion
    keeper: Keeper | None = None
    master: Master
    """The version that was laid down last."""
    enricher: Enricher

    def keep(self, master: MasterInput, seen: Hashable | None, *, refresh: float | None) -> None:
        """Say what becomes of the master; before anything else is called."""
        self.refresh = refresh
        self.complete[MASTER] = True
        if self.question.deadline is not None:
            self.patience = min(self.question.deadline / _LOOKS_PER_DEADLINE, _LONGEST_LOOK_S)
        self.keeper = Keeper(
            master,
            self.sources[MASTER],
            seen,
            inbox=self._inbox,
            memory=self.memory,
            area=self.claim.area,
            refresh=refresh,
            reader_memory=self._reader_memory(),
        )

    def close(self) -> None:
        self._inbox.close()
        if self.keeper is not None:
            self.keeper.stop()
        super().close()

    @property
    def metrics(self) -> SemiStreamMetrics:
        return SemiStreamMetrics() if self.operator is None else self.enricher.metrics

    @property
    def busy_seconds(self) -> float:
        """Processor time that the join has taken, its results included."""
        return self._busy_seconds

    _busy_seconds = 0.0

    @property
    def meshjoin_bytes(self) -> float:
        """What MESHJOIN would have read of the master in the same memory."""
        return float(self.metrics.statistics()["meshjoin_bytes"])

    def _reader_memory(self) -> int:
        """The memory that an operator has which reads the master."""
        return self.memory.limit

    def _arriving(self) -> Sequence[Source]:
        return self.sources[:MASTER]

    def _make(self, schema: JoinSchema) -> JoinOperator:
        assert self.keeper is not None
        self.keeper.start(schema)
        news = self._inbox.take_first(MASTER)
        if isinstance(news, Failed):
            raise self._failure(news)
        assert isinstance(news, LaidDown)
        self.enricher = self._make_enricher(schema, news.master)
        self._count(news.master)
        # Instances have all that this driver asks of an operator.
        return cast(JoinOperator, self.enricher)

    def _make_enricher(self, schema: JoinSchema, master: Master) -> Enricher:
        return self._made(schema, master, self.memory, self.claim.area)

    def _made(
        self, schema: JoinSchema, master: Master, memory: MemoryAccount, spill: SpillArea
    ) -> SemiStreamJoin:
        return make_enricher(
            self.question.algorithm,
            schema,
            master=master,
            memory=memory,
            spill=spill,
            deadline=self.question.deadline,
        )

    def _heed(
        self, operator: JoinOperator, news: Arrived | Ended | Wanted | LaidDown
    ) -> Iterator[pa.RecordBatch]:
        if isinstance(news, LaidDown):
            self._count(news.master)
            return self._emit(self.enricher.take_over(news.master))
        return super()._heed(operator, news)

    def _emit(self, found: Iterator[Matches]) -> Iterator[pa.RecordBatch]:
        batches = super()._emit(found)
        while True:
            began = time.thread_time()
            batch = next(batches, None)
            self._busy_seconds += time.thread_time() - began
            if batch is None:
                return
            yield batch
            del batch

    def _count(self, master: Master) -> None:
        without_key = int(master.facts["null_keys"])
        self.enricher.count_master(rows=master.rows + without_key, without_key=without_key)
        self.rows_read[MASTER] += master.rows + without_key
        self.master = master


class ThreadedEnrichDriver(EnrichDriver, ThreadedDriver):
    """An enrichment in several threads. Keys are divided in order of their codes, as the master is
    laid down, so that each instance reads a part of its own."""

    enricher: EnrichingInstances

    def _reader_memory(self) -> int:
        return self._divided.instance

    @property
    def busy_seconds(self) -> float:
        return self._busy_seconds + self.enricher.busy_seconds

    @property
    def meshjoin_bytes(self) -> float:
        return float(sum(self.metrics.statistics()["meshjoin_bytes"]))

    def _make_enricher(self, schema: JoinSchema, master: Master) -> EnrichingInstances:
        parts = parts_of(master, self.threads)

        def instance(number: int, account: MemoryAccount) -> JoinOperator:
            spill = SpillArea(self.claim.area.path)
            return self._made(schema, parts[number], account, spill)

        try:
            self.enricher = self._instances = EnrichingInstances(
                schema,
                instance,
                divider=Divider(schema, self.threads, in_order=True, inputs=MASTER),
                threads=self.threads,
                memory=self.memory,
                inbox=self._inbox,
                # The cache would begin anew.
                uses_all_at_the_end=False,
            )
        except BaseException:
            for part in parts:
                part.close()
            raise
        self.enricher.start()
        return self.enricher


class EnrichingInstances(Instances):
    """Instances of an enrichment."""

    @property
    def metrics(self) -> SemiStreamMetrics:
        metrics = super().metrics
        assert isinstance(metrics, SemiStreamMetrics)
        return metrics

    def take_over(self, master: Master) -> Iterator[Matches]:
        """Go on with a new version of the master. All instances do so between the same rows of the
        stream, although not at the same time."""
        parts = parts_of(master, self.threads)
        return self.tell([partial(_take_over, part) for part in parts])

    def count_master(self, *, rows: int, without_key: int) -> None:
        """So many rows of a version of the master were read. No instance counts them."""
        metrics = self.workers[0].operator.metrics
        metrics.rows_in[MASTER] += rows
        metrics.null_keys[MASTER] += without_key


Enricher = SemiStreamJoin | EnrichingInstances


def _take_over(part: Master, operator: JoinOperator) -> Iterator[Matches]:
    assert isinstance(operator, SemiStreamJoin)
    return operator.take_over(part)


def parts_of(master: Master, instances: int) -> list[Master]:
    """The blocks with the codes of each instance. The master itself is closed; a block with codes
    of several instances is part of each."""
    bounds = [*bounds_of(instances).tolist(), None]
    parts = [master.part(first, before) for first, before in pairwise(bounds)]
    master.close()
    return parts
