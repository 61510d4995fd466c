"""A side that is no plain scan, of which some partitions are computed at a time.

Spark computes them, or tasks of ours if they are text.

They come in a random order, so that the first waves are like the rest. Each is computed once, and
its rows are kept as files in the storage: a plan may give other rows when it is computed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import ceil

import pyarrow as pa
from pyspark.sql import SparkSession

from watersmeet.policies.order import random_order
from watersmeet.spark.frames import row_group_bytes, source_bytes
from watersmeet.spark.jobs import MANY, Record
from watersmeet.spark.scans.relation import PlainScan, Relation, StagedRows, TextRelation
from watersmeet.spark.tables.plan import Plan, Sizes
from watersmeet.spark.tables.scanning import stage
from watersmeet.spark.tables.staging import Staged, divided_among, place_of
from watersmeet.spark.tables.waves import FIRST_SHARE
from watersmeet.spark.text_partitions import open_partitions
from watersmeet.store.exchange import Sections
from watersmeet.words import count_text


class StagedPartitions:
    """The partitions of one side, in the order in which they are computed."""

    def __init__(
        self,
        spark: SparkSession,
        relation: TextRelation | StagedRows,
        input: int,
        plan: Plan,
        *,
        seed: int,
        sides: int = 1,
    ) -> None:
        """So many `sides` are computed beside each other."""
        self._spark = spark
        self._input = input
        self._plan = plan
        self._fitted = plan
        self._what = f"staging the {plan.names[input]} side"

        def staged(batches: Iterator[pa.RecordBatch], number: int) -> Record:
            return {"number": number, "files": list(stage(batches, input, plan))}

        self._partitions = open_partitions(
            relation,
            staged,
            place_of(spark, plan),
            what=self._what,
            many=_most_partitions(relation),
        )
        self.count = self._partitions.count
        self.order = random_order(self.count, seed=seed)
        beside = ceil(plan.slots.tasks / sides)
        self.first = min(max(beside, ceil(self.count * FIRST_SHARE)), self.count)
        """How many are computed before the first wave: those that are computed side by side."""
        self._files: list[list[Sections]] = []

    @property
    def refusal(self) -> str:
        """Why all of it is computed at once instead; empty if it is not."""
        if self.count <= self._plan.slots.tasks:
            return f"it has {count_text(self.count, 'partition')}; more of them would come in waves"
        if self._partitions.is_shuffled and not self._partitions.is_deterministic:
            return "it has a shuffle of rows that may differ when they are computed again"
        return ""

    def begin(self) -> None:
        """Compute the first of them, and more if those have no rows."""
        self.stage(self.first)
        while not self._rows() and len(self._files) < self.count:
            self.first = min(2 * self.first, self.count)
            self.stage(self.first)

    def stage(self, count: int) -> None:
        """Have the first `count` partitions in the storage."""
        if count > len(self._files):
            self._files += self._divided(self._computed(count))

    def _computed(self, count: int) -> list[list[Sections]]:
        """The files of the partitions that are missing among the first `count`."""
        missing = self.order[len(self._files) : count]
        records = self._partitions.run(missing, what=self._what)
        by_number = {
            record["number"]: [Sections.from_description(file) for file in record["files"]]
            for record in records
        }
        return [by_number[number] for number in missing]

    def describe(self) -> str:
        return f"{self.count} partitions computed some at a time in random order"

    def fit(self, plan: Plan) -> None:
        """Divide rows among this plan's instances, those that are there and those that come."""
        self._fitted = plan
        self._files = self._divided(self._files)

    def _divided(self, partitions: Sequence[list[Sections]]) -> list[list[Sections]]:
        if self._fitted.instances == self._plan.instances:
            return list(partitions)
        files = divided_among(
            self._spark,
            self._input,
            list(chain.from_iterable(partitions)),
            before=self._plan,
            plan=self._fitted,
        )
        remaining = iter(files)
        return [[next(remaining) for _ in partition] for partition in partitions]

    def files(self, start: int, stop: int) -> list[Sections]:
        """Of the partitions at these places of the order."""
        return list(chain.from_iterable(self._files[start:stop]))

    def _rows(self) -> int:
        return sum(file.rows for file in self.files(0, self.count))

    @property
    def rows(self) -> int:
        """Of all partitions: about, until the last has been computed."""
        return self._extrapolated(self._rows())

    @property
    def nbytes(self) -> int:
        return self._extrapolated(sum(file.nbytes for file in self.files(0, self.count)))

    def _extrapolated(self, seen: int) -> int:
        return ceil(seen * self.count / max(len(self._files), 1))


def _most_partitions(relation: TextRelation | StagedRows) -> int:
    """With more of them than there are row groups, Spark would make some without rows."""
    if not isinstance(relation, StagedRows):
        return MANY
    each = row_group_bytes(relation.dataframe)
    nbytes = source_bytes(relation.dataframe)
    if not each or nbytes is None:
        return MANY
    return min(max(nbytes // each, 1), MANY)


def sizes_of(
    relations: Sequence[Relation],
    files: Staged,
    partitions: Mapping[int, StagedPartitions],
) -> Sizes:
    """Of all inputs: exact for what has been staged, extrapolated where some partitions have been;
    for plain scans, rows before filters."""
    rows, nbytes = [], []
    for input, relation in enumerate(relations):
        if isinstance(relation, PlainScan):
            rows.append(relation.rows)
            nbytes.append(0)
        elif (found := partitions.get(input)) is not None:
            rows.append(found.rows)
            nbytes.append(found.nbytes)
        else:
            rows.append(sum(file.rows for file in files[input]))
            nbytes.append(sum(file.nbytes for file in files[input]))
    return Sizes(tuple(rows), tuple(nbytes))
