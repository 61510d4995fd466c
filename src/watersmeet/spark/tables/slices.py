"""A side of few partitions whose rows are in memory: a slice of them first, then all others.

Cached rows have as many partitions as they were cached with, often one for each core, and no part
of a partition can be had alone. But to look through rows in memory takes Spark less time than to
hand them to Python. So it looks through them twice, and each time only some of them cross: first
those whose keys have certain hashes. A row is in the slice that its values say, wherever it lies
and however often it is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from watersmeet.model import Side
from watersmeet.policies.order import random_order
from watersmeet.spark.jobs import MANY, Partitions, Record, nodes
from watersmeet.spark.scans.relation import PlainScan, Relation, StagedRows
from watersmeet.spark.sql import quoted
from watersmeet.spark.tables.partitions import StagedPartitions
from watersmeet.spark.tables.plan import Plan
from watersmeet.spark.tables.scanning import stage
from watersmeet.store.exchange import Sections

# Cached rows, and nodes that take no time to speak of. (Ranges have as many partitions as asked.)
_STEPS = {"Filter", "InMemoryRelation", "Project", "Union"}
# What rows may be cached of: nodes that give rows of the same values however often, and in whatever
# order, they are computed. Sums of doubles differ by the order of their rows.
_STEADY = {
    *("Expand", "Filter", "Generate", "Join", "LocalRelation", "Project", "Range", "Relation"),
    *("RebalancePartitions", "Repartition", "RepartitionByExpression", "Sort", "SubqueryAlias"),
    *("InMemoryRelation", "Union"),
}
# So many partitions for each task at a time are few: a wave of one of each is no small one.
_FEW_EACH = 4
_FUNCTIONS = re.compile(r"Python|InPandas|InArrow|UDF\(")


class SlicedRows(StagedPartitions):
    """Is asked for as partitions are. The first is a slice; who asks for a second one has all of
    the others computed, among which their files are divided."""

    def __init__(self, relation: StagedRows, input: int, plan: Plan, *, seed: int) -> None:
        self._spark = relation.dataframe.sparkSession
        self._dataframe = relation.dataframe
        self._input, self._seed = input, seed
        self._plan = self._fitted = plan
        self._what = f"staging the {plan.names[input]} side"
        self._files: list[list[Sections]] = []
        self.count, self.first = MANY, 1
        # Not by the hash that divides rows among instances: a slice is to have some of each.
        keys = [sf.col(quoted(key.of(Side(input)))) for key in plan.join.keys]
        self._slice: Column = sf.pmod(sf.xxhash64(sf.lit("slice"), *keys), sf.lit(self.count))

    @property
    def refusal(self) -> str:
        return ""

    def describe(self) -> str:
        return f"a {self.count}th of the rows by the hash of their keys, then all others"

    def _computed(self, count: int) -> list[list[Sections]]:
        found: list[list[Sections]] = []
        if not self._files:
            found.append(self._staged(self._slice == 0))
        if count > 1:
            rest = self._staged(self._slice != 0)
            order = random_order(len(rest), seed=self._seed)
            mixed = [rest[place] for place in order]
            found += [mixed[place :: self.count - 1] for place in range(self.count - 1)]
        return found

    def _staged(self, chosen: Column) -> list[Sections]:
        input, plan = self._input, self._plan
        partitions: Partitions[list[Record]] = Partitions(
            self._dataframe.where(chosen),
            lambda batches, _: list(stage(batches, input, plan)),
            query=plan.query,
            what=self._what,
            many=None,
        )
        records = chain.from_iterable(partitions.run(range(partitions.count), what=self._what))
        return sorted(map(Sections.from_description, records), key=lambda file: file.name)


def can_be_sliced(relation: StagedRows, plan: Plan) -> bool:
    """Whether its rows are in memory, in few partitions, and the same each time that Spark looks
    through them."""
    dataframe = relation.dataframe
    optimized: Any = dataframe._jdf.queryExecution().optimizedPlan()
    text = optimized.toString()
    if (
        not plan.join.keys
        or not set(nodes(text)) <= _STEPS
        or not optimized.deterministic()
        or _FUNCTIONS.search(text)
        or not _is_one_process(dataframe)
    ):
        return False
    leaves = optimized.collectLeaves()
    cached = [leaves.apply(place).cacheBuilder() for place in range(leaves.size())]
    if not all(each.isCachedColumnBuffersLoaded() and _stays(each) for each in cached):
        return False
    partitions = sum(each.cachedColumnBuffers().getNumPartitions() for each in cached)
    return bool(partitions < _FEW_EACH * plan.slots.tasks)


def _stays(cached: Any) -> bool:
    """Whether rows go to disk when memory is full, and have the same values should they be computed
    again all the same, because the user has let go of them."""
    plan = cached.logicalPlan()
    steady = set(nodes(plan.toString())) <= _STEADY and plan.deterministic()
    return bool(steady and cached.storageLevel().useDisk())


def _is_one_process(dataframe: DataFrame) -> bool:
    """Whether nobody loses cached rows but who let go of them."""
    master = str(dataframe.sparkSession.sparkContext.master)
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def staged_partitions(
    spark: SparkSession, relations: Sequence[Relation], plan: Plan, *, seed: int
) -> tuple[dict[int, StagedPartitions], dict[int, str]]:
    """The sides whose partitions are computed some at a time; of others that are no plain scan, why
    they are not.

    Where rows are divided by their values, or among the instances of a join of many, all of a side
    is looked at before it is divided.
    """
    sides = sum(not isinstance(relation, PlainScan) for relation in relations)
    found: dict[int, StagedPartitions] = {}
    refused: dict[int, str] = {}
    for input in plan.inputs:
        relation = relations[input]
        if isinstance(relation, PlainScan):
            continue
        if plan.placing is not None or len(plan.inputs) > 2:
            refused[input] = "all of it is looked at before its rows are divided"
            continue
        if isinstance(relation, StagedRows) and can_be_sliced(relation, plan):
            found[input] = SlicedRows(relation, input, plan, seed=seed + input)
            continue
        partitions = StagedPartitions(spark, relation, input, plan, seed=seed + input, sides=sides)
        if partitions.refusal:
            refused[input] = partitions.refusal
        else:
            found[input] = partitions
    return found, refused
