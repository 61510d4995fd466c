"""Of tables that are clustered on their key, each wave is a join by itself: of keys that no other
wave has, whatever row groups have in common."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import watersmeet as wm
from tests.spark.workers import workers
from watersmeet.errors import InputChanged
from watersmeet.spark.scans.ranges import ranges_of
from watersmeet.spark.scans.relation import PlainScan
from watersmeet.spark.tables import instances
from watersmeet.spark.tables.instances import JoinTask
from watersmeet.spark.tables.opening import InWaves
from watersmeet.spark.tables.plan import Plan
from watersmeet.spark.tables.run import JoinRun

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("in_waves")]

Rows = Counter[tuple[Any, ...]]
Pair = tuple[DataFrame, DataFrame]
KEYS = 9_000


@pytest.fixture(scope="module")
def pair(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Tables nearly in the order of a key with nulls, of other types and with other row groups on
    each side. Neighbouring row groups share some keys, and each side has keys of its own."""
    folder = tmp_path_factory.mktemp("clustered")
    left = spark.range(0, KEYS, 1, 40).selectExpr(
        "IF(id % 7 = 3, NULL, CAST(id + pmod(xxhash64(id), 90) AS INT)) AS k",
        "id % 3 AS part",
        "id AS a",
    )
    right = spark.range(0, 2 * KEYS, 1, 56).selectExpr(
        "IF(id % 11 = 5, NULL, 1000 + (id + pmod(xxhash64(id, 1), 60)) DIV 2) AS k",
        "id % 2 AS part",
        "CAST(id AS string) AS b",
    )
    for name, table in (("left", left), ("right", right)):
        table.write.parquet(str(folder / name))
    return spark.read.parquet(str(folder / "left")), spark.read.parquet(str(folder / "right"))


def counted(rows: DataFrame) -> Rows:
    return Counter(tuple(row) for row in rows.collect())


def in_waves(run: JoinRun) -> list[Rows]:
    waves = [counted(wave.rows) for wave in run]
    assert "stretches of values that no other wave has" in told(run)
    assert [wave.kept for wave in run.metrics.waves] == [0] * 4
    return waves


def told(run: JoinRun) -> str:
    return " ".join(run.explain().split())


def all_of(waves: Sequence[Rows]) -> Rows:
    return sum(waves, Counter())


@pytest.mark.parametrize(
    "how", ["full", *(pytest.param(each, marks=pytest.mark.slow) for each in ("left", "anti"))]
)
@pytest.mark.parametrize("on", ["k", pytest.param(["part", "k"], marks=pytest.mark.slow)])
def test_each_wave_has_its_share_of_all_rows(pair: Pair, how: str, on: str | list[str]) -> None:
    """Those without a partner, too: nothing that comes later can be one."""
    expected = counted(pair[0].join(pair[1], on, how))
    with wm.join(*pair, on, how, memory="64MB") as run:
        waves = in_waves(run)
    assert all_of(waves) == expected
    so_far = [sum(all_of(waves[:number]).values()) / expected.total() for number in range(1, 5)]
    assert run._opened is not None
    assert isinstance(run._opened.way, InWaves)
    assert so_far == pytest.approx(list(run._opened.way.ends), abs=0.1)
    left, right = (table.count() for table in pair)
    assert run.metrics.rows_read == (left, right)


@pytest.mark.usefixtures("small")
def test_the_driver_joins_the_first_wave(pair: Pair) -> None:
    with wm.join(*pair, "k", "right", memory="64MB") as run:
        assert all_of(in_waves(run)) == counted(pair[0].join(pair[1], "k", "right"))


def test_of_a_wave_that_was_joined_no_rows_stay_in_the_storage(pair: Pair) -> None:
    with wm.join(*pair, "k", "left", memory="2MB", instances=3) as run:
        for wave in run:
            wave.rows.collect()
        assert not _stored(run, "input")
        assert _stored(run, "result")


def test_nothing_is_built_again_with_little_memory_or_after_workers_were_killed(
    spark: SparkSession, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a task had written that was killed leaves the storage with the run."""
    monkeypatch.setattr(instances, "_replayed", _built_anew)
    rows: Rows = Counter()
    with wm.join(*pair, "k", "left", memory="2MB", instances=3) as run:
        for wave in run:
            rows += counted(wave.rows)
            for worker in workers(spark):
                with suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
    assert not _stored(run, "input")
    assert rows == counted(pair[0].join(pair[1], "k", "left"))


def _stored(run: JoinRun, kind: str) -> list[Path]:
    """The files of this kind that are in the storage."""
    folder = Path(run._plan.storage.uri.removeprefix("file://"))
    return list(folder.glob(f"{kind}*"))


def _built_anew(task: JoinTask, plan: Plan, check: instances.Check) -> instances.Instance:
    assert task.number == 1
    return instances.Instance(plan, check)


def test_a_footer_that_tells_less_than_there_is_ends_the_run(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that should have met in a wave before would be lost."""

    def narrowed(scan: PlainScan, column: str) -> list[tuple[int, int] | None]:
        return [each and (each[1], each[1]) for each in ranges_of(scan, column)]

    monkeypatch.setattr("watersmeet.spark.tables.stretches.ranges_of", narrowed)
    with wm.join(*pair, "k") as run, pytest.raises(InputChanged, match="outside of those that"):
        in_waves(run)
    with wm.join(*pair, "k") as run:
        assert counted(run.to_df()) == counted(pair[0].join(pair[1], "k"))
