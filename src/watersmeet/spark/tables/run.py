"""Joins of two finite DataFrames: result rows wave by wave, and the exact whole in the end."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from types import TracebackType
from typing import Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from watersmeet.errors import WatersmeetError
from watersmeet.spark.session import check_session
from watersmeet.spark.tables.explain import explain
from watersmeet.spark.tables.inputs import Inputs, Relation
from watersmeet.spark.tables.instances import JoinTask, arrivals, join_wave
from watersmeet.spark.tables.jobs import Record, run_tasks
from watersmeet.spark.tables.metrics import RunMetrics, WaveMetrics
from watersmeet.spark.tables.plan import Plan
from watersmeet.spark.tables.results import read_results
from watersmeet.spark.tables.waves import shares
from watersmeet.store.storage import Sections

_WHOLE = [1.0]


@dataclass(frozen=True)
class Progress:
    """How far a run has come after a wave."""

    wave: int
    waves: int
    rows_read: tuple[int, int]
    rows_total: tuple[int, int]
    rows_out: int
    seconds: float

    @property
    def fraction(self) -> float:
        """The part of all pairs of rows that has been looked at."""
        shares = [
            read / total if total else 1.0
            for read, total in zip(self.rows_read, self.rows_total, strict=True)
        ]
        return shares[0] * shares[1]

    def __str__(self) -> str:
        left, right = self.rows_read
        return (
            f"wave {self.wave} of {self.waves}: {left:,} left and {right:,} right rows read, "
            f"{self.rows_out:,} results after {self.seconds:.1f} s"
        )


@dataclass(frozen=True)
class Wave:
    """New rows of the result. `rows` may be used any number of times until the run is closed."""

    rows: DataFrame
    progress: Progress


@dataclass
class _Done:
    """A wave that has been joined."""

    files: tuple[list[Sections], list[Sections]]
    records: list[Record]
    progress: Progress = field(init=False)

    @property
    def results(self) -> list[str]:
        return [name for record in self.records for name in record["files"]]


class JoinRun:
    """A join of two DataFrames. Nothing runs before the first wave is asked for.

    Iterate over its waves, or ask for the whole with `to_df` or `write`; both can be mixed, and
    a wave is computed once. While a wave is being used, the rows of the next are read. Closing
    the run removes its files, and with them the rows that its DataFrames stand for.
    """

    def __init__(
        self,
        spark: SparkSession,
        relations: tuple[Relation, Relation],
        plan: Plan,
        *,
        columns: StructType,
        seed: int,
        release: Callable[[], None],
    ) -> None:
        self._spark = spark
        self._relations = relations
        self._plan = plan
        self._columns = columns
        self._seed = seed
        self._ends = shares(rebuilt=not plan.keeps_operators)
        self._done: list[_Done] = []
        self._started: float | None = None
        self._stopped = False
        self._ahead: tuple[int, Future[tuple[list[Sections], list[Sections]]]] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="watersmeet-scan")
        self.metrics = RunMetrics()
        # Not when the run itself is let go: its DataFrames may still be in use.
        self._release = weakref.finalize(spark, release)

    def __iter__(self) -> Iterator[Wave]:
        number = 0
        while number < len(self._ends):
            if self._stopped:
                return
            if number == len(self._done):
                self._advance()
            done = self._done[number]
            yield Wave(self._rows(done.results), done.progress)
            number += 1

    def to_df(self) -> DataFrame:
        """The whole, exact result."""
        self._complete()
        return self._rows([name for done in self._done for name in done.results])

    def write(self, path: str, *, format: str = "parquet", mode: str = "error") -> None:
        """Write the whole result with Spark's own writer: all of it appears, or nothing."""
        self.to_df().write.format(format).mode(mode).save(path)

    def explain(self) -> str:
        """What runs and why, which way the rows come, and how far it is, for a person to read."""
        progress = self._done[-1].progress if self._done else None
        return explain(
            self._relations,
            self._plan,
            key_order=self._inputs.key_order if self._started else None,
            advice=[str(advice) for advice in check_session(self._spark)],
            progress=progress,
            metrics=self.metrics,
        )

    def stop(self) -> None:
        """End the run early. Waves that were delivered remain usable; no more will come."""
        self._stopped = True
        self._spark.sparkContext.cancelJobsWithTag(self._plan.query)
        self._thread.shutdown(wait=True, cancel_futures=True)

    def close(self) -> None:
        """Stop, and remove the run's files with all rows in them."""
        self.stop()
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _complete(self) -> None:
        if self._started is None:
            # Nobody waits for early rows, and a single wave is the least work.
            self._ends = _WHOLE
        while len(self._done) < len(self._ends):
            if self._stopped:
                raise WatersmeetError(
                    "The run was stopped before its result was complete.",
                    remedy="Call wm.join again, or use the waves that were delivered.",
                )
            self._advance()

    def _advance(self) -> None:
        """Compute the next wave."""
        if self._started is None:
            self._started = time.monotonic()
        number = len(self._done)
        begun = time.monotonic()
        files = self._scanned(number)
        scanned = time.monotonic()
        if number + 1 < len(self._ends):
            self._ahead = number + 1, self._thread.submit(self._inputs.scan, number + 1)
        records = self._join(number, files)
        joined = time.monotonic()
        done = _Done(files, records)
        self._done.append(done)
        self.metrics.waves.append(
            WaveMetrics.of(
                records,
                rows_read=self._inputs.rows_in(number),
                bytes_stored=sum(file.nbytes for side in files for file in side),
                scan_seconds=scanned - begun,
                join_seconds=joined - scanned,
            )
        )
        done.progress = self._progress(joined)

    @cached_property
    def _inputs(self) -> Inputs:
        return Inputs(self._spark, self._relations, self._plan, ends=self._ends, seed=self._seed)

    def _scanned(self, number: int) -> tuple[list[Sections], list[Sections]]:
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] == number:
            return ahead[1].result()
        return self._inputs.scan(number)

    def _join(self, number: int, files: tuple[list[Sections], list[Sections]]) -> list[Record]:
        plan = self._plan

        def task(instance: int) -> JoinTask:
            earlier = tuple(
                arrivals(instance, done.files, rows_out=done.records[instance]["rows_out"])
                for done in self._done
            )
            waves = (*earlier, arrivals(instance, files))
            return JoinTask(instance, waves, last=number + 1 == len(self._ends))

        bundles = run_tasks(
            self._spark,
            [tuple(map(task, bundle)) for bundle in plan.bundles],
            lambda bundle: {"records": join_wave(bundle, plan)},
            at_once=plan.place.tasks,
            query=plan.query,
            what=f"wave {number + 1} of {len(self._ends)}, join",
        )
        return [record for bundle in bundles for record in bundle["records"]]

    def _progress(self, now: float) -> Progress:
        assert self._started is not None
        waves = range(len(self._done))
        left, right = zip(*(self._inputs.rows_in(wave) for wave in waves), strict=True)
        total = [side.rows for side in self._inputs.sides]
        return Progress(
            wave=len(self._done),
            waves=len(self._ends),
            rows_read=(sum(left), sum(right)),
            rows_total=(total[0], total[1]),
            rows_out=self.metrics.rows_out,
            seconds=now - self._started,
        )

    def _rows(self, files: Sequence[str]) -> DataFrame:
        return read_results(self._spark, self._plan, files, columns=self._columns)
