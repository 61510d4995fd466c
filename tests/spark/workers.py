"""The Python worker processes of a session, as another process sees them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from benchmarks.spark_outside import held, workers_of


def workers(spark: SparkSession) -> list[int]:
    """Process numbers of the workers: what the daemons below the JVM have forked."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    return workers_of(gateway.proc.pid)


@dataclass
class Watched:
    """The most that each worker was seen to hold, and all of them together."""

    peaks: dict[int, int] = field(default_factory=dict)
    together: int = 0

    def look(self, spark: SparkSession) -> None:
        now = {worker: held(worker).get("resident", 0) for worker in workers(spark)}
        for worker, nbytes in now.items():
            self.peaks[worker] = max(self.peaks.get(worker, 0), nbytes)
        self.together = max(self.together, sum(now.values()))


def end_workers(spark: SparkSession) -> None:
    """Let Spark start new ones. It keeps those that have nothing to do for a minute, with all that
    their allocators hold: memory of the tests before."""
    before = workers(spark)
    for worker in before:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
    while set(before) & set(workers(spark)):
        time.sleep(0.01)


@contextmanager
def beside(act: Callable[[threading.Event], None]) -> Iterator[None]:
    """Do something in a thread while the block runs; the event says that it has ended."""
    done = threading.Event()
    thread = threading.Thread(target=act, args=(done,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def watched(spark: SparkSession, *, every: float = 0.02) -> Iterator[Watched]:
    """Look at the workers again and again while the block runs, which begins with none."""
    end_workers(spark)
    seen = Watched()

    def look(done: threading.Event) -> None:
        while not done.wait(every):
            seen.look(spark)

    with beside(look):
        yield seen
