"""How threads of this process read the blocks of an aggregate."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from copy import copy
from itertools import groupby
from typing import Self, TypeVar

import pyarrow as pa

from watersmeet.aggregates.allowance import Allowance
from watersmeet.aggregates.ask.question import ResolvedQuestion
from watersmeet.aggregates.partials.block import BlockAggregator
from watersmeet.aggregates.partials.gathering import Gathering, Piece, make_key_sums
from watersmeet.aggregates.partials.key_sums import KeySums
from watersmeet.aggregates.partials.met_rows import MetRows
from watersmeet.aggregates.partials.summing import Summing
from watersmeet.aggregates.partials.totals import BlockTotals
from watersmeet.aggregates.sampling.engine import shares
from watersmeet.aggregates.sampling.looks import Look
from watersmeet.aggregates.sampling.plan import ReadPlan, Table
from watersmeet.aggregates.sampling.ripple import (
    Rectangle,
    RippleWork,
    Scanned,
    larger,
    partitions_for,
)
from watersmeet.errors import WatersmeetError
from watersmeet.local.blocks import BlockTable
from watersmeet.model import Side
from watersmeet.store.claim import SpillClaim
from watersmeet.store.exchange import ExchangeDir
from watersmeet.store.leftovers import Leftovers, keep_a_little

Tables = tuple[BlockTable, BlockTable]
# A limit beside which the few megabytes that threads keep for their next arrays are little.
_MUCH = 512 * 2**20
# What a thread does at a time is so small a part of what it has to do: others wait for the last one
# to end.
_SHARES = 12
_A = TypeVar("_A")
_B = TypeVar("_B")


class _Threads:
    """What both engines have: a few threads, and an end."""

    def __init__(
        self,
        tables: Tables,
        question: ResolvedQuestion,
        plan: ReadPlan,
        described: tuple[Table, Table],
        allowance: Allowance,
    ) -> None:
        self._tables = tables
        self._question = question
        self._plan = plan
        self._blocks = (described[0].blocks, described[1].blocks)
        self._allowance = allowance
        self._threads = allowance.workers
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="watersmeet-block")
        self._cancelled = threading.Event()

    def way(self, side: Side) -> str:
        return self._tables[side].name

    def cancel(self) -> None:
        self._cancelled.set()

    def close(self) -> None:
        self.cancel()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _check(self) -> None:
        if self._cancelled.is_set():
            raise _Cancelled

    def _map(self, work: Callable[[_A], _B], items: Iterable[_A]) -> list[_B]:
        """The results in order; with the first error nothing more is begun."""
        futures = [self._pool.submit(work, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            wait(futures)
            raise


class RippleEngine(_Threads):
    """Blocks of both sides, partitioned on disk."""

    def __init__(
        self,
        tables: Tables,
        question: ResolvedQuestion,
        plan: ReadPlan,
        described: tuple[Table, Table],
        allowance: Allowance,
        *,
        claim: SpillClaim,
    ) -> None:
        super().__init__(tables, question, plan, described, allowance)
        self._claim = claim
        held = described[plan.other].held
        self._work = RippleWork(
            question,
            plan.sampled,
            partitions_for(held, memory=max(allowance.entries // self._threads, 1)),
            ExchangeDir(claim.area.path.as_uri()),
            allowance.share(),
        )
        self._rectangle = Rectangle()

    def totals(self, look: Look) -> list[BlockTotals]:
        self._cancelled.clear()
        left, right = (self._scan(side, look.blocks[side]) for side in Side)
        rectangle = self._rectangle.grown((left, right))
        most = self._allowance.groups(self._allowance.entries // 2)
        question = self._question if look.last else self._work.numbered
        summing = Summing(question, most=most, apart=not look.last)

        def meet(partition: int) -> None:
            self._check()
            found = self._work.meet(partition, rectangle, apart=not look.last)
            if found is not None:
                summing.add(found)

        self._map(meet, range(self._work.partitions))
        self._rectangle = rectangle
        return summing.totals()

    def rows_of(self, side: Side, block: int) -> int:
        return self._blocks[side][block].rows

    def _scan(self, side: Side, blocks: Sequence[int]) -> tuple[Scanned, ...]:
        table, names = self._tables[side], self._question.names(side)
        nbytes = self._allowance.batch_bytes

        def scan(bundle: Sequence[int]) -> list[Scanned]:
            self._check()
            rows = table.read(bundle, names, batch_bytes=nbytes)
            return [
                self._work.scan(side, block, larger((batch for _, batch in batches), nbytes))
                for block, batches in groupby(rows, key=lambda read: read[0])
            ]

        bundles = [list(bundle) for _, bundle in groupby(sorted(blocks), key=table.bundle)]
        found = [scanned for some in self._map(scan, bundles) for scanned in some]
        # In the order of reading, which a seed decides.
        return tuple(sorted(found, key=lambda scanned: blocks.index(scanned.block)))

    def close(self) -> None:
        super().close()
        self._claim.close()


class ThreadEngine(_Threads):
    """Blocks of one side, each with all of the other that it can meet."""

    def __init__(
        self,
        tables: Tables,
        question: ResolvedQuestion,
        plan: ReadPlan,
        described: tuple[Table, Table],
        allowance: Allowance,
    ) -> None:
        super().__init__(tables, question, plan, described, allowance)
        self._meeting = BlockAggregator(question, sampled=plan.sampled)
        self._kept = _Kept(self._make, nbytes=allowance.entries // 2)
        self._complete: KeySums | None = None
        self._looks_end = True
        self._leftovers = threading.local()
        if allowance.limit >= _MUCH:
            keep_a_little()
        self._labels = tuple(question.labels(side) for side in Side)
        self._numbered = tuple(question.numbered(side) for side in Side)
        other = tables[plan.other]
        self._bundles = list(
            dict.fromkeys(map(other.bundle, range(len(described[plan.other].blocks))))
        )

    def totals(self, look: Look) -> list[BlockTotals]:
        self._cancelled.clear()
        if self._plan.needs is None and self._complete is None:
            self._complete = self._read_all()
        entries = 0 if self._complete is None else self._complete.nbytes
        most = self._allowance.groups(entries)
        summing = Summing(self._question, most=most, apart=not look.last)
        blocks = look.blocks[self._plan.sampled]
        self._kept.last_uses = None
        if look.last and self._looks_end and self._plan.needs is not None:
            self._kept.last_uses = Counter(
                bundle for block in blocks for bundle in self._needed(block)
            )
        self._map(
            lambda share: self._share(share, summing, sketched=not look.last),
            self._shares(blocks),
        )
        return summing.totals()

    def narrowed(self, question: ResolvedQuestion) -> Self:
        engine = copy(self)
        # What it reads last, others may read after it.
        engine._looks_end = False
        engine._question = question
        engine._meeting = BlockAggregator(question, sampled=self._plan.sampled)
        return engine

    def _shares(self, blocks: Sequence[int]) -> list[tuple[int, ...]]:
        """Blocks for one thread after the other: those that need the same rows, side by side."""
        table, sizes = self._tables[self._plan.sampled], self._blocks[self._plan.sampled]
        if self._plan.needs is not None:
            ordered = sorted(blocks, key=lambda block: (sizes[block].keys, block))
        else:
            ordered = sorted(blocks, key=lambda block: (table.bundle(block), block))
        return shares(ordered, _SHARES * self._threads)

    def _share(self, blocks: Sequence[int], summing: Summing, *, sketched: bool) -> None:
        sampled = self._plan.sampled
        table, sizes = self._tables[sampled], self._blocks[sampled]
        leftovers = self._leftovers_here()
        met = MetRows(self._meeting, nbytes=self._allowance.batch_bytes)
        for _, bundle in groupby(blocks, key=table.bundle):
            rows = table.read(
                sorted(bundle),
                self._question.names(sampled),
                batch_bytes=self._allowance.batch_bytes,
                labels=self._labels[sampled],
                numbered=self._numbered[sampled],
            )
            for block, batches in groupby(rows, key=lambda read: read[0]):
                self._check()
                entries = self._entries(block)
                if not sketched and met.suits(entries):
                    for _, batch in batches:
                        # The arrays of one batch after the other are of the same size, so there
                        # is little to hand back but what rows that met leave behind.
                        leftovers.passed(met.add(batch, entries, block=block))
                        if met.enough:
                            _add(met.totals(), summing)
                    continue
                summing.add(
                    self._meeting.totals(
                        leftovers.behind(batch for _, batch in batches),
                        entries,
                        block=block,
                        rows=sizes[block].rows,
                        sketched=sketched,
                    )
                )
        _add(met.totals(), summing)

    def _leftovers_here(self) -> Leftovers:
        """Those of this thread, whatever it has done before."""
        found: Leftovers | None = getattr(self._leftovers, "here", None)
        if found is None:
            found = self._leftovers.here = Leftovers(self._allowance.limit)
        return found

    def _entries(self, block: int) -> Sequence[KeySums]:
        if self._complete is not None:
            return [self._complete]
        return [self._kept.get(bundle) for bundle in self._needed(block)]

    def _needed(self, block: int) -> Iterable[int]:
        """Footers speak of whole row groups: who needs a piece of one needs all of it."""
        assert self._plan.needs is not None
        table = self._tables[self._plan.other]
        return dict.fromkeys(map(table.bundle, self._plan.needs[block]))

    def _make(self, bundle: int) -> KeySums:
        return make_key_sums(
            lambda gathering: map(gathering.piece, self._other_rows(bundle)),
            self._question,
            sampled=self._plan.sampled,
            portion=self._allowance.pairs,
        )

    def _read_all(self) -> KeySums:
        """Batches are reduced by the threads that read them."""

        def pieces(gathering: Gathering) -> Iterator[Piece]:
            def reduced(bundle: int) -> list[Piece]:
                self._check()
                return [gathering.piece(batch) for batch in self._other_rows(bundle)]

            for found in self._map(reduced, self._bundles):
                yield from found

        return make_key_sums(
            pieces,
            self._question,
            sampled=self._plan.sampled,
            most=self._allowance.entries,
            portion=self._allowance.pairs,
        )

    def _other_rows(self, bundle: int) -> Iterator[pa.RecordBatch]:
        other = self._plan.other
        return self._tables[other].read_bundle(
            bundle,
            self._question.names(other),
            batch_bytes=self._allowance.batch_bytes,
            labels=self._labels[other],
            numbered=self._numbered[other],
        )

    def close(self) -> None:
        super().close()
        self._complete = None
        self._kept.clear()


def _add(totals: BlockTotals | None, summing: Summing) -> None:
    if totals is not None:
        summing.add(totals)


class _Cancelled(WatersmeetError):
    def __init__(self) -> None:
        super().__init__("Reading was stopped.", remedy="Call resume() to go on.")


class _Kept:
    """Results of a function, each made once though several threads ask, and kept for later looks:
    the latest of them, in so many bytes. After `last_uses` of a number its result is let go: what
    the next one needs is in memory that the system need not clear first."""

    def __init__(self, make: Callable[[int], KeySums], *, nbytes: int) -> None:
        self._make = make
        self._nbytes = nbytes
        self._lock = threading.Lock()
        self._results: OrderedDict[int, Future[KeySums]] = OrderedDict()
        self._sizes: dict[int, int] = {}
        self._held = 0
        self.last_uses: dict[int, int] | None = None

    def get(self, number: int) -> KeySums:
        with self._lock:
            future = self._results.get(number)
            mine = future is None
            if future is None:
                future = self._results[number] = Future()
            else:
                self._results.move_to_end(number)
            self._count_use(number)
        if mine:
            try:
                made = self._make(number)
            except BaseException as error:
                with self._lock:
                    self._results.pop(number, None)
                future.set_exception(error)
            else:
                future.set_result(made)
                self._count(number, made.nbytes)
        return future.result()

    def _count_use(self, number: int) -> None:
        if self.last_uses is not None and number in self.last_uses:
            self.last_uses[number] -= 1
            if self.last_uses[number] <= 0:
                del self._results[number]
                self._held -= self._sizes.pop(number, 0)

    def _count(self, number: int, nbytes: int) -> None:
        """Let go of the oldest that are made, until the others fit."""
        with self._lock:
            if number not in self._results:
                return
            self._sizes[number] = nbytes
            self._held += nbytes
            if self._held <= self._nbytes:
                return
            for oldest in [each for each in self._results if each in self._sizes]:
                if self._held <= self._nbytes or oldest == number:
                    break
                self._held -= self._sizes.pop(oldest)
                del self._results[oldest]

    def clear(self) -> None:
        with self._lock:
            self._results.clear()
            self._sizes.clear()
            self._held = 0
