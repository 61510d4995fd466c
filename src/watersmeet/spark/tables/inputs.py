"""The tables of a join, cut into waves, whether our tasks or Spark's read them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from math import ceil
from typing import Protocol

from pyspark.sql import SparkSession

from watersmeet.model import Side
from watersmeet.policies.order import random_order
from watersmeet.spark.jobs import Record, run_tasks, side_by_side
from watersmeet.spark.scans.relation import PlainScan, Relation, Split
from watersmeet.spark.tables.histograms import code_ranges, reached
from watersmeet.spark.tables.order import Range, order_by_key
from watersmeet.spark.tables.partitions import StagedPartitions
from watersmeet.spark.tables.plan import Plan
from watersmeet.spark.tables.scanning import ScanTask, scan
from watersmeet.spark.tables.staging import Staged
from watersmeet.spark.tables.stretches import KeyRanges, Stretches
from watersmeet.spark.tables.waves import Piece, cut, shared_out
from watersmeet.store.exchange import Sections

# Tasks of a scan that runs ahead are not much longer than this many rows take, a third of a second:
# so long do other jobs wait for them.
_SCANNED_ROWS = 2_000_000


class Input(Protocol):
    """One table: for each wave the scan tasks that read it, or the files that Spark has staged."""

    @property
    def rows(self) -> int: ...

    def tasks(self, wave: int) -> list[ScanTask]: ...

    def staged(self, wave: int) -> list[Sections]: ...

    def rows_in(self, wave: int) -> int: ...


class PlainInput:
    """A table of plain Parquet files, whose row groups are read in a given order."""

    def __init__(
        self,
        relation: PlainScan,
        input: int,
        ends: Sequence[float],
        *,
        order: Sequence[int],
        tasks: int,
        stretches: Stretches | None = None,
        ranges: Sequence[Range] = (),
    ) -> None:
        """With `stretches` a wave reads what has their keys, according to the `ranges` of row
        groups, whatever the order and the ends."""
        self.rows = relation.rows
        self._relation = relation
        self._input = input
        self._tasks = tasks
        self._stretches = stretches
        counts = [group.rows for group in relation.row_groups]
        if stretches is None:
            self._waves = cut(counts, ends, order=order)
        else:
            self._waves = [[] for _ in ends]
            for number, (rows, values) in enumerate(zip(counts, ranges, strict=True)):
                first = int(stretches.reached(values).min())
                self._waves[first].append(Piece(number, 0, rows))

    def tasks(self, wave: int) -> list[ScanTask]:
        """As many for each of those that run at a time, and short ones."""
        each = ceil(self.rows_in(wave) / (_SCANNED_ROWS * self._tasks))
        return [
            ScanTask(self._input, wave, tuple(map(self._split, pieces)), self._stretches)
            for pieces in shared_out(self._waves[wave], among=self._tasks * max(each, 1))
        ]

    def _split(self, piece: Piece) -> Split:
        group = self._relation.row_groups[piece.number]
        return Split(group.file, group.number, piece.start, piece.stop)

    def staged(self, wave: int) -> list[Sections]:
        return []

    def rows_in(self, wave: int) -> int:
        return sum(piece.rows for piece in self._waves[wave])


class StagedInput:
    """Any other DataFrame: Spark has computed it once, and its rows are files in the storage."""

    def __init__(self, files: Sequence[Sections], ends: Sequence[float], seed: int) -> None:
        self.rows = sum(file.rows for file in files)
        order = random_order(len(files), seed=seed)
        pieces = cut([1] * len(files), ends, order=order)
        self._waves = [[files[piece.number] for piece in wave] for wave in pieces]

    def tasks(self, wave: int) -> list[ScanTask]:
        return []

    def staged(self, wave: int) -> list[Sections]:
        return self._waves[wave]

    def rows_in(self, wave: int) -> int:
        return sum(file.rows for file in self._waves[wave])


class PartitionInput:
    """A DataFrame whose partitions are computed some at a time, those of a wave when it comes."""

    def __init__(self, partitions: StagedPartitions, ends: Sequence[float]) -> None:
        self._partitions = partitions
        stops = [max(round(partitions.count * end), partitions.first) for end in ends]
        self._waves = list(pairwise([0, *stops]))

    @property
    def rows(self) -> int:
        return self._partitions.rows

    def tasks(self, wave: int) -> list[ScanTask]:
        return []

    def staged(self, wave: int) -> list[Sections]:
        start, stop = self._waves[wave]
        self._partitions.stage(stop)
        return self._partitions.files(start, stop)

    def rows_in(self, wave: int) -> int:
        return sum(file.rows for file in self._partitions.files(*self._waves[wave]))


class Inputs:
    """All tables of a join, wave by wave."""

    def __init__(
        self,
        spark: SparkSession,
        relations: Sequence[Relation],
        plan: Plan,
        *,
        staged: Staged,
        partitions: Mapping[int, StagedPartitions],
        known: KeyRanges | None,
        seed: int,
    ) -> None:
        """`staged` are the files of the tables that Spark has computed, `partitions` the tables
        that it computes some partitions of at a time; `known` is where keys are, if both tables
        are clustered on them."""
        self._spark = spark
        self._plan = plan
        self._plain = {
            input: relation
            for input, relation in zip(plan.inputs, relations, strict=True)
            if isinstance(relation, PlainScan)
        }
        self.key_order: str | None = None
        """The column by whose order row groups are read; None if their order is random."""
        self.known = known
        self.stretches: Stretches | None = None
        """The keys of each wave, if each has keys of its own."""
        self._later: dict[tuple[int, int], list[Sections]] = defaultdict(list)
        """By wave and input, rows that were read with those of earlier waves."""
        self._orders = self._ordered(seed)
        self._staged = staged
        self._partitions = partitions
        self._seed = seed
        self.tables: list[Input] = []
        self.waves = 0

    def cut(self, ends: Sequence[float]) -> None:
        """Cut all tables into waves, which end after these fractions of them."""
        self._later.clear()
        self.stretches = None
        if self.known is not None and self.known.has_many_parts and len(ends) > 1:
            self.stretches = Stretches.of(self.known, ends, seed=self._seed)
        self.tables = [self._table(input, ends) for input in self._plan.inputs]
        self.waves = len(ends)

    def _table(self, input: int, ends: Sequence[float]) -> Input:
        if input in self._partitions:
            return PartitionInput(self._partitions[input], ends)
        if input in self._staged:
            return StagedInput(self._staged[input], ends, self._seed + input)
        scan, order = self._plain[input], self._orders[input]
        tasks, stretches = self._plan.slots.tasks, self.stretches
        ranges = () if self.known is None else self.known.ranges[input]
        return PlainInput(
            scan, input, ends, order=order, tasks=tasks, stretches=stretches, ranges=ranges
        )

    def scan(
        self,
        wave: int,
        hurry: Callable[[], bool] = lambda: True,
        *,
        here: bool = False,
        spare: bool = False,
    ) -> list[list[Sections]]:
        """Bring a wave's rows into the storage; returns each table's files in a fixed order.

        Without `hurry` only a few tasks are a job, so that other jobs come in between; one less, so
        that a core stays free beside them, if there is one to `spare`. What tasks do otherwise this
        process does if it is to be done `here`.
        """
        tasks = [task for table in self.tables for task in table.tasks(wave)]
        plan, plain = self._plan, self._plain
        few = max(plan.slots.tasks - spare, 1)
        records: list[Record] = [scan(task, plan, plain) for task in tasks] if here else []
        while len(records) < len(tasks):
            rest = tasks[len(records) :]
            records += run_tasks(
                self._spark,
                rest if hurry() else rest[:few],
                lambda task: scan(task, plan, plain),
                at_once=plan.slots.tasks,
                query=plan.query,
                what=f"wave {wave + 1} of {self.waves}, scan",
            )
        if hurry():
            computed = [table for table in self.tables if isinstance(table, PartitionInput)]
            side_by_side(self._spark, [partial(table.staged, wave) for table in computed])
        files = [table.staged(wave) for table in self.tables]
        for task, record in zip(tasks, records, strict=True):
            files[task.input].append(Sections.from_description(record))
            for later, described in record["later"]:
                self._later[later, task.input].append(Sections.from_description(described))
        for input in self._plain:
            files[input] += self._later.pop((wave, input), [])
        return files

    @property
    def rows(self) -> tuple[int, ...]:
        return tuple(table.rows for table in self.tables)

    def rows_in(self, wave: int) -> tuple[int, ...]:
        return tuple(table.rows_in(wave) for table in self.tables)

    def _ordered(self, seed: int) -> dict[int, list[int]]:
        """The order of each plain table's row groups."""
        left, right = self._plain.get(Side.LEFT), self._plain.get(Side.RIGHT)
        if len(self._plan.inputs) == 2 and left is not None and right is not None:
            if self.known is not None:
                orders = order_by_key(*self.known.ranges, seed=seed)
                assert orders is not None
                self.key_order = self.known.columns[Side.LEFT]
                return dict(zip(Side, orders, strict=True))
            for placing in self._plan.placings:
                known = code_ranges(left, Side.LEFT, placing)
                starts = [None if each is None else each[0] for each in known]
                orders = order_by_key(starts, reached(right, Side.RIGHT, placing), seed=seed)
                if orders is not None:
                    place = placing.columns(Side.LEFT)[0]
                    self.key_order = self._plan.schemas[Side.LEFT].names[place]
                    return dict(zip(Side, orders, strict=True))
        return {
            input: random_order(len(relation.row_groups), seed=seed + input)
            for input, relation in self._plain.items()
        }
