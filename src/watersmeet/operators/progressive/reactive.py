"""The reactive stage: joining from disk while the inputs are silent (RPJ 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from watersmeet.model import Side
from watersmeet.operators.progressive.debt import next_task
from watersmeet.operators.progressive.reporting import report
from watersmeet.operators.progressive.tasks import DdTask, DiskTask, MdTask
from watersmeet.operators.progressive.workspace import ProgressiveWorkspace
from watersmeet.operators.stage import Stage
from watersmeet.policies.react import Task, TaskKind
from watersmeet.rows.address import Matches


@dataclass
class Running:
    """A task that has begun: at which stamp, and what it was expected to report then."""

    choice: Task
    task: DiskTask
    began: int
    owed: float

    @property
    def stage(self) -> Stage:
        return Stage.MD if self.choice.kind is TaskKind.MD else Stage.DD

    def save(self) -> dict[str, Any]:
        return {
            "choice": list(self.choice),
            "began": self.began,
            "owed": self.owed,
            "place": self.task.save(),
        }


class ReactiveStage:
    """Runs the tasks that the react policy chooses, one at a time.

    A task that is interrupted is gone on with before another is chosen, so at most one is under
    way and only new runs can appear beside it.
    """

    def __init__(self, workspace: ProgressiveWorkspace) -> None:
        self._workspace = workspace
        self.running: Running | None = None

    def react(self, pause: Callable[[], bool]) -> Iterator[Matches]:
        """Work until `pause()`, which is asked between steps, or until nothing is worth doing.

        All steps of one call share a stamp: memory does not change meanwhile.
        """
        tuning = self._workspace.tuning
        whole_stage = tuning.whole_tasks and self._workspace.algorithm.whole_stage
        return self._work(lambda: not whole_stage and pause(), self._choose)

    def settle(self, pause: Callable[[], bool]) -> Iterator[Matches]:
        """Work until `pause()`, or until nothing at all is owed, whatever the policy cares for."""
        return self._work(pause, lambda: next_task(self._workspace))

    def settle_partition(self, p: int) -> Iterator[Matches]:
        """Have all runs of a partition merged and joined, the task under way first."""
        yield from self.complete(None)
        self.running = self._start(Task(TaskKind.DD, p), self._workspace.draw())
        if self.running.task.done:
            self.running = None
        yield from self.complete(None)

    def complete(self, stage: Stage | None = Stage.CLEANUP) -> Iterator[Matches]:
        """Bring the task under way to its end; None for the stage that it is of."""
        stamp = self._workspace.draw()
        while self.running is not None:
            yield from self._step(self.running, stamp, stage or self.running.stage)

    def _work(
        self, pause: Callable[[], bool], choose: Callable[[], Task | None]
    ) -> Iterator[Matches]:
        stamp = self._workspace.draw()
        whole_tasks = self._workspace.tuning.whole_tasks
        while True:
            may_stop = self.running is None or not (whole_tasks or self.running.task.catching_up)
            if may_stop and pause():
                return
            if self.running is None:
                choice = choose()
                if choice is None:
                    return
                self.running = self._start(choice, stamp)
            yield from self._step(self.running, stamp, self.running.stage)

    def abandon(self) -> None:
        """Forget the task under way, and what it was writing."""
        if self.running is not None:
            self.running.task.abandon()
            self.running = None

    def _choose(self) -> Task | None:
        policy = self._workspace.algorithm.react
        if policy is None or not self._workspace.metrics.flush_count:
            return None
        return policy(self._workspace.owed())

    def _start(self, choice: Task, stamp: int) -> Running:
        expected = self._workspace.expected
        if choice.kind is TaskKind.MD:
            owed = expected.md[choice.side, choice.partition]
            since = int(expected.last_md[choice.side, choice.partition])
            return Running(choice, self._md_task(choice, {"since": since}), stamp, float(owed))
        owed = expected.dd[choice.partition]
        return Running(choice, self.dd_task(choice.partition), stamp, float(owed))

    def resume(self, saved: dict[str, Any]) -> None:
        """Go on with a task that was saved."""
        kind, partition, side = saved["choice"]
        choice = Task(TaskKind(kind), partition, Side(side))
        task = (
            self._md_task(choice, saved["place"])
            if choice.kind is TaskKind.MD
            else self.dd_task(partition, saved["place"])
        )
        self.running = Running(choice, task, saved["began"], saved["owed"])

    def _md_task(self, choice: Task, place: dict[str, int]) -> MdTask:
        workspace = self._workspace
        disk = workspace.disk[choice.partition]
        return MdTask(disk, choice.side, workspace.memory, pairs=workspace.pairs, **place)

    def dd_task(
        self,
        partition: int,
        begun: dict[str, Any] | None = None,
        *,
        fan_in: int | None = None,
    ) -> DdTask:
        workspace = self._workspace
        left, right = (table.schema for table in workspace.memory.tables)
        return DdTask(
            workspace.disk[partition],
            (left, right),
            fan_in=fan_in or workspace.disk.fan_in,
            pairs=workspace.pairs,
            area=workspace.spill,
            block_rows=min(
                workspace.memory.block_rows(side, workspace.block_bytes) for side in Side
            ),
            begun=begun,
        )

    def _step(self, running: Running, stamp: int, stage: Stage) -> Iterator[Matches]:
        """One step of the task under way, and its end if that is reached."""
        workspace = self._workspace
        kind, p, side = running.choice
        yield from report(workspace.emitter, running.task.step(stamp), stage)
        if not running.task.done:
            return
        self.running = None
        if kind is TaskKind.MD:
            workspace.metrics.md_tasks += 1
            workspace.expected.md_done(side, p, began=running.began, reported=running.owed)
        else:
            workspace.metrics.dd_tasks += 1
            workspace.expected.dd_done(p, reported=running.owed)
            workspace.disk.changed(p)
