"""Tasks that are done while the user's own Spark jobs run, without keeping the cores from those."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic

from pyspark.sql import SparkSession

from watersmeet.spark.jobs import Result, Task, run_tasks


class TasksAside(Generic[Task, Result]):
    """Tasks, each a Spark job of its own, for which somebody will ask later.

    Spark's scheduler gives cores to the tasks of one job after the other. If all these tasks were
    one job, a job that the user starts meanwhile would get no core before the last of them has
    begun. So there is a job for each, and one core is left free; when somebody asks for the
    results, that thread helps, and all cores work.
    """

    def __init__(
        self,
        spark: SparkSession,
        tasks: Sequence[Task],
        work: Callable[[Task], Result],
        *,
        at_once: int,
        query: str,
        what: str,
    ) -> None:
        self._count = len(tasks)
        self._left = deque(range(len(tasks)))
        self._results: dict[int, Result] = {}

        def one(number: int) -> Result:
            (result,) = run_tasks(spark, [tasks[number]], work, at_once=1, query=query, what=what)
            return result

        self._one = one
        threads = max(at_once - 1, 1)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="watersmeet-aside")
        self._helping = [self._pool.submit(self._do) for _ in range(threads)]

    def results(self) -> list[Result]:
        """The results in the order of the tasks."""
        try:
            self._do()
            for each in self._helping:
                each.result()
        finally:
            self.stop()
        return [self._results[number] for number in range(self._count)]

    def stop(self) -> None:
        """Begin no more tasks, and wait for those that have begun."""
        self._left.clear()
        self._pool.shutdown(wait=True)

    def _do(self) -> None:
        """Do one task after the other, until none is left or one has failed."""
        try:
            while True:
                try:
                    number = self._left.popleft()
                except IndexError:
                    return
                self._results[number] = self._one(number)
        except BaseException:
            self._left.clear()
            raise
