"""What the tasks of one join of streams need to know, and which part of it a task is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyspark import TaskContext

from watersmeet.errors import StateError
from watersmeet.model import inputs_of
from watersmeet.operators.many import ManyQuestion
from watersmeet.operators.question import Question
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.hypercube import Cube, HypercubeRouter
from watersmeet.spark.lanes import lanes_of
from watersmeet.spark.routing import HashRouter, StreamRouter
from watersmeet.spark.streams.state import StateDirectory
from watersmeet.spark.streams.wire import Wire


@dataclass(frozen=True)
class StreamPlan:
    """One join of streams as its tasks see it. Sent with every task, so it holds values only."""

    question: Question | ManyQuestion
    schemas: tuple[pa.Schema, ...]
    wire: Wire
    instances: int
    memory: int
    """Bytes for one instance."""
    state: StateDirectory
    spill_dir: str | None
    """Where operators spill; None for each machine's temporary directory."""
    wait_threshold: float
    budget: float
    """Seconds that one batch may spend on reactive work."""
    cube: Cube | None = None
    """How the instances of a join of many streams are divided among its keys."""

    @cached_property
    def join(self) -> JoinSchema:
        return self.question.resolve(*self.schemas)

    @property
    def inputs(self) -> Sequence[int]:
        return inputs_of(len(self.schemas))

    @property
    def names(self) -> Sequence[str]:
        """What the streams are called: left and right, or the names of relations."""
        return self.question.names

    @property
    def router(self) -> StreamRouter:
        return stream_router(self.join, instances=self.instances, cube=self.cube)

    def __getstate__(self) -> dict[str, object]:
        # What can be made again from the rest holds numba functions, and is large.
        return {k: v for k, v in vars(self).items() if k != "join"}


def stream_router(join: JoinSchema, *, instances: int, cube: Cube | None) -> StreamRouter:
    """The router of a join of two streams, or of many, which have a cube."""
    if cube is not None:
        return HypercubeRouter.of(join, cube)
    if join.keys:
        return HashRouter.of(join, instances=instances)
    return lanes_of(join, instances=instances)


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
        return self.attempt.split(" ")[0]

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

    def key(self, version: int) -> tuple[str, int, int]:
        return (self.query, self.instance, version)
