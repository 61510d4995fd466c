"""What the tasks of one join of streams need to know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from watersmeet.model import inputs_of
from watersmeet.operators.base import JoinOperator, StateArea
from watersmeet.operators.family import make_operator, restore_operator
from watersmeet.operators.many import ManyQuestion
from watersmeet.operators.progressive.workspace import LOADED_BLOCKS
from watersmeet.operators.promised.join import made_with
from watersmeet.operators.question import Question
from watersmeet.promises.bounds import bounds_in_words
from watersmeet.promises.marked import MarkedOutput
from watersmeet.promises.watched import Watched
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.hypercube import Cube
from watersmeet.spark.microbatches.hosted import Resources, output_of
from watersmeet.spark.microbatches.identity import Identity
from watersmeet.spark.microbatches.quarantine import Quarantine
from watersmeet.spark.microbatches.state import Manifest, StateDirectory
from watersmeet.spark.microbatches.task import Task
from watersmeet.spark.microbatches.wire import Wire
from watersmeet.spark.routing import StreamRouter
from watersmeet.spark.streams.arrivals import StreamArrivals
from watersmeet.spark.streams.batch_promises import BatchPromises, in_our_words
from watersmeet.spark.streams.files import Carried, FileRows
from watersmeet.spark.streams.identity import parameters_of
from watersmeet.spark.streams.promised import Promised
from watersmeet.spark.streams.promised_arrivals import PromisedArrivals
from watersmeet.spark.streams.routing import stream_router
from watersmeet.spark.streams.watermarks import emit_time
from watersmeet.store.shares import MemoryShares
from watersmeet.store.spill import SpillArea


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
    promised: Promised | None = None
    homes: bool = False
    """Whether every instance has a home."""
    carried: Carried | None = None
    """How the streams travel if of some of them only names do; `wire` is what instances see."""
    folders: tuple[str, ...] = ()
    """Of each input that instances read, where its files come."""

    @cached_property
    def join(self) -> JoinSchema:
        return self.question.resolve(*self.schemas)

    @cached_property
    def marked(self) -> MarkedOutput | None:
        """The result with its marker rows; None if it has none."""
        if self.promised is None or self.promised.punctuations is None:
            return None
        promises = in_our_words(self.promised.promises)
        return MarkedOutput.of(self.join, promises, self.promised.punctuations)

    @property
    def inputs(self) -> Sequence[int]:
        return inputs_of(len(self.schemas))

    @property
    def names(self) -> Sequence[str]:
        """What the streams are called: left and right, or the names of relations."""
        return self.question.names

    @property
    def page_bytes(self) -> int:
        return MemoryShares.split(self.memory).block(LOADED_BLOCKS)

    @property
    def router(self) -> StreamRouter:
        return stream_router(self.join, instances=self.instances, cube=self.cube)

    def identity(self, query: str | None) -> Identity:
        return Identity(
            query,
            parameters_of(
                self.join,
                self.question,
                instances=self.instances,
                cube=self.cube,
                promised=self.promised,
            ),
        )

    def bounds(self) -> list[tuple[str, str]]:
        """What becomes of the rows of each stream that are kept, where promises can bound them."""
        if isinstance(self.question, ManyQuestion) or not self.join.keys:
            return []
        promises = () if self.promised is None else in_our_words(self.promised.promises)
        words = bounds_in_words(self.join, promises)
        if self.marked is not None:
            words.append(("passed on", f"marker rows; {self.marked.in_words()}"))
        return words

    def arrivals(self, task: Task, before: Manifest | None, area: SpillArea) -> StreamArrivals:
        settings: dict[str, Any] = {
            "join": self.join,
            "wire": self.wire,
            "memory": self.memory,
            "task": task,
            "before": before,
            "names": self.names,
            "wait_threshold": self.wait_threshold,
            "budget": self.budget,
            "files": self._files(task),
        }
        if self.promised is None:
            return StreamArrivals(**settings)
        on_broken = self.promised.on_broken
        aside = None
        if on_broken == "quarantine":
            aside = Quarantine(self.join.inputs, self.names, task=task)
        return PromisedArrivals(
            BatchPromises(self.join, self.promised.promises, on_broken=on_broken),
            state=self.state,
            instances=self.instances,
            area=area,
            quarantine=aside,
            marked=self.marked,
            **settings,
        )

    def rows(self, task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = self._files(task)
        return batches if files is None else files.of(batches)

    def emitted(
        self, batches: Iterator[pa.RecordBatch], done: Manifest
    ) -> Iterator[pa.RecordBatch]:
        clock = None if self.carried is None else self.carried.clock
        if clock is None:
            return batches
        return emit_time(batches, output_of(self), clock.moment(done.get("times", {})))

    def _files(self, task: Task) -> FileRows | None:
        return None if self.carried is None else FileRows(self, self.carried, task)

    def make(self, task: Task, resources: Resources) -> JoinOperator:
        return make_operator(self.question.algorithm, self.join, **self._forgetting(resources))

    def restore(
        self, task: Task, resources: Resources, *, area: StateArea, before: Manifest
    ) -> JoinOperator:
        return restore_operator(
            self.question.algorithm,
            self.join,
            area=area,
            manifest=before["operator"],
            **self._forgetting(resources),
        )

    def _forgetting(self, resources: Resources) -> Resources:
        """The same, and what an operator needs to let rows go by promises."""
        if self.promised is None:
            return resources
        promises = in_our_words(self.promised.promises)
        watched, purge = Watched.of(self.join, promises), self.promised.purge
        more = made_with(
            self.join, promises, watched=watched, purge=purge, tuning=resources["tuning"]
        )
        return {**resources, **more}

    def __getstate__(self) -> dict[str, object]:
        # What can be made again from the rest holds numba functions, and is large.
        return {k: v for k, v in vars(self).items() if k not in ("join", "marked")}
