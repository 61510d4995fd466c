"""A join of finite DataFrames: results wave by wave, which are exact in the end."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from watersmeet.errors import RunClosed, WatersmeetError
from watersmeet.spark import cache
from watersmeet.spark.cluster import is_one_machine
from watersmeet.spark.jobs import Record, run_tasks, side_by_side
from watersmeet.spark.scans.scan import PlainScan
from watersmeet.spark.session import advice_for
from watersmeet.spark.tables import small
from watersmeet.spark.tables.ahead import Ahead
from watersmeet.spark.tables.explain import explain
from watersmeet.spark.tables.files import RunFiles
from watersmeet.spark.tables.inputs import Inputs
from watersmeet.spark.tables.instances import (
    Arrivals,
    JoinTask,
    arrivals,
    end_homes,
    join_here,
    join_wave,
)
from watersmeet.spark.tables.metrics import RunMetrics, WaveMetrics
from watersmeet.spark.tables.partitions import StagedPartitions, sizes_of, staged_partitions
from watersmeet.spark.tables.plan import Plan, Sizes, bytes_of
from watersmeet.spark.tables.progress import Wave, WaveProgress
from watersmeet.spark.tables.ranging import ranged
from watersmeet.spark.tables.results import read_results
from watersmeet.spark.tables.staging import Relation, Staged, divided, staged
from watersmeet.spark.tables.target import Target
from watersmeet.spark.tables.waves import SMALL_BYTES, WHOLE, shares
from watersmeet.store.exchange import Sections

# A process keeps one bundle of operators.
_JOINING_HERE = threading.Lock()


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

    def __init__(
        self,
        spark: SparkSession,
        relations: Sequence[Relation],
        plan: Plan,
        *,
        columns: StructType,
        expected: Sequence[int | None],
        seed: int,
        files: RunFiles,
    ) -> None:
        """`expected` is how many rows each table seems to have, if anything is known of it."""
        self._spark = spark
        self._relations = relations
        self._plan = plan
        self._columns = columns
        self._expected = expected
        self._seed = seed
        self._opened = False
        self._inputs: Inputs | None = None
        self._small: small.Small | None = None
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
        self._advice = advice_for(spark)
        self.metrics = RunMetrics()
        # Does not remove results that a DataFrame can still read.
        self._abandoned = weakref.finalize(self, files.abandon)
        self._abandoned.atexit = False

    def __iter__(self) -> Iterator[Wave]:
        number = 0
        while not self._opened or number < len(self._ends):
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
            is_small=self._small is not None,
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
        while not self._opened or len(self._done) < len(self._ends):
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
        if not self._opened:
            self._open(whole=whole)
            self._opened = True
        if self._small is not None:
            self._deliver(_Done([], [self._small.record]), self._small.rows, begun=begun)
            return
        inputs = self._inputs
        assert inputs is not None
        here = self._is_here(number)
        files = self._ahead.take(number) or inputs.scan(number, here=here)
        self._check_wanted()  # Only jobs that run are cancelled, not those that would follow.
        scanned = time.monotonic()
        arrived = arrivals(files, instances=self._plan.instances)
        records = self._join(number, arrived, here=here)
        if any("too_large" in record for record in records):
            self._open_again(inputs)
            self._advance(whole=False)
            return
        pairs = zip(arrived, records, strict=True)
        known = [replace(each, rows_out=record["rows_out"]) for each, record in pairs]
        self._deliver(
            _Done(known, records),
            inputs.rows_in(number),
            bytes_stored=sum(file.nbytes for table in files for file in table),
            begun=begun,
            scanned=scanned,
        )
        if number + 1 < len(self._ends):
            self._ahead.begin(number + 1, inputs, spare=here)

    def _is_here(self, number: int) -> bool:
        """Whether the driver does the work of a wave's tasks: that of a small first wave, whose two
        jobs would take several times as long."""
        if number or len(self._ends) == 1 or not self._can_join_here:
            return False
        plain = (each.nbytes for each in self._relations if isinstance(each, PlainScan))
        nbytes = max(bytes_of(self._plan.schemas, self._sizes(self._staged)), sum(plain))
        return nbytes * self._ends[0] <= small.most_bytes(self._plan)

    @property
    def _can_join_here(self) -> bool:
        """Whether the driver may join: not with a function of the user's, which might take long, or
        end the process; and not for other machines, whose directories it may not have."""
        return is_one_machine(self._spark) and not callable(self._plan.question.condition)

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

    def _open(self, *, whole: bool) -> None:
        """Let Spark compute and count the sides that need it, or their first partitions; then
        choose instances and waves. Small tables are joined at once."""
        most = min(small.most_bytes(self._plan), SMALL_BYTES)
        may_be_small = self._can_join_here and small.may_be_small(
            self._relations, self._plan, most=most
        )
        files: dict[int, list[Sections]] = {}
        if may_be_small:
            batches = small.collected(self._relations, self._plan, most=most)
            if self._are_known(batches):
                if self._join_small(batches, {}):
                    return
                may_be_small = False
            if self._plan.placing is None:  # Else Spark computes them again, to look at them.
                files |= small.stored(batches, self._plan)
        at_once = may_be_small and small.seem_small(self._expected, self._plan, most=most)
        if not whole and not at_once:
            found = staged_partitions(self._relations, self._plan, seed=self._seed)
            self._partitions, self._at_once = found
        others = set(self._plan.inputs) - self._partitions.keys() - files.keys()
        computed, seen = staged(self._relations, self._plan, inputs=others)
        files |= computed
        side_by_side(self._spark, [each.begin for each in self._partitions.values()])
        if bytes_of(self._plan.schemas, self._sizes(files)) <= SMALL_BYTES:
            # So they seem. A single wave needs all of them, and then their sizes are known.
            rest = [partial(each.stage, each.count) for each in self._partitions.values()]
            side_by_side(self._spark, rest)
        sizes = self._sizes(files)
        # The rows of joins of many tables are copied when they are staged.
        may_be_small = may_be_small and self._plan.cube is None
        if may_be_small and bytes_of(self._plan.schemas, sizes) <= most:
            parts = {input: each.files(0, each.count) for input, each in self._partitions.items()}
            if self._join_small({}, files | parts):
                return
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

    def _are_known(self, batches: small.Collected) -> bool:
        """Whether all tables are plain scans, or among those that were collected."""
        return all(n in batches or isinstance(r, PlainScan) for n, r in enumerate(self._relations))

    def _join_small(self, batches: small.Collected, files: Staged) -> bool:
        """Join the tables here; False if the result is large."""
        self._small = small.join_small(
            self._relations, self._plan, batches=batches, files=files, check=self._check_wanted
        )
        return self._small is not None

    def _sizes(self, files: Staged) -> Sizes:
        return sizes_of(self._relations, files, self._partitions)

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

    def _join(self, number: int, arrived: Sequence[Arrivals], *, here: bool) -> list[Record]:
        plan, most_bytes = self._plan, self._most_bytes

        def task(instance: int) -> JoinTask:
            earlier = (done.arrived[instance] for done in self._done)
            waves = (*earlier, arrived[instance])
            last = number + 1 == len(self._ends)
            return JoinTask(instance, waves, last=last, most_bytes=most_bytes)

        tasks = [tuple(map(task, bundle)) for bundle in plan.bundles]
        if here:
            with _JOINING_HERE:
                try:
                    joined = [
                        join_here(bundle, plan, iter(()), self._check_wanted) for bundle in tasks
                    ]
                finally:
                    cache.clear()  # Homes build these operators again, from little.
            return [record for records in joined for record in records]
        try:
            bundles = run_tasks(
                self._spark,
                tasks,
                lambda bundle: {"records": join_wave(bundle, plan)},
                at_once=plan.slots.tasks,
                query=plan.query,
                what=f"wave {number + 1} of {len(self._ends)}, join",
            )
        finally:
            if self._stopped:  # Who stopped it may have come before these homes began.
                end_homes(plan)
        return [record for bundle in bundles for record in bundle["records"]]

    def _progress(self, now: float) -> WaveProgress:
        assert self._started is not None
        read = self.metrics.rows_read
        return WaveProgress(
            wave=len(self._done),
            waves=len(self._ends),
            rows_read=read,
            rows_total=tuple(table.rows for table in self._inputs.tables) if self._inputs else read,
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
