"""A join of finite DataFrames: results wave by wave, which are exact in the end."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from types import TracebackType
from typing import Self

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from watersmeet.errors import RunClosed, WatersmeetError
from watersmeet.spark.jobs import Record, run_tasks
from watersmeet.spark.session import advice_for
from watersmeet.spark.tables.ahead import Ahead, Scanned
from watersmeet.spark.tables.explain import explain
from watersmeet.spark.tables.files import RunFiles
from watersmeet.spark.tables.instances import (
    Arrivals,
    JoinTask,
    arrivals,
    end_homes,
    join_in_driver,
    join_wave,
    mean_rows,
)
from watersmeet.spark.tables.metrics import RunMetrics, WaveMetrics
from watersmeet.spark.tables.opening import Computed, InWaves, Opened, Opening
from watersmeet.spark.tables.plan import Plan
from watersmeet.spark.tables.progress import Wave, WaveProgress
from watersmeet.spark.tables.results import read_results
from watersmeet.spark.tables.small import Small
from watersmeet.spark.tables.target import Target


@dataclass
class _Done:
    """A wave that has been joined."""

    arrived: list[Arrivals]
    """By instance; nothing if the driver has joined all rows."""
    records: list[Record]
    progress: WaveProgress = field(init=False)

    @property
    def results(self) -> list[str]:
        return [name for record in self.records for name in record["files"]]


class JoinRun:
    """A join of DataFrames. Nothing runs before the first wave is asked for.

    Iterate over its waves, or ask for the whole with `to_df` or `write`; both can be mixed, and
    a wave is computed once, however often it is iterated over. While a wave is being used, the rows
    of the next are read. Small tables come in a single wave.

    Closing the run removes its files, but for results that a DataFrame can still read: those are
    removed when there is no such DataFrame any more. A closed run still has `metrics` and
    `explain`; anything else raises RunClosed.
    """

    def __init__(self, opening: Opening, *, columns: StructType, files: RunFiles) -> None:
        self._spark = opening.spark
        self._opening = opening
        self._opened: Opened | None = None
        self._columns = columns
        self._done: list[_Done] = []
        self._started: float | None = None
        self._stopped = False
        self._ahead = Ahead()
        self._files = files
        files.at_stop.append(self._ahead.stop)
        self._advice = advice_for(opening.spark)
        self.metrics = RunMetrics()
        # Does not remove results that a DataFrame can still read.
        self._abandoned = weakref.finalize(self, files.abandon)
        self._abandoned.atexit = False

    def __iter__(self) -> Iterator[Wave]:
        number = 0
        while self._opened is None or number < self._opened.waves:
            self._check_open()
            if number == len(self._done):
                if self._stopped:
                    return
                try:
                    self._advance(whole=False)
                except Exception:
                    self._check_open()
                    if self._stopped:
                        return
                    raise
            done = self._done[number]
            yield Wave(self._rows(done.results), done.progress)
            number += 1

    def to_df(self) -> DataFrame:
        """The whole, exact result."""
        self._check_open()
        self._complete()
        return self._rows([name for done in self._done for name in done.results])

    def write(
        self, path: str | os.PathLike[str], *, format: str = "parquet", mode: str = "error"
    ) -> None:
        """Write the whole result with Spark's own writer: all of it appears, or nothing."""
        self._check_open()
        target = Target.parse(path, format=format, mode=mode)
        target.check(self._spark)
        target.write(self.to_df())

    def explain(self) -> str:
        """What runs and why, how rows are read, and how far it has come, for a person to read."""
        way = self._opened.way if self._opened else None
        computed = self._opened.computed if self._opened else Computed()
        return explain(
            self._opening.relations,
            self._plan,
            partitions={n: each.describe() for n, each in computed.partitions.items()},
            at_once=computed.at_once,
            key_order=way.inputs.key_order if isinstance(way, InWaves) else None,
            are_closed=isinstance(way, InWaves) and way.inputs.stretches is not None,
            is_small=isinstance(way, Small),
            advice=self._advice,
            progress=self._done[-1].progress if self._done else None,
            metrics=self.metrics,
        )

    def __repr__(self) -> str:
        state = "nothing read yet"
        if self._done:
            state = str(self._done[-1].progress)
        if self._files.closed:
            state += "; closed"
        elif self._stopped:
            state += "; stopped"
        question = self._plan.question
        return f"<JoinRun: {question.how} join by {question.algorithm}, {state}>"

    def stop(self) -> None:
        """End the run early. Waves that were delivered remain usable; no more will come.

        Another thread may call it: an iteration that waits for a wave ends then.
        """
        self._stopped = True
        self._ahead.stop()
        self._files.stop()
        self._ahead.join()

    def close(self) -> None:
        """Stop, and remove the run's files; results when no DataFrame can read them any more."""
        if not self._files.closed:
            self.stop()
            self._files.close()

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _complete(self) -> None:
        while self._opened is None or len(self._done) < self._opened.waves:
            try:
                if not self._stopped:
                    # No early rows are asked for, and a single wave is the least work.
                    self._advance(whole=True)
            except Exception:
                self._check_open()
                if not self._stopped:
                    raise
            if self._stopped:
                raise WatersmeetError(
                    "The run was stopped before its result was complete.",
                    remedy="Call it again, or use the waves that were delivered.",
                )

    def _advance(self, *, whole: bool) -> None:
        """Compute the next wave; if only the `whole` result is asked for, there is only one."""
        if self._started is None:
            self._started = time.monotonic()
        number = len(self._done)
        begun = time.monotonic()
        way = self._way(whole=whole)
        if isinstance(way, Small):
            self._deliver(_Done([], [way.record]), way.rows, begun=begun)
            return
        here = way.is_here(number)
        files = self._ahead.take(number) or way.inputs.scan(number, here=here)
        self._check_wanted()  # Only jobs that run are cancelled, not those that would follow.
        scanned = time.monotonic()
        arrived = arrivals(files, instances=self._plan.instances)
        records = self._join(number, arrived, way)
        if any("too_large" in record for record in records):
            way.cut_in_several()
            self._advance(whole=False)
            return
        if way.are_closed:  # The next rows then take the memory of these files, not new memory.
            self._remove(files)
        pairs = zip(arrived, records, strict=True)
        known = [replace(each, rows_out=record["rows_out"]) for each, record in pairs]
        self._deliver(
            _Done(known, records),
            way.inputs.rows_in(number),
            bytes_stored=sum(file.nbytes for table in files for file in table),
            begun=begun,
            scanned=scanned,
        )
        if number + 1 < len(way.ends):
            self._ahead.begin(number + 1, way.inputs, spare=here)

    def _way(self, *, whole: bool) -> Small | InWaves:
        """How the tables are joined, which is decided when the first rows are asked for."""
        if self._opened is None:
            self._opened = self._opening.open(whole=whole, check=self._check_wanted)
            if isinstance(self._opened.way, InWaves):
                self._files.at_stop.append(partial(end_homes, self._plan))
        return self._opened.way

    @property
    def _plan(self) -> Plan:
        """Before tables have been opened, with a guess at their sizes."""
        return self._opening.plan if self._opened is None else self._opened.plan

    def _deliver(
        self,
        done: _Done,
        rows_read: tuple[int, ...],
        *,
        bytes_stored: int = 0,
        begun: float,
        scanned: float | None = None,
    ) -> None:
        """Note a wave that has been joined."""
        joined = time.monotonic()
        scanned = joined if scanned is None else scanned
        self._done.append(done)
        self.metrics.waves.append(
            WaveMetrics.of(
                done.records,
                rows_read=rows_read,
                bytes_stored=bytes_stored,
                scan_seconds=scanned - begun,
                join_seconds=joined - scanned,
            )
        )
        done.progress = self._progress(joined)

    def _join(self, number: int, arrived: Sequence[Arrivals], way: InWaves) -> list[Record]:
        plan, waves, closed = self._plan, len(way.ends), way.are_closed
        if plan.coming is not None and (closed or way.is_here(number)):
            # No more rows come to these operators.
            plan = replace(plan, coming=mean_rows(arrived))

        def task(instance: int) -> JoinTask:
            earlier = () if closed else (done.arrived[instance] for done in self._done)
            last = closed or number + 1 == waves
            return JoinTask(
                instance, (*earlier, arrived[instance]), last=last, most_bytes=way.most_bytes
            )

        tasks = [tuple(map(task, bundle)) for bundle in plan.bundles]
        if way.is_here(number):
            return join_in_driver(tasks, plan, self._check_wanted)
        try:
            bundles = run_tasks(
                self._spark,
                tasks,
                lambda bundle: {"records": join_wave(bundle, plan)},
                at_once=plan.slots.tasks,
                query=plan.query,
                what=f"wave {number + 1} of {waves}, join",
            )
        finally:
            if self._stopped:  # Who stopped it may have come before these homes began.
                end_homes(plan)
        return [record for bundle in bundles for record in bundle["records"]]

    def _remove(self, files: Scanned) -> None:
        """Of rows that no task will read again."""
        for file in chain.from_iterable(files):
            self._plan.storage.delete(file.name)

    def _progress(self, now: float) -> WaveProgress:
        assert self._started is not None
        assert self._opened is not None
        read, way = self.metrics.rows_read, self._opened.way
        return WaveProgress(
            wave=len(self._done),
            waves=self._opened.waves,
            rows_read=read,
            rows_total=read if isinstance(way, Small) else way.inputs.rows,
            rows_out=self.metrics.rows_out,
            seconds=now - self._started,
            names=tuple(self._plan.names),
        )

    def _rows(self, files: Sequence[str]) -> DataFrame:
        rows = read_results(self._spark, self._plan, files, columns=self._columns)
        if files:
            self._files.handed_out(rows)
        return rows

    def _check_wanted(self) -> None:
        """Called by work in this process now and then: nobody else ends it when the run stops."""
        if self._stopped:
            raise CancelledError

    def _check_open(self) -> None:
        if self._files.closed:
            raise RunClosed(
                "This run was closed, and has no more rows to give.",
                remedy="Call it again, and ask for rows inside its `with` block; DataFrames "
                "that were taken before remain usable.",
            )
        if self._spark.sparkContext._jsc is None:
            raise RunClosed(
                "The Spark session of this run was stopped, and no more rows can be computed.",
                remedy="Start a session, read the DataFrames there, and call it again.",
            )
