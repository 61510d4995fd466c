"""Operators of tables live in homes between waves: they are not built again, nothing depends on
them, and they end with their run."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import watersmeet as wm
from tests.spark.workers import workers
from watersmeet.errors import StateError
from watersmeet.spark import cache, homes
from watersmeet.spark.jobs import run_tasks
from watersmeet.spark.tables import files, instances
from watersmeet.spark.tables.instances import JoinTask
from watersmeet.spark.tables.plan import Plan
from watersmeet.spark.tables.run import JoinRun

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("in_waves")]

ROWS = 8_000
Rows = Counter[tuple[Any, ...]]
Pair = tuple[DataFrame, DataFrame]


@pytest.fixture(scope="module")
def pairs(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Pair, Pair]:
    """Two pairs of tables with the same columns and other rows."""
    folder, random = tmp_path_factory.mktemp("tables"), np.random.default_rng(8)

    def table(name: str, number: int) -> DataFrame:
        columns = {"k": random.integers(0, ROWS, ROWS), name: np.arange(ROWS) + number * ROWS}
        path = folder / f"{name}{number}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=1_000)
        return spark.read.parquet(str(path))

    first, second = ((table("a", number), table("b", number)) for number in (0, 1))
    return first, second


def counted(dataframe: DataFrame) -> Rows:
    return Counter(tuple(row) for row in dataframe.collect())


@pytest.fixture(scope="module")
def right(pairs: tuple[Pair, Pair]) -> list[Rows]:
    return [counted(left.join(right, on="k")) for left, right in pairs]


def homes_of(run: JoinRun) -> list[str]:
    """Those that the kernel knows."""
    names = [line.split()[-1] for line in _sockets() if run._plan.query in line]
    return sorted(set(names))


def _sockets() -> list[str]:
    lines = Path("/proc/net/unix").read_text().splitlines()
    return [line.replace("@watersmeet ", "@watersmeet-") for line in lines if "@watersmeet" in line]


def end_of(run: JoinRun) -> list[str]:
    """The homes of a run that are still there after a while."""
    deadline = time.monotonic() + 20
    while (left := homes_of(run)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def test_no_operator_is_built_again(pairs: tuple[Pair, Pair], right: list[Rows]) -> None:
    """Whichever worker gets a task. More instances than tasks at a time share their homes."""
    with wm.join(*pairs[0], on="k", instances=6) as run:
        rows = sum((counted(wave.rows) for wave in run), Counter())
    assert rows == right[0]
    kept = [(wave.kept, wave.instances) for wave in run.metrics.waves]
    assert kept == [(0, 6), *[(6, 6)] * (len(kept) - 1)]
    assert len(kept) > 2


@pytest.mark.parametrize("how", ["left", "full", "anti"])
def test_rows_without_a_partner_come_once_with_the_last_wave(
    pairs: tuple[Pair, Pair], how: str
) -> None:
    with wm.join(*pairs[0], on="k", how=how) as run:
        rows = sum((counted(wave.rows) for wave in run), Counter())
    assert rows == counted(pairs[0][0].join(pairs[0][1], on="k", how=how))
    assert run.metrics.waves[-1].kept == run.metrics.waves[-1].instances


def test_homes_are_killed_between_waves(
    spark: SparkSession, pairs: tuple[Pair, Pair], right: list[Rows]
) -> None:
    """The operators are built again from the storage, once."""
    rows: Rows = Counter()
    with wm.join(*pairs[0], on="k") as run:
        for number, wave in enumerate(run):
            rows += counted(wave.rows)
            if number == 1:
                assert len(homes_of(run)) == spark.sparkContext.defaultParallelism
                _kill_homes(spark)
    assert rows == right[0]
    built = [wave.instances - wave.kept for wave in run.metrics.waves]
    assert built == [built[0], 0, built[0], *[0] * (len(built) - 3)]


def _kill_homes(spark: SparkSession) -> None:
    for process in workers(spark):
        with suppress(OSError):
            name = Path(f"/proc/{process}/comm").read_text().strip()
            if name == homes._PROCESS_NAME.decode():
                os.kill(process, signal.SIGKILL)


def test_homes_end_with_the_last_wave(pairs: tuple[Pair, Pair]) -> None:
    with wm.join(*pairs[0], on="k") as run:
        seen = [homes_of(run) for _ in run]
        assert all(seen[:-1])
        assert not end_of(run)


def test_homes_end_when_a_run_is_closed_early(pairs: tuple[Pair, Pair]) -> None:
    with wm.join(*pairs[0], on="k") as run:
        next(iter(run))
        assert homes_of(run)
    assert not end_of(run)


def test_homes_end_when_a_run_is_stopped(pairs: tuple[Pair, Pair]) -> None:
    with wm.join(*pairs[0], on="k") as run:
        next(iter(run))
        run.stop()
        assert not end_of(run)


def test_homes_end_when_a_run_is_forgotten(pairs: tuple[Pair, Pair]) -> None:
    run: JoinRun | None = wm.join(*pairs[0], on="k")
    assert run is not None
    query = run._plan.query
    next(iter(run))
    run = None
    gc.collect()
    files.sweep()
    deadline = time.monotonic() + 20
    while any(query in line for line in _sockets()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(query in line for line in _sockets())


def test_a_result_that_is_asked_for_as_a_whole_has_no_homes(pairs: tuple[Pair, Pair]) -> None:
    with wm.join(*pairs[0], on="k") as run:
        run.to_df()
        assert not homes_of(run)
    assert [wave.kept for wave in run.metrics.waves] == [0]


def test_operators_that_do_not_fit_together_have_no_homes(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name in "ab":
        table = pa.table({"k": np.arange(60_000) % 7_919, name: np.arange(60_000)})
        pq.write_table(table.slice(0, 60_000 if name == "a" else 8_000), tmp_path / name)
    left, right = (spark.read.parquet(str(tmp_path / name)) for name in "ab")
    rows: Rows = Counter()
    with wm.join(left, right, on="k", memory="2MB") as run:
        for wave in run:
            rows += counted(wave.rows)
            assert not homes_of(run)
    assert rows == counted(left.join(right, on="k"))
    assert len(run.metrics.waves) == 3
    assert not any(wave.kept for wave in run.metrics.waves)


# ---- planted bugs -------------------------------------------------------------------------------


def one_after_the_other(spark: Any, tasks: Sequence[Any], work: Any, **names: Any) -> list[Any]:
    return [work(task) for task in tasks]


def each_twice(spark: Any, tasks: Sequence[Any], work: Any, **names: Any) -> list[Any]:
    """The first attempt has done its work, but its answer is lost."""
    return [(work(task), work(task))[1] for task in tasks]


def third_wave_elsewhere(spark: Any, tasks: Sequence[Any], work: Any, **names: Any) -> list[Any]:
    """As if another machine had done it."""
    allowed = homes._can_have_homes
    if tasks[0][0].number == 3:
        homes._can_have_homes = lambda: False
    try:
        found = [work(task) for task in tasks]
        cache.clear()
        return found
    finally:
        homes._can_have_homes = allowed


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Join tasks run in this process, so that mistakes can be planted, and have homes."""
    monkeypatch.setattr(homes, "_can_have_homes", lambda: True)
    before = list(homes._forked)
    yield
    for process in set(homes._forked) - set(before):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        homes._forked.remove(process)


def waves_of_both(pairs: tuple[Pair, Pair]) -> list[Rows]:
    """The rows of two runs whose waves come in turn."""
    found: list[Rows] = [Counter(), Counter()]
    with (
        wm.join(*pairs[0], on="k", instances=4) as one,
        wm.join(*pairs[1], on="k", instances=4) as other,
    ):
        for waves in zip(one, other, strict=True):
            for rows, wave in zip(found, waves, strict=True):
                rows.update(counted(wave.rows))
    return found


SCHEDULES: dict[str, Callable[..., list[Any]]] = {
    "in order": one_after_the_other,
    "each attempt twice": each_twice,
    "the third wave elsewhere": third_wave_elsewhere,
}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_two_runs_in_turn_have_their_rows(
    pairs: tuple[Pair, Pair],
    right: list[Rows],
    monkeypatch: pytest.MonkeyPatch,
    schedule: str,
) -> None:
    monkeypatch.setattr("watersmeet.spark.tables.run.run_tasks", SCHEDULES[schedule])
    assert waves_of_both(pairs) == right


take, keep = cache.take, cache.keep


def _of_any_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Homes, and what they keep, are found by their instance alone."""
    monkeypatch.setattr(instances, "_home", lambda plan, first: f"planted {os.getpid()} {first}")
    monkeypatch.setattr(cache, "take", lambda key: take(("", *key[1:])))
    monkeypatch.setattr(cache, "keep", lambda key, kept: keep(("", *key[1:]), kept))


def _of_any_wave(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a home has is taken for the operators of the wave before."""
    monkeypatch.setattr(cache, "take", lambda key: take((*key[:2], 0)))
    monkeypatch.setattr(cache, "keep", lambda key, kept: keep((*key[:2], 0), kept))


def _first_waves_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator that is built again lacks the latest wave."""
    built = instances._replayed

    def one_behind(task: JoinTask, plan: Plan, check: instances.Check) -> Any:
        waves = (*task.waves[:-2], task.waves[-1]) if len(task.waves) > 2 else task.waves
        return built(JoinTask(task.instance, waves, task.last, task.most_bytes), plan, check)

    monkeypatch.setattr(instances, "_replayed", one_behind)


BUGS = {
    "operators of another run": (_of_any_run, "in order"),
    "a wave is pushed twice": (_of_any_wave, "each attempt twice"),
    "a home is one wave behind": (_of_any_wave, "the third wave elsewhere"),
    "what is built again is one wave behind": (_first_waves_only, "each attempt twice"),
}


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    "bug", [*list(BUGS)[:2], *(pytest.param(bug, marks=pytest.mark.slow) for bug in list(BUGS)[2:])]
)
def test_planted_bugs_are_noticed(
    pairs: tuple[Pair, Pair], right: list[Rows], monkeypatch: pytest.MonkeyPatch, bug: str
) -> None:
    plant, schedule = BUGS[bug]
    plant(monkeypatch)
    monkeypatch.setattr("watersmeet.spark.tables.run.run_tasks", SCHEDULES[schedule])
    with suppress(StateError):
        assert waves_of_both(pairs) != right


def test_homes_that_begin_when_their_run_is_already_stopped(
    pairs: tuple[Pair, Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two jobs there is none to cancel, and no home to end: those of the next job are ended
    behind it."""
    with wm.join(*pairs[0], "k") as run:
        waves = iter(run)
        next(waves)
        assert homes_of(run)

        def late(spark: SparkSession, tasks: Sequence[Any], work: Any, **names: Any) -> list[Any]:
            run.stop()
            assert end_of(run) == []
            return run_tasks(spark, tasks, work, **names)

        monkeypatch.setattr("watersmeet.spark.tables.run.run_tasks", late)
        next(waves, None)
        assert end_of(run) == []
