"""Lays a version of the master table down: one Spark job, a file for each instance."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from watersmeet.errors import StateError
from watersmeet.model import Side
from watersmeet.spark.enrich.plan import EnrichPlan
from watersmeet.spark.jobs import Partitions
from watersmeet.spark.microbatches.wire import as_declared
from watersmeet.spark.sql import quoted
from watersmeet.store.claim import SpillClaim
from watersmeet.store.master.laying import encoder, lay_down


@dataclass(frozen=True)
class Effort:
    """What a lay-down may take."""

    memory: int
    """Bytes for one task."""
    at_once: int
    """How many tasks run at once."""


def lay_down_version(
    frame: DataFrame, plan: EnrichPlan, *, folder: str, version: str, effort: Effort
) -> list[dict[str, Any]]:
    """Write the rows of a master table to a folder; for each instance the description of its file.

    Rows go to instances as those of the stream do, so that rows with equal keys meet. A row whose
    key has a null meets nothing.
    """
    keys = [key.right for key in plan.join.keys]
    known = frame.where(reduce(and_, (sf.col(quoted(key)).isNotNull() for key in keys)))
    parted = known.repartitionById(plan.instances, plan.router.column(Side.RIGHT, known))

    def work(batches: Iterator[pa.RecordBatch], instance: int) -> tuple[int, dict[str, Any]]:
        # Another attempt at this task may write its rows in another order at the same time.
        name = f"instance-{instance:04}-{uuid.uuid4().hex[:12]}"
        claim = SpillClaim(plan.spill_dir)
        try:
            return instance, lay_down(
                (as_declared(batch.columns, plan.schemas[Side.RIGHT]) for batch in batches),
                encoder(plan.join),
                schema=plan.join.stored(Side.RIGHT),
                target=f"{folder}/{name}",
                scratch=claim.area,
                memory=effort.memory,
                reader_memory=plan.memory,
                version=version,
                argument="state",
            )
        finally:
            claim.close()

    query, what = f"enrich-{uuid.uuid4().hex[:8]}", "laying the master table down"
    partitions = Partitions(parted, work, query=query, what=what)
    found: dict[int, dict[str, Any]] = {}
    for first in range(0, plan.instances, effort.at_once):
        some = range(first, min(first + effort.at_once, plan.instances))
        found |= dict(partitions.run(some, what=what))
    if len(found) != plan.instances:
        raise StateError(
            f"Spark laid the master table down in {len(found)} parts instead of {plan.instances}.",
            remedy="Please report this, with the plan that the master DataFrame's explain() shows.",
        )
    return [found[instance] for instance in range(plan.instances)]
