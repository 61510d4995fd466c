"""What the tasks of one enrichment need to know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from watersmeet.operators.base import JoinOperator, StateArea
from watersmeet.operators.enriching import EnrichQuestion
from watersmeet.operators.family import make_enricher, restore_enricher
from watersmeet.operators.semistream.reading import PAGE_BYTES
from watersmeet.rows.output import Schemas
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.enrich.arrivals import EnrichArrivals
from watersmeet.spark.enrich.masters import Masters
from watersmeet.spark.microbatches.hosted import Resources
from watersmeet.spark.microbatches.identity import Identity, columns_of, condition_words
from watersmeet.spark.microbatches.state import Manifest, StateDirectory
from watersmeet.spark.microbatches.task import Task
from watersmeet.spark.microbatches.wire import Wire
from watersmeet.spark.routing import HashRouter
from watersmeet.store.spill import SpillArea


@dataclass(frozen=True)
class EnrichPlan:
    """One enrichment as its tasks see it. Sent with every task, so it holds values only."""

    question: EnrichQuestion
    schemas: Schemas
    wire: Wire
    instances: int
    memory: int
    """Bytes for one instance."""
    state: StateDirectory
    spill_dir: str | None
    budget: float
    """Seconds that one batch may spend on the scan, besides those that memory asks for."""
    homes: bool = False
    """Whether every instance has a home."""

    page_bytes = PAGE_BYTES
    marked = None

    @cached_property
    def join(self) -> JoinSchema:
        return self.question.resolve(*self.schemas)

    @property
    def names(self) -> Sequence[str]:
        return self.question.names

    @property
    def router(self) -> HashRouter:
        return HashRouter.of(self.join, instances=self.instances)

    def identity(self, query: str | None) -> Identity:
        join, question = self.join, self.question
        return Identity(
            query,
            {
                "join": "enrich",
                "on": [[key.left, key.right] for key in join.keys],
                "how": str(join.how),
                "algorithm": question.algorithm,
                "instances": self.instances,
                "stream": columns_of(join.left),
                "master": columns_of(join.right),
                "condition": condition_words(question.condition),
                "suffixes": list(question.suffixes),
                "version_column": question.version_column,
                "deadline": "some" if question.deadline is not None else None,
            },
        )

    def arrivals(self, task: Task, before: Manifest | None, area: SpillArea) -> EnrichArrivals:
        return EnrichArrivals(
            self.join,
            self.wire,
            memory=self.memory,
            task=task,
            before=before,
            masters=Masters(self.state),
            spill_dir=self.spill_dir,
            budget=self.budget,
        )

    def rows(self, task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return batches

    def emitted(
        self, batches: Iterator[pa.RecordBatch], done: Manifest
    ) -> Iterator[pa.RecordBatch]:
        return batches

    def make(self, task: Task, resources: Resources) -> JoinOperator:
        return make_enricher(
            self.question.algorithm,
            self.join,
            master=Masters(self.state).open(0, task.instance),
            deadline=self.question.deadline,
            **resources,
        )

    def restore(
        self, task: Task, resources: Resources, *, area: StateArea, before: Manifest
    ) -> JoinOperator:
        masters = Masters(self.state)
        return restore_enricher(
            self.question.algorithm,
            self.join,
            masters=[masters.open(each, task.instance) for each in before["masters"].values()],
            area=area,
            manifest=before["operator"],
            deadline=self.question.deadline,
            **resources,
        )

    def __getstate__(self) -> dict[str, object]:
        # What can be made again from the rest holds numba functions, and is large.
        return {k: v for k, v in vars(self).items() if k != "join"}
