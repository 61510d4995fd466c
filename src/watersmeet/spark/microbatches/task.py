"""Which instance of which micro-batch a task is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext

from watersmeet.errors import StateError
from watersmeet.spark.microbatches.wire import Tags


@dataclass(frozen=True)
class Task:
    """One instance in one batch of one query."""

    query: str
    batch: int
    instance: int
    attempt: str
    """The run of the query and the attempt at the task: no other has the same."""

    @property
    def run(self) -> str:
        """From one start of the query to its end: within it, a batch of a number is one batch."""
        return self.run_of(self.attempt)

    @staticmethod
    def run_of(attempt: str) -> str:
        return attempt.split(" ")[0]

    @classmethod
    def current(cls) -> Task:
        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId") if context else None
        batch = context.getLocalProperty("streaming.sql.batchId") if context else None
        if context is None or query is None or batch is None:
            raise StateError(
                "A join of streams was run outside of a streaming query.",
                remedy="Start it with writeStream. In foreachBatch, use no threads of your own "
                "other than pyspark.InheritableThread.",
            )
        run = context.getLocalProperty("sql.streaming.runId")
        run = run or context.getLocalProperty("spark.jobGroup.id")
        attempt = f"{run} {context.taskAttemptId()}"
        return cls(query, int(batch), context.partitionId(), attempt)

    def moved(self) -> StateError:
        """Spark computes an instance in a partition of another number, or several in one."""
        return StateError(
            f"Rows of another instance of the join came to partition {self.instance}: Spark has "
            "moved the join's partitions together.",
            remedy="Put a repartition() between the joined stream and the coalesce() or union() "
            "that follows it, and begin anew with an empty state and a new checkpoint.",
        )

    @property
    def home(self) -> str:
        """What the home of the instance is called."""
        return f"{self.query} {self.instance}"

    def key(self, version: int) -> tuple[str, int, int]:
        return (self.query, self.instance, version)


def check_instance(batch: pa.RecordBatch, tags: Tags, task: Task) -> NDArray[np.int32]:
    """What each row is, after seeing that all of them are meant for this instance."""
    instances, kinds = tags.split(batch.column(0))
    if (instances != task.instance).any():
        raise task.moved()
    return kinds
