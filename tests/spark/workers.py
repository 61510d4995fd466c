"""The Python worker processes of a session, as another process sees them."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import SparkSession


def workers(spark: SparkSession) -> list[int]:
    """Process numbers of the workers: what the daemons below the JVM have forked."""
    children: dict[int, list[int]] = defaultdict(list)
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                # The name in parentheses may hold anything; the parent is two fields after it.
                parent = int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            children[parent].append(int(process.name))
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    return [worker for daemon in children[gateway.proc.pid] for worker in children[daemon]]


def resident(process: int) -> int:
    """Bytes of memory that a process has to itself: not shared with those it was forked from."""
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0
    lines = dict(line.split(":", 1) for line in text.splitlines()[1:])
    return sum(int(lines[name].split()[0]) for name in ("Private_Clean", "Private_Dirty")) * 1024


@dataclass
class Watched:
    """The most that each worker was seen to hold."""

    peaks: dict[int, int] = field(default_factory=dict)

    def look(self, spark: SparkSession) -> None:
        for worker in workers(spark):
            self.peaks[worker] = max(self.peaks.get(worker, 0), resident(worker))


@contextmanager
def watched(spark: SparkSession, *, every: float = 0.02) -> Iterator[Watched]:
    """Look at the workers again and again while the block runs."""
    seen, done = Watched(), threading.Event()

    def look() -> None:
        while not done.wait(every):
            seen.look(spark)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()
