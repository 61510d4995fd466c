"""What the host of micro-batches asks of a join: each kind of join answers it in its own room."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from watersmeet.operators.base import JoinOperator, StateArea
from watersmeet.promises.marked import MarkedOutput
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.microbatches.arrivals import Arrivals
from watersmeet.spark.microbatches.identity import Identity
from watersmeet.spark.microbatches.state import Manifest, StateDirectory
from watersmeet.spark.microbatches.task import Task
from watersmeet.spark.microbatches.wire import Wire
from watersmeet.store.spill import SpillArea

Resources = Mapping[str, Any]
"""memory, spill and tuning, as operators are given them."""


class Hosted(Protocol):
    """One join as its tasks see it. Sent with every task, so it holds values only."""

    @property
    def join(self) -> JoinSchema: ...
    @property
    def marked(self) -> MarkedOutput | None:
        """The result with its marker rows; None if it has none."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """What the inputs are called."""
        ...

    @property
    def wire(self) -> Wire: ...
    @property
    def instances(self) -> int: ...
    @property
    def memory(self) -> int:
        """Bytes for one instance."""
        ...

    @property
    def homes(self) -> bool:
        """Whether every instance has a home (watersmeet/spark/homes.py): not where there are more
        of them than tasks at a time on a machine, because all homes hold memory all the time."""
        ...

    @property
    def page_bytes(self) -> int:
        """Bytes of a page, which the costs of reading are measured for."""
        ...

    @property
    def state(self) -> StateDirectory: ...
    @property
    def spill_dir(self) -> str | None:
        """Where operators spill; None for each machine's temporary directory."""
        ...

    def identity(self, query: str | None) -> Identity:
        """What a state must have been made by. `query` is None before the query has started."""
        ...

    def rows(self, task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What a batch brings, as `wire` has it, whichever way it came."""
        ...

    def emitted(
        self, batches: Iterator[pa.RecordBatch], done: Manifest
    ) -> Iterator[pa.RecordBatch]:
        """What goes to Spark: the result of a version, and what else Spark has to know of it."""
        ...

    def arrivals(self, task: Task, before: Manifest | None, area: SpillArea) -> Arrivals:
        """What a batch brings, which goes on from a version; None for the first batch. Files of
        the batch may be written in the area."""
        ...

    def make(self, task: Task, resources: Resources) -> JoinOperator:
        """A new operator for the instance of a task."""
        ...

    def restore(
        self, task: Task, resources: Resources, *, area: StateArea, before: Manifest
    ) -> JoinOperator:
        """The operator that a version has saved."""
        ...


def output_of(plan: Hosted) -> pa.Schema:
    """The columns of the result."""
    return plan.join.output if plan.marked is None else plan.marked.schema
