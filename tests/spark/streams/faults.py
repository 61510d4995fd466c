"""Hosts in which something goes wrong, once, at a place that is named."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa

from watersmeet.spark.microbatches import host
from watersmeet.spark.microbatches.hosted import Hosted
from watersmeet.spark.microbatches.state import InstanceState
from watersmeet.spark.microbatches.task import Task
from watersmeet.spark.streams.plan import StreamPlan


@dataclass(frozen=True)
class Fault:
    """`what` happens at `where` in batch `batch` of instance `instance`, the first time only.

    where: `rows` when the first rows have come to the worker, `home` when they have come to the
    instance's home, `files` when a file of the state has been put, `before` and `after` the commit
    of the version, `emit` when the first rows have gone out.
    what: `raise` fails the task, `worker` kills the process in which it happens, a number kills
    that process group too.
    """

    where: str
    what: str | int
    marker: Path
    batch: int = 1
    instance: int = 0

    def __call__(self, plan: StreamPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        if not self.is_due():
            yield from host.run_batch(plan, batches)
            return
        came = self._watched(batches) if self.where == "rows" else batches
        for number, rows in enumerate(host.run_batch(plan, came, attempt=self.take_in)):
            yield rows
            if number == 0 and self.where == "emit":
                self.strike()

    def take_in(self, plan: Hosted, task: Task, batches: Iterator[pa.RecordBatch]) -> Any:
        """In the home of the instance, which may be another process than the worker."""
        with self._in_state():
            came = self._watched(batches) if self.where == "home" else batches
            return host.take_in(plan, task, came)

    def is_due(self) -> bool:
        task = Task.current()
        return (task.batch, task.instance) == (self.batch, self.instance)

    def strike(self) -> None:
        try:
            self.marker.touch(exist_ok=False)
        except FileExistsError:
            return
        if self.what == "raise":
            raise RuntimeError("the fault that the test asked for")
        if self.what != "worker":
            os.killpg(int(self.what), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    def _watched(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            self.strike()

    @contextlib.contextmanager
    def _in_state(self) -> Iterator[None]:
        """Homes are used again, so they are left as they were."""
        put, commit = InstanceState.put, InstanceState.commit

        def put_and_strike(state: InstanceState, path: Path) -> str:
            name = put(state, path)
            if self.where == "files":
                self.strike()
            return name

        def commit_and_strike(state: InstanceState, version: int, manifest: Any) -> bool:
            if self.where == "before":
                self.strike()
            won = commit(state, version, manifest)
            if self.where == "after":
                self.strike()
            return won

        with (
            mock.patch.object(InstanceState, "put", put_and_strike),
            mock.patch.object(InstanceState, "commit", commit_and_strike),
        ):
            yield


@dataclass(frozen=True)
class Faults:
    """Several faults in one query, each in a batch or an instance of its own."""

    faults: Sequence[Fault]

    def __call__(self, plan: StreamPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[Any]:
        due = [fault for fault in self.faults if fault.is_due()]
        return due[0](plan, batches) if due else host.run_batch(plan, batches)
