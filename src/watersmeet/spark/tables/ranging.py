"""Gives the instances of a join without equal keys their ranges of values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from watersmeet.model import JoinType, Side
from watersmeet.spark.placing import Placing
from watersmeet.spark.routing import owner_of
from watersmeet.spark.scans.relation import PlainScan, Relation
from watersmeet.spark.tables.balance import Division, Histograms, divide
from watersmeet.spark.tables.histograms import Histogram, histograms
from watersmeet.spark.tables.plan import Plan, Sizes

MOST_REPLICATION = 4.0
"""Rows sent to instances, over rows read: with more, there are fewer instances instead."""


def ranged(
    spark: SparkSession,
    relations: Sequence[Relation],
    sizes: Sizes,
    *,
    plan: Plan,
    seen: Mapping[Side, Histogram],
    seed: int,
) -> Plan:
    """The plan with ranges, and with as many instances as rows and their copies need. `seen` is
    what was seen of rows while they were staged."""
    assert plan.placing is not None
    sides = dict(zip(Side, relations, strict=True))
    scans = {side: each for side, each in sides.items() if isinstance(each, PlainScan)}
    found = histograms(
        spark, scans, plan.placing, at_once=plan.slots.tasks, query=plan.query, seed=seed
    )
    both = {**found, **seen}
    division = _division((both[Side.LEFT], both[Side.RIGHT]), plan.placing, sizes, plan=plan)
    fitted = plan.fitted(sizes.times(division.replication))
    return replace(
        plan,
        instances=division.ranges.instances,
        keeps_operators=fitted.keeps_operators,
        division=division,
    )


def _division(known: Histograms, placing: Placing, sizes: Sizes, *, plan: Plan) -> Division:
    owner = owner_of(plan.join.how)
    if owner is None:
        return divide(known, placing, owners=(Side.LEFT,), instances=1)
    # Of an inner join, either side may be copied.
    owners = tuple(Side) if plan.join.how is JoinType.INNER else (owner,)

    def among(instances: int) -> Division:
        return divide(known, placing, owners=owners, instances=instances)

    count = plan.fitted(sizes).instances
    division = among(count)
    if plan.asked_instances is not None:
        return division
    # Copies need memory, too, and so perhaps more instances.
    more = plan.fitted(sizes.times(division.replication)).instances
    if more > count:
        count, division = more, among(more)
    wanted = count
    while division.replication > MOST_REPLICATION and count > 1:
        count //= 2
        division = replace(among(count), reduced=wanted)
    return division
