"""Whether a join of streams that goes on for ever costs the same after a million micro-batches.

The host of streams (spark/streams/host.py) is driven without Spark, as one task after the other
would call it: it reads the last version of its state, takes a micro-batch in, writes the result to
a file, commits a new version and removes the one before the last. The query is one whose state
stays small, a semi join of events with a list of keys that is known from the start, so whatever
grows with the batches is what is remembered of rows and files that are gone.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType

from benchmarks.cases import MB, Claim, Places
from benchmarks.report import Row, Section, megabytes, times
from watersmeet.operators.question import Question
from watersmeet.spark import cache
from watersmeet.spark.microbatches.host import run_batch
from watersmeet.spark.microbatches.state import StateDirectory
from watersmeet.spark.microbatches.task import Task
from watersmeet.spark.microbatches.wire import Wire
from watersmeet.spark.streams.plan import StreamPlan

LOOKS = (1_000, 10_000, 100_000, 1_000_000)
# What has been seen by then is reported.
LONGEST_SECONDS = 150 * 60.0

KEYS = 1_000
EVENTS = 16
"""Rows of a batch."""
TICK = 10
"""Every so many batches one brings no rows."""
MOVES = 1_000
"""After so many batches the instance goes on in another worker, from the state on disk."""
_TIMED = 500
_MEMORY = 2**22

_SPARK = tuple(
    StructType([StructField("k", LongType()), StructField(name, kind())])
    for name, kind in (("number", LongType), ("text", StringType))
)
_ARROW = (
    pa.schema({"k": pa.int64(), "number": pa.int64()}),
    pa.schema({"k": pa.int64(), "text": pa.string()}),
)


@dataclass(frozen=True, kw_only=True)
class Look:
    """What there was after so many batches."""

    batch: int
    milliseconds: float
    """The median of the latest 500 batches."""
    processor_milliseconds: float
    """Their mean, without what the disk and other work on the machine took."""
    manifest_bytes: int
    files: int
    """All there are, those of the state and spilled ones."""
    state_bytes: int
    resident_bytes: int


class Drive:
    """One instance of a query, batch after batch."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.looks: list[Look] = []
        self._batch = 0
        self._seconds: deque[float] = deque(maxlen=_TIMED)
        self._processor = 0.0
        self._emitted = [0, 0]
        (directory / "spill").mkdir(parents=True)
        self._plan = self._made_plan(directory)

    def _made_plan(self, directory: Path) -> StreamPlan:
        question = Question.parse(
            "k", "semi", algorithm="rpj", condition=None, suffixes=("", "_right")
        )
        wire = Wire.of(*_SPARK)
        return StreamPlan(question=question, schemas=_ARROW, wire=wire, **settings(directory))

    def run(self, looks: Sequence[int], *, longest: float = LONGEST_SECONDS) -> None:
        """Run batches until the last of these numbers, and look at each of them."""
        until = time.monotonic() + longest
        self._plan.state.create()
        with _as_task(self):
            while self._batch < looks[-1] and time.monotonic() < until:
                if self._batch + _TIMED in looks:
                    self._processor = time.process_time()
                self._next()
                if self._batch in looks:
                    self._look()
            if self._batch not in looks:  # what there was to see until then
                self._processor = time.process_time()
                for _ in range(_TIMED):
                    self._next()
                self._look()
        cache.take(("", 0, 0))

    def task(self) -> Task:
        return Task("query", self._batch, 0, f"run {self._batch}")

    def broken(self) -> list[str]:
        """What is wrong with the rows that came out, if anything is: each event comes once."""
        events = self._events(self._batch)
        count, total = events, events * (events - 1) // 2
        if self._emitted == [count, total]:
            return []
        return [f"endless: {self._emitted} instead of {[count, total]} rows and sum of numbers"]

    def plain(self) -> dict[str, Any]:
        return {"looks": [asdict(look) for look in self.looks]}

    def _next(self) -> None:
        rows = [self._known_keys()] if self._batch == 0 else self._arriving()
        if self._batch % MOVES == MOVES - 1:
            cache.take(("", 0, 0))
        began = time.perf_counter()
        for batch in run_batch(self._plan, iter(rows)):
            numbers = batch.column("number").to_numpy()
            self._emitted[0] += len(numbers)
            self._emitted[1] += int(numbers.sum())
        self._seconds.append(time.perf_counter() - began)
        self._batch += 1

    def _known_keys(self) -> pa.RecordBatch:
        texts = [f"key {key}" for key in range(KEYS)]
        return _wire_batch(1, np.arange(KEYS), [None] * KEYS, texts)

    def _arriving(self) -> list[pa.RecordBatch]:
        if self._batch % TICK == 0:
            return []
        numbers = self._events(self._batch) + np.arange(EVENTS)
        return [_wire_batch(0, numbers * 7919 % KEYS, numbers, [None] * EVENTS)]

    @staticmethod
    def _events(batches: int) -> int:
        """How many events the first so many batches bring: none with keys, none with a tick."""
        ticks = -(-batches // TICK)
        return EVENTS * (batches - ticks)

    def _look(self) -> None:
        files = [path for path in self.directory.rglob("*") if path.is_file()]
        instance = self.directory / "state" / "instance-0000"
        look = Look(
            batch=self._batch,
            milliseconds=1000 * median(self._seconds),
            processor_milliseconds=1000 * (time.process_time() - self._processor) / _TIMED,
            manifest_bytes=(instance / f"{self._batch - 1:08}.json").stat().st_size,
            files=len(files),
            state_bytes=sum(path.stat().st_size for path in files),
            resident_bytes=resident_bytes(),
        )
        self.looks.append(look)
        print(f"  {look}", file=sys.stderr, flush=True)


def settings(directory: Path) -> dict[str, Any]:
    """Of a plan with one instance, whose files are in a directory."""
    return {
        "instances": 1,
        "memory": _MEMORY,
        "state": StateDirectory.parse(directory / "state"),
        "spill_dir": str(directory / "spill"),
        "wait_threshold": 0.0,
        "budget": 0.001,
    }


@contextmanager
def _as_task(drive: Drive) -> Iterator[None]:
    """Have the host believe that it runs in a task of Spark."""
    with patch.object(Task, "current", drive.task):
        yield


def _wire_batch(kind: int, keys: Any, numbers: Any, texts: Sequence[str | None]) -> Any:
    return pa.record_batch(
        [
            pa.array(np.full(len(keys), kind), pa.int32()),
            pa.array(keys, pa.int64()),
            pa.array(numbers, pa.int64()),
            pa.array(texts, pa.string()),
        ],
        names=["tag", "c0", "c1", "c2"],
    )


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def run(places: Places, *, quick: bool) -> Section:
    drive = Drive(places.scratch / "endless")
    drive.run(LOOKS[:2] if quick else LOOKS)
    return Section(
        name="endless",
        title="Micro-batches without an end",
        note=f"A semi join of events, {EVENTS} a batch, with {KEYS:,} known keys, through the host "
        f"of streams without Spark. Every {TICK}th batch is empty, and every {MOVES:,}th goes on "
        "from the state on disk. The time is the median of the latest 500 batches, that of the "
        "processor their mean; files and their bytes are all there are, spilled ones too.",
        rows=[row_of(look) for look in drive.looks],
        claims=endless_claims(drive, join="a semi join"),
        measured=drive,
    )


def row_of(look: Look) -> Row:
    return {
        "after batch": f"{look.batch:,}",
        "time of a batch": f"{look.milliseconds:.2f} ms",
        "processor time": f"{look.processor_milliseconds:.2f} ms",
        "manifest": f"{look.manifest_bytes:,} bytes",
        "files": str(look.files),
        "bytes in files": f"{look.state_bytes:,}",
        "resident memory": megabytes(look.resident_bytes),
    }


def endless_claims(drive: Drive, *, join: str) -> list[Claim]:
    first, last = drive.looks[0], drive.looks[-1]
    span = f"{join}, from batch {first.batch:,} to {last.batch:,}"
    slower = last.processor_milliseconds / first.processor_milliseconds
    larger = last.manifest_bytes / first.manifest_bytes
    more = last.resident_bytes - first.resident_bytes
    right = not drive.broken()
    return [
        Claim(
            claim=f"Processor time of a micro-batch, {span}",
            target="grows by less than 1.25x, exact",
            measured=times(slower),
            holds=slower < 1.25 and right,
        ),
        Claim(
            claim=f"Manifest and files, {span}",
            target="the same within 5%",  # numbers have more digits
            measured=f"{times(larger)}, {first.files} and {last.files} files",
            holds=larger < 1.05 and last.files <= first.files,
        ),
        Claim(
            claim=f"Resident memory, {span}",
            target="grows by less than 16 MB",
            measured=f"{more / MB:+.0f} MB",
            holds=more < 16 * MB,
        ),
    ]
