"""How Spark reads the blocks of an aggregate: a job or two for each look."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain
from typing import Self, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from watersmeet.aggregates.allowance import Allowance, SideTooLarge
from watersmeet.aggregates.ask.question import ResolvedQuestion
from watersmeet.aggregates.partials.gathering import key_sum_bytes
from watersmeet.aggregates.partials.summing import Summing
from watersmeet.aggregates.partials.totals import BlockTotals
from watersmeet.aggregates.sampling.designs import FOUND_RANGES
from watersmeet.aggregates.sampling.engine import shares
from watersmeet.aggregates.sampling.looks import Look
from watersmeet.aggregates.sampling.plan import ReadPlan, Table
from watersmeet.aggregates.sampling.ripple import Rectangle, RippleWork, Scanned, partitions_for
from watersmeet.model import Side
from watersmeet.rows.rebatched import rebatched
from watersmeet.spark.aggregates.blocks import PartitionBlocks, PlainBlocks
from watersmeet.spark.aggregates.tasks import (
    FIRST,
    OtherSide,
    Work,
    met,
    read_blocks,
    read_partition,
)
from watersmeet.spark.cluster import TaskSlots
from watersmeet.spark.jobs import Partitions, Record, cancel, run_tasks
from watersmeet.spark.scans.relation import StagedRows
from watersmeet.spark.storage import RunStorage
from watersmeet.spark.text_partitions import Place, TextPartitions, run_over_all
from watersmeet.store.exchange import ExchangeDir, Sections
from watersmeet.words import megabytes

Blocks = PlainBlocks | PartitionBlocks
Result = TypeVar("Result")
_Opened = Partitions[Result] | TextPartitions[Result]
_STAGED_ROWS = 1 << 18
# Of a look, for each core: one that comes late should not be waited for long.
_TASKS_EACH = 3
# Partitions whose totals are at the driver before they are added up.
_TOGETHER = 256


@dataclass(frozen=True)
class Given:
    """What an engine works with, whatever the plan."""

    spark: SparkSession
    query: str
    question: ResolvedQuestion
    sources: tuple[Blocks, Blocks]
    tables: tuple[Table, Table]
    allowance: Allowance
    storage: Callable[[], RunStorage]
    """Claims it."""


class _Jobs:
    """What both engines have: a session, and an end."""

    def __init__(self, given: Given, plan: ReadPlan) -> None:
        self._spark = given.spark
        self._query = given.query
        self._question = given.question
        self._plan = plan
        self._sources = given.sources
        self._tables = given.tables
        self._allowance = given.allowance
        self._slots = TaskSlots.of(given.spark)
        self._claim = given.storage
        # One at most, which engines that this one is narrowed to have, too.
        self._storages: list[RunStorage] = []
        self._looks = 0

    def way(self, side: Side) -> str:
        source = self._sources[side]
        if isinstance(source, PlainBlocks):
            return f"file path: {source.scan.describe()}"
        how = "some partitions at a time" if self._plan.orders[side] else "once, before all else"
        if not isinstance(source.relation, StagedRows):
            cut = f"{source.partitions:,} partitions of text, read {how}"
            return f"file path: {source.relation.describe()}; {cut}"
        return f"row path, computed by Spark {how}, because {source.relation.because()}"

    def cancel(self) -> None:
        cancel(self._spark, self._query)

    def close(self) -> None:
        self.cancel()
        for storage in self._storages:
            storage.release()

    @property
    def _place(self) -> Place:
        claimed = self._storages[0].exchange if self._storages else None
        return Place(self._spark, self._query, self._slots.tasks, self._exchange, claimed)

    def _exchange(self) -> ExchangeDir:
        if not self._storages:
            self._storages.append(self._claim())
        return self._storages[0].exchange


class ClusterEngine(_Jobs):
    """Reads blocks of one side in tasks. The other side is read by need, or once by each worker."""

    def __init__(self, given: Given, plan: ReadPlan) -> None:
        super().__init__(given, plan)
        source = given.sources[plan.other]
        plain = source if isinstance(source, PlainBlocks) else None
        needs, ranges = plan.needs, None
        if plain is not None and (needs is not None or plan.design is FOUND_RANGES):
            # Footers speak of whole row groups: who needs a piece of one needs all of it.
            plain, places = plain.whole()
            if needs is not None:
                needs = tuple(tuple(sorted({places[block] for block in each})) for each in needs)
            else:
                keys = (block.keys for block in given.tables[plan.other].blocks)
                by_group = dict(zip(places, keys, strict=True))
                ranges = tuple(each for each in by_group.values() if each is not None)
        elif plain is not None and plain.scan.has_functions:
            # Each worker would call them for all rows of this side.
            plain = None
        self._work = Work(
            given.query,
            given.question,
            plan.sampled,
            OtherSide(given.question.schemas[plan.other], plain),
            needs,
            given.allowance.share(),
            ranges,
            fits=given.tables[plan.other].held <= given.allowance.share().entries,
        )
        self._partitions: _Opened[list[BlockTotals]] | None = None

    def totals(self, look: Look) -> list[BlockTotals]:
        if not self._work.other.is_there:
            self._stage()
        self._looks += 1
        source, blocks = self._sources[self._plan.sampled], look.blocks[self._plan.sampled]
        if isinstance(source, PlainBlocks):
            work, last = self._work, look.last
            found = run_tasks(
                self._spark,
                self._shares(blocks),
                lambda share: read_blocks(share, work, source, last=last),
                at_once=self._slots.tasks,
                query=self._query,
                what=f"look {self._looks}",
            )
        else:
            return self._partition_totals(source, look)
        return list(chain.from_iterable(found))

    def _partition_totals(self, source: PartitionBlocks, look: Look) -> list[BlockTotals]:
        """Of the last look, which may be of a thousand partitions, not all are here at once."""
        # In order: neighbours often need the same rows of the other side, which a worker keeps.
        partitions, blocks = self._partitions_of(source), sorted(look.blocks[self._plan.sampled])
        what = f"look {self._looks}, rows of the {self._plan.sampled.name.lower()} side"
        # Whether rows follow the key shows in the first look, when another design may still be
        # chosen; later ones are slower where they do not.
        told = {FIRST: "1"} if self._looks == 1 else {}
        if not look.last:
            return list(chain.from_iterable(partitions.run(blocks, what=what, told=told)))
        most = self._allowance.groups(self._allowance.entries // 2)
        summing = Summing(self._question, most=most, apart=False)
        for start in range(0, len(blocks), _TOGETHER):
            some = blocks[start : start + _TOGETHER]
            for found in partitions.run(some, what=what, told=told):
                for totals in found:
                    summing.add(totals)
        return summing.totals()

    def narrowed(self, question: ResolvedQuestion) -> Self:
        engine = copy(self)
        engine._question = question
        engine._partitions = None
        engine._work = replace(self._work, question=question)
        return engine

    def _shares(self, blocks: Sequence[int]) -> list[tuple[int, ...]]:
        """In the order of their keys, so that neighbours need the same rows of the other side."""
        sizes = self._tables[self._plan.sampled].blocks
        ordered = sorted(blocks, key=lambda block: (sizes[block].keys or (0, 0), block))
        return shares(ordered, _TASKS_EACH * self._slots.tasks)

    def _partitions_of(self, source: PartitionBlocks) -> _Opened[list[BlockTotals]]:
        if self._partitions is None:
            work = self._work
            self._partitions = source.open(
                lambda batches, number: read_partition(batches, number, work),
                self._place,
                what="what comes before the sampled side",
            )
        return self._partitions

    def _stage(self) -> None:
        """Bring the other side into the run's storage, of which workers do not read the files."""
        other = self._plan.other
        source, schema = self._sources[other], self._question.schemas[other]
        if isinstance(source, PlainBlocks):
            side = self._staged_here(source, schema, side=other)
        else:
            side = _staged(source, schema, self._place, side=other)
            _check_size(side, self._work)
        self._work = replace(self._work, other=side)

    def _staged_here(self, source: PlainBlocks, schema: pa.Schema, *, side: Side) -> OtherSide:
        """By our own tasks, each of which reads some blocks."""
        word, storage = side.name.lower(), self._exchange()
        nbytes = self._work.allowance.batch_bytes

        def stage(blocks: Sequence[int]) -> Record:
            splits = (split for _, split in source.bundles(blocks))
            rows = chain.from_iterable(source.rows_of(split, nbytes) for split in splits)
            return _write(rows, storage, word)

        records = run_tasks(
            self._spark,
            shares(range(len(source.splits)), _TASKS_EACH * self._slots.tasks),
            stage,
            at_once=self._slots.tasks,
            query=self._query,
            what=f"staging the {word} side",
        )
        return _other_side(records, schema, storage)


class RippleEngine(_Jobs):
    """Blocks of both sides, partitioned in the run's storage; then each partition in a task."""

    def __init__(self, given: Given, plan: ReadPlan) -> None:
        super().__init__(given, plan)
        held = given.tables[plan.other].held
        memory = given.allowance.share().entries
        self._count = max(partitions_for(held, memory=memory), 2 * self._slots.tasks)
        self._work: RippleWork | None = None
        self._partitions: dict[Side, _Opened[Record]] = {}
        self._rectangle = Rectangle()
        self._rows: dict[tuple[Side, int], int] = {}

    def rows_of(self, side: Side, block: int) -> int:
        return self._rows[side, block]

    def totals(self, look: Look) -> list[BlockTotals]:
        self._looks += 1
        if self._work is None:
            self._work = RippleWork(
                self._question,
                self._plan.sampled,
                self._count,
                self._exchange(),
                self._allowance.share(),
            )
        work = self._work
        left, right = (tuple(self._scan(side, look.blocks[side], work)) for side in Side)
        rectangle = self._rectangle.grown((left, right))
        found = run_tasks(
            self._spark,
            range(self._count),
            lambda partition: met(partition, work, rectangle, apart=not look.last),
            at_once=self._slots.tasks,
            query=self._query,
            what=f"look {self._looks}, join",
        )
        for side in Side:
            self._rows |= {(side, each.block): each.rows for each in rectangle.new[side]}
        self._rectangle = rectangle
        return list(chain.from_iterable(found))

    def _scan(self, side: Side, blocks: Sequence[int], work: RippleWork) -> list[Scanned]:
        source = self._sources[side]
        what = f"look {self._looks}, scan of the {side.name.lower()} side"
        if isinstance(source, PlainBlocks):
            plain, nbytes = source, work.allowance.batch_bytes
            records = run_tasks(
                self._spark,
                list(blocks),
                lambda block: work.scan(
                    side, block, plain.rows_of(plain.splits[block], nbytes)
                ).describe(),
                at_once=self._slots.tasks,
                query=self._query,
                what=what,
            )
        else:
            schema = self._question.schemas[side]
            if side not in self._partitions:
                self._partitions[side] = source.open(
                    lambda batches, block: work.scan(
                        side, block, (batch.cast(schema) for batch in batches)
                    ).describe(),
                    self._place,
                    what=what,
                )
            records = self._partitions[side].run(blocks, what=what) if blocks else []
        return [Scanned.from_description(record) for record in records]


def _check_size(side: OtherSide, work: Work) -> None:
    """What Spark computed has a size now; before, there was a guess at best."""
    other = work.sampled.other
    if work.question.sides[other] is not None:
        return  # Of the rows that a condition keeps, tasks know.
    rows = sum(file.rows for file in side.staged or ())
    held = rows * key_sum_bytes(work.question, other)
    most = work.allowance.entries
    if held > most:
        raise SideTooLarge(
            f"The {other.name.lower()} side has {rows:,} rows, which take about {megabytes(held)} "
            f"in a task, and of memory= a task has {megabytes(most)} for them.",
            remedy="Give more memory, or filter that side before the join.",
        )


def _staged(source: PartitionBlocks, schema: pa.Schema, place: Place, *, side: Side) -> OtherSide:
    word, storage = side.name.lower(), place.storage()

    def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[Record]:
        rows = (batch.cast(schema) for batch in batches)
        yield _write(rebatched(rows, _STAGED_ROWS), storage, word)

    records = run_over_all(source.relation, stage, place, what=f"staging the {word} side")
    return _other_side(records, schema, storage)


def _write(rows: Iterator[pa.RecordBatch], storage: ExchangeDir, word: str) -> Record:
    return storage.write_sections(f"{word}-staged", ((0, each) for each in rows)).describe()


def _other_side(records: Iterable[Record], schema: pa.Schema, storage: ExchangeDir) -> OtherSide:
    files = sorted(map(Sections.from_description, records), key=lambda file: file.name)
    return OtherSide(schema, None, storage, tuple(files))
