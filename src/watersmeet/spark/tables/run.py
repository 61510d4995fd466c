"""A join of finite DataFrames: results wave by wave, which are exact in the end."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from types import TracebackType
from typing import Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from watersmeet.errors import RunClosed, WatersmeetError
from watersmeet.spark.jobs import Record, run_tasks
from watersmeet.spark.scans.scan import PlainScan
from watersmeet.spark.session import check_session
from watersmeet.spark.tables.ahead import Ahead
from watersmeet.spark.tables.explain import explain
from watersmeet.spark.tables.files import RunFiles
from watersmeet.spark.tables.inputs import Inputs
from watersmeet.spark.tables.instances import Arrivals, JoinTask, arrivals, end_homes, join_wave
from watersmeet.spark.tables.metrics import RunMetrics, WaveMetrics
from watersmeet.spark.tables.partitions import StagedPartitions, staged_partitions
from watersmeet.spark.tables.plan import Plan, Sizes, bytes_of
from watersmeet.spark.tables.ranging import ranged
from watersmeet.spark.tables.results import read_results
from watersmeet.spark.tables.staging import Relation, Staged, divided, staged
from watersmeet.spark.tables.target import Target
from watersmeet.spark.tables.waves import SMALL_BYTES, WHOLE, shares


@dataclass(frozen=True)
class WaveProgress:
    """How far a join has come after a wave."""

    wave: int
    waves: int
    rows_read: tuple[int, ...]
    rows_total: tuple[int, ...]
    rows_out: int
    seconds: float
    names: tuple[str, ...] = ("left", "right")

    @property
    def fraction(self) -> float:
        """The fraction of all combinations of rows of which every row has been read."""
        shares = [
            read / total if total else 1.0
            for read, total in zip(self.rows_read, self.rows_total, strict=True)
        ]
        return prod(shares)

    def __str__(self) -> str:
        named = zip(self.rows_read, self.names, strict=True)
        read = " and ".join(f"{rows:,} {name}" for rows, name in named)
        return (
            f"wave {self.wave} of {self.waves}: {read} rows read, "
            f"{self.rows_out:,} results after {self.seconds:.1f} s"
        )


@dataclass(frozen=True)
class Wave:
    """New rows of the result. `rows` may be used any number of times, also after the join."""

    rows: DataFrame
    progress: WaveProgress

    def __repr__(self) -> str:
        return f"<Wave: {self.rows}; {self.progress}>"


@dataclass
class _Done:
    """A wave that has been joined."""

    arrived: list[Arrivals]
    """By instance."""
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

    def __init__(
        self,
        spark: SparkSession,
        relations: Sequence[Relation],
        plan: Plan,
        *,
        columns: StructType,
        seed: int,
        files: RunFiles,
    ) -> None:
        self._spark = spark
        self._relations = relations
        self._plan = plan
        self._columns = columns
        self._seed = seed
        self._inputs: Inputs | None = None
        self._staged: Staged = {}
        self._partitions: dict[int, StagedPartitions] = {}
        self._at_once: dict[int, str] = {}
        self._ends = WHOLE
        self._most_bytes: int | None = None
        self._done: list[_Done] = []
        self._started: float | None = None
        self._stopped = False
        self._ahead = Ahead()
        self._files = files
        files.at_stop.append(self._ahead.stop)
        self._advice = [str(advice) for advice in check_session(spark)]
        self.metrics = RunMetrics()
        # Does not remove results that a DataFrame can still read.
        self._abandoned = weakref.finalize(self, files.abandon)
        self._abandoned.atexit = False

    def __iter__(self) -> Iterator[Wave]:
        number = 0
        while self._inputs is None or number < len(self._ends):
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
        return explain(
            self._relations,
            self._plan,
            partitions={input: each.count for input, each in self._partitions.items()},
            at_once=self._at_once,
            key_order=self._inputs.key_order if self._inputs else None,
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
        while self._inputs is None or len(self._done) < len(self._ends):
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
        inputs = self._inputs or self._open(whole=whole)
        files = self._ahead.take(number) or inputs.scan(number)
        scanned = time.monotonic()
        arrived = arrivals(files, instances=self._plan.instances)
        records = self._join(number, arrived)
        if any("too_large" in record for record in records):
            self._open_again(inputs)
            self._advance(whole=False)
            return
        joined = time.monotonic()
        pairs = zip(arrived, records, strict=True)
        known = [replace(each, rows_out=record["rows_out"]) for each, record in pairs]
        done = _Done(known, records)
        self._done.append(done)
        self.metrics.waves.append(
            WaveMetrics.of(
                records,
                rows_read=inputs.rows_in(number),
                bytes_stored=sum(file.nbytes for table in files for file in table),
                scan_seconds=scanned - begun,
                join_seconds=joined - scanned,
            )
        )
        done.progress = self._progress(joined, inputs)
        if number + 1 < len(self._ends):
            self._ahead.begin(number + 1, inputs)

    def _open(self, *, whole: bool) -> Inputs:
        """Let Spark compute and count the sides that need it, or their first partitions; then
        choose instances and waves."""
        if not whole:
            found = staged_partitions(self._relations, self._plan, seed=self._seed)
            self._partitions, self._at_once = found
        others = set(self._plan.inputs) - self._partitions.keys()
        files, seen = staged(self._relations, self._plan, inputs=others)
        for partitions in self._partitions.values():
            partitions.begin()
        if bytes_of(self._plan.schemas, self._sizes(files)) <= SMALL_BYTES:
            # So they seem. A single wave needs all of them, and then their sizes are known.
            for partitions in self._partitions.values():
                partitions.stage(partitions.count)
        sizes = self._sizes(files)
        if self._plan.placing is not None:
            self._plan = ranged(
                self._spark, self._relations, sizes, plan=self._plan, seen=seen, seed=self._seed
            )
        self._plan, self._staged = divided(self._spark, files, sizes, plan=self._plan)
        for partitions in self._partitions.values():
            partitions.fit(self._plan)
        inputs = Inputs(
            self._spark,
            self._relations,
            self._plan,
            staged=self._staged,
            partitions=self._partitions,
            seed=self._seed,
        )
        if whole:
            self._ends = WHOLE
        elif bytes_of(self._plan.schemas, sizes) <= SMALL_BYTES:
            self._ends = WHOLE
            self._most_bytes = 2 * SMALL_BYTES // self._plan.slots.tasks
        else:
            self._ends = self._shares(inputs)
        inputs.cut(self._ends)
        self._files.at_stop.append(partial(end_homes, self._plan))
        self._inputs = inputs
        return inputs

    def _sizes(self, files: Staged) -> Sizes:
        """Of all inputs: exact for what Spark has computed, extrapolated where it has computed some
        partitions; for plain scans, rows before filters."""
        rows, nbytes = [], []
        for input, relation in enumerate(self._relations):
            if isinstance(relation, PlainScan):
                rows.append(relation.rows)
                nbytes.append(0)
            elif (partitions := self._partitions.get(input)) is not None:
                rows.append(partitions.rows)
                nbytes.append(partitions.nbytes)
            else:
                rows.append(sum(file.rows for file in files[input]))
                nbytes.append(sum(file.nbytes for file in files[input]))
        return Sizes(tuple(rows), tuple(nbytes))

    def _shares(self, inputs: Inputs) -> list[float]:
        return shares(
            rebuilt=not self._plan.keeps_operators,
            inputs=len(self._plan.inputs),
            in_order=inputs.key_order is not None,
        )

    def _open_again(self, inputs: Inputs) -> None:
        """Begin anew in several waves, because small tables turned out to have a large result."""
        self._ends = self._shares(inputs)
        self._most_bytes = None
        inputs.cut(self._ends)

    def _join(self, number: int, arrived: Sequence[Arrivals]) -> list[Record]:
        plan, most_bytes = self._plan, self._most_bytes

        def task(instance: int) -> JoinTask:
            earlier = (done.arrived[instance] for done in self._done)
            waves = (*earlier, arrived[instance])
            last = number + 1 == len(self._ends)
            return JoinTask(instance, waves, last=last, most_bytes=most_bytes)

        bundles = run_tasks(
            self._spark,
            [tuple(map(task, bundle)) for bundle in plan.bundles],
            lambda bundle: {"records": join_wave(bundle, plan)},
            at_once=plan.slots.tasks,
            query=plan.query,
            what=f"wave {number + 1} of {len(self._ends)}, join",
        )
        return [record for bundle in bundles for record in bundle["records"]]

    def _progress(self, now: float, inputs: Inputs) -> WaveProgress:
        assert self._started is not None
        waves = range(len(self._done))
        read = zip(*(inputs.rows_in(wave) for wave in waves), strict=True)
        return WaveProgress(
            wave=len(self._done),
            waves=len(self._ends),
            rows_read=tuple(map(sum, read)),
            rows_total=tuple(table.rows for table in inputs.tables),
            rows_out=self.metrics.rows_out,
            seconds=now - self._started,
            names=tuple(self._plan.names),
        )

    def _rows(self, files: Sequence[str]) -> DataFrame:
        rows = read_results(self._spark, self._plan, files, columns=self._columns)
        if files:
            self._files.handed_out(rows)
        return rows

    def _check_open(self) -> None:
        if self._files.closed:
            raise RunClosed(
                "This run was closed, and has no more rows to give.",
                remedy="Call it again, and ask for rows inside its `with` block; DataFrames "
                "that were taken before remain usable.",
            )
