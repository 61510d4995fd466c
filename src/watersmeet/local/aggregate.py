"""An aggregate over a join in this process: blocks are read by a few threads, without a JVM."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import Any, Self, TypeVar

import pyarrow as pa

from watersmeet.aggregates.engine import Engine
from watersmeet.aggregates.entries import Entries, entry_bytes, make_entries
from watersmeet.aggregates.looks import Look
from watersmeet.aggregates.meeting import Meeting
from watersmeet.aggregates.planner import Design, ReadPlan, Table, plan_reads
from watersmeet.aggregates.question import AggregateQuestion, ResolvedQuestion
from watersmeet.aggregates.ripple import Rectangle, RippleWork, Scanned, partitions_for
from watersmeet.aggregates.run import AggregateRun
from watersmeet.aggregates.settings import Settings
from watersmeet.aggregates.specification import Aggregate
from watersmeet.aggregates.totals import BlockTotals
from watersmeet.errors import WatersmeetError
from watersmeet.local.blocks import BlockTable, open_table
from watersmeet.model import Side, parse_bytes, parse_seed
from watersmeet.rows.on import On
from watersmeet.store.claim import SpillClaim
from watersmeet.store.storage import Storage

Tables = tuple[BlockTable, BlockTable]
_A = TypeVar("_A")
_B = TypeVar("_B")


def aggregate(
    left: Any,
    right: Any,
    on: On,
    how: str = "inner",
    *,
    group_by: str | Sequence[str] | None = None,
    where: str | None = None,
    confidence: float = 0.95,
    simultaneous: bool = False,
    every_look: bool = False,
    heavy_tails: str = "flag",
    memory: int | str = "1GB",
    spill_dir: str | Path | None = None,
    seed: int = 0,
    **aggregates: Aggregate,
) -> AggregateRun:
    """Aggregate a join: estimates with intervals at once, exact in the end.

    Parameters
    ----------
    left, right
        What `local.join` takes. Parquet files are read a row group at a time, in random order;
        anything else is read into memory first.
    on, how
        As for `local.join`. A left join is estimated from its left side, a right join from its
        right; semi and anti joins from their left. A full join is refused.
    group_by
        A column, or a list of columns, of either side.
    where
        A condition in SQL over columns of both sides.
    confidence
        How often an interval is to hold the exact value.
    simultaneous, every_look
        Whether that is to be so of all cells of a look together, and of all looks together.
    heavy_tails
        What becomes of values so extreme that a sample misses them: "flag" says that an interval
        is not to be trusted, "take-all" reads the sampled side once more for all such rows.
    memory
        The most that the rows of one side may take. If neither fits and they are not clustered on
        the key, both are read in a growing rectangle.
    spill_dir
        An existing directory for rows of such a rectangle; the system's temporary one by default.
    seed
        Of the random order in which blocks are read.
    aggregates
        The columns of the answer, such as revenue=wm.sum("price * (1 - discount)"), n=wm.count().

    Examples
    --------
    >>> import pyarrow as pa
    >>> import watersmeet as wm
    >>> orders = pa.table({"id": range(1000), "kind": ["a", "b"] * 500})
    >>> items = pa.table({"id": [n % 1000 for n in range(9000)], "price": [2.5] * 9000})
    >>> run = aggregate(orders, items, on="id", group_by="kind", revenue=wm.sum("price"))
    >>> run.exact().answer.to_pylist()
    [{'kind': 'a', 'revenue': 11250.0}, {'kind': 'b', 'revenue': 11250.0}]
    """
    question = AggregateQuestion.parse(
        on, how, group_by=group_by, where=where, aggregates=aggregates
    )
    settings = Settings.parse(
        confidence, simultaneous=simultaneous, every_look=every_look, heavy_tails=heavy_tails
    )
    limit = parse_bytes(memory)
    seed = parse_seed(seed)
    tables = (
        open_table(left, side=Side.LEFT, memory=limit),
        open_table(right, side=Side.RIGHT, memory=limit),
    )
    resolved = question.resolve((tables[0].schema, tables[1].schema))
    described = _describe(tables, resolved)
    plan = plan_reads(
        described,
        resolved.how,
        memory=limit,
        seed=seed,
        alike=resolved.ordered_alike,
        expressions=resolved.aggregates.expressions,
        filters=resolved.sides,
    )
    engine: Engine
    if plan.design is Design.RIPPLE:
        engine = _RippleEngine(tables, resolved, plan, described, memory=limit, spill_dir=spill_dir)
    else:
        engine = _Engine(tables, resolved, plan, described)
    return AggregateRun(resolved, described, plan, engine=engine, settings=settings)


def _describe(tables: Tables, question: ResolvedQuestion) -> tuple[Table, Table]:
    left, right = (
        Table(
            table.blocks(question.keys[0][side], question.names(side)),
            entry_bytes(question, side),
            facts=table.facts(question.names(side)),
        )
        for side, table in zip(Side, tables, strict=True)
    )
    return left, right


class _Threads:
    """What both engines have: a few threads, and an end."""

    def __init__(
        self,
        tables: Tables,
        question: ResolvedQuestion,
        plan: ReadPlan,
        described: tuple[Table, Table],
    ) -> None:
        self._tables = tables
        self._question = question
        self._plan = plan
        self._blocks = (described[0].blocks, described[1].blocks)
        self._threads = max(os.cpu_count() or 1, 1)
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="watersmeet-block")
        self._cancelled = threading.Event()

    def rows_of(self, side: Side, block: int) -> int:
        return self._blocks[side][block].rows

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
        """The results in order; the first error ends the others."""
        futures = [self._pool.submit(work, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            self._cancelled.set()
            raise


class _RippleEngine(_Threads):
    """Blocks of both sides, partitioned on disk."""

    def __init__(
        self,
        tables: Tables,
        question: ResolvedQuestion,
        plan: ReadPlan,
        described: tuple[Table, Table],
        *,
        memory: int,
        spill_dir: str | Path | None,
    ) -> None:
        super().__init__(tables, question, plan, described)
        self._claim = SpillClaim(spill_dir)
        held = described[plan.other].held
        self._work = RippleWork(
            question,
            plan.sampled,
            partitions_for(held, memory=max(memory // self._threads, 1)),
            Storage(self._claim.area.path.as_uri()),
        )
        self._rectangle = Rectangle()

    def totals(self, look: Look) -> Iterable[BlockTotals]:
        self._cancelled.clear()
        left, right = (
            tuple(self._map(lambda block: self._scan(side, block), look.blocks[side]))  # noqa: B023
            for side in Side
        )
        rectangle = self._rectangle.grown((left, right))
        found = self._map(
            lambda partition: self._meet(partition, rectangle), range(self._work.partitions)
        )
        self._rectangle = rectangle
        return [totals for totals in found if totals is not None]

    def narrowed(self, question: ResolvedQuestion) -> Self:
        raise NotImplementedError("A rectangle is not divided.")

    def _scan(self, side: Side, block: int) -> Scanned:
        self._check()
        batches = self._tables[side].read([block], self._question.names(side))
        return self._work.scan(side, block, batches)

    def _meet(self, partition: int, rectangle: Rectangle) -> BlockTotals | None:
        self._check()
        return self._work.meet(partition, rectangle)

    def close(self) -> None:
        super().close()
        self._claim.close()


class _Engine(_Threads):
    """Blocks of one side, each with all of the other that it can meet."""

    def __init__(
        self,
        tables: Tables,
        question: ResolvedQuestion,
        plan: ReadPlan,
        described: tuple[Table, Table],
    ) -> None:
        super().__init__(tables, question, plan, described)
        self._meeting = Meeting(question, sampled=plan.sampled)
        self._kept = _Kept(self._make, most=4 * self._threads)
        self._complete: Entries | None = None

    def totals(self, look: Look) -> Iterable[BlockTotals]:
        self._cancelled.clear()
        if self._plan.design is Design.COMPLETE and self._complete is None:
            self._complete = self._read_all()
        shares = self._shares(look.blocks[self._plan.sampled])
        found = self._map(lambda share: self._share(share, sketched=not look.last), shares)
        return list(chain.from_iterable(found))

    def narrowed(self, question: ResolvedQuestion) -> Self:
        engine = copy(self)
        engine._question = question
        engine._meeting = Meeting(question, sampled=self._plan.sampled)
        return engine

    def _shares(self, blocks: Sequence[int]) -> list[list[int]]:
        """Blocks for one thread after the other: those that need the same rows, side by side."""
        table, sizes = self._tables[self._plan.sampled], self._blocks[self._plan.sampled]
        if self._plan.design is Design.RANGES:
            ordered = sorted(blocks, key=lambda block: (sizes[block].keys, block))
        else:
            ordered = sorted(blocks, key=lambda block: (table.bundle(block), block))
        count = min(len(ordered), 4 * self._threads)
        ends = [len(ordered) * part // max(count, 1) for part in range(count + 1)]
        return [ordered[a:b] for a, b in pairwise(ends)]

    def _share(self, blocks: Sequence[int], *, sketched: bool) -> list[BlockTotals]:
        sampled = self._plan.sampled
        table, sizes = self._tables[sampled], self._blocks[sampled]
        names = self._question.names(sampled)
        found = []
        for _, bundle in groupby(blocks, key=table.bundle):
            together = list(bundle)
            for block, batch in zip(together, table.read(together, names), strict=True):
                self._check()
                found.append(
                    self._meeting.totals(
                        [batch],
                        self._entries(block),
                        block=block,
                        rows=sizes[block].rows,
                        sketched=sketched,
                    )
                )
        return found

    def _entries(self, block: int) -> Sequence[Entries]:
        if self._complete is not None:
            return [self._complete]
        assert self._plan.needs is not None
        return [self._kept.get(needed) for needed in self._plan.needs[block]]

    def _make(self, block: int) -> Entries:
        other = self._plan.other
        batches = self._tables[other].read([block], self._question.names(other))
        return make_entries(batches, self._question, sampled=self._plan.sampled)

    def _read_all(self) -> Entries:
        other = self._plan.other
        table, names = self._tables[other], self._question.names(other)

        def read(blocks: Iterable[int]) -> list[pa.RecordBatch]:
            return list(table.read(list(blocks), names))

        bundles = [
            list(bundle) for _, bundle in groupby(range(len(self._blocks[other])), key=table.bundle)
        ]
        batches = chain.from_iterable(self._pool.map(read, bundles))
        return make_entries(batches, self._question, sampled=self._plan.sampled)

    def close(self) -> None:
        super().close()
        self._complete = None
        self._kept.clear()


class _Cancelled(WatersmeetError):
    def __init__(self) -> None:
        super().__init__("Reading was stopped.", remedy="Call resume() to go on.")


class _Kept:
    """The latest few results of a function, each made once though several threads ask."""

    def __init__(self, make: Callable[[int], Entries], *, most: int) -> None:
        self._make = make
        self._most = most
        self._lock = threading.Lock()
        self._results: OrderedDict[int, Future[Entries]] = OrderedDict()

    def get(self, number: int) -> Entries:
        with self._lock:
            future = self._results.get(number)
            mine = future is None
            if future is None:
                future = self._results[number] = Future()
                while len(self._results) > self._most:
                    self._results.popitem(last=False)
            else:
                self._results.move_to_end(number)
        if mine:
            try:
                future.set_result(self._make(number))
            except BaseException as error:
                future.set_exception(error)
                with self._lock:
                    self._results.pop(number, None)
        return future.result()

    def clear(self) -> None:
        with self._lock:
            self._results.clear()
