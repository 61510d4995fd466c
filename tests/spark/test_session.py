"""Spark starts without a word, runs our tasks, and a session of the user's own is left alone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import watersmeet as wm
from tests.spark.session import CORES, settings
from watersmeet.errors import InvalidArgument
from watersmeet.spark.java import java_home
from watersmeet.spark.session import check_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def run(script: str, scratch: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it as a program of its own; returns when its Java has gone too, for it holds the pipe."""
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        cwd=scratch,
        env={**os.environ, "TMPDIR": str(scratch), **environment},
    )


EVERYTHING = """
import os
before = dict(os.environ)
import watersmeet as wm
spark = wm.session(cores=2, memory="1g", **{"spark.sql.shuffle.partitions": 2})
for name in ("JAVA_HOME", "PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
    assert os.environ.get(name) == before.get(name), name
frame = spark.range(1000).repartition(3)
assert frame.mapInArrow(lambda batches: batches, "id bigint").count() == 1000

def fail(batches):
    raise ValueError("said once")

failing = frame.mapInArrow(fail, "id bigint")
for act in (
    failing.collect,
    lambda: failing.write.parquet("rows"),
    lambda: failing.write.format("noop").mode("overwrite").save(),
):
    try:
        act()
    except Exception as error:
        assert "said once" in str(error)
    else:
        raise AssertionError("no error")
spark.stop()

try:
    wm.session(memory="2g")
except wm.errors.InvalidArgument as error:
    assert "memory='1024m'" in str(error)
else:
    raise AssertionError("no error")
spark = wm.session(memory="1024m")
assert spark.range(5).mapInArrow(lambda batches: batches, "id bigint").count() == 5
spark.stop()
"""
AT_ONCE = "import watersmeet as wm; spark = wm.session(cores=2, memory='1g')"


@pytest.mark.parametrize(
    "script", [EVERYTHING, AT_ONCE, f"{AT_ONCE}; spark.stop()"], ids=["work", "leave", "stop"]
)
def test_a_session_says_nothing(script: str, tmp_path: Path) -> None:
    ended = run(script, tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    # Nor does it leave anything in the working directory.
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("spark")] == []


USERS_OWN = """
import watersmeet as wm
from pyspark.sql import SparkSession
from watersmeet.spark.session import check_session

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
assert spark.range(10).mapInArrow(lambda batches: batches, "id bigint").count() == 10
before = dict(spark.sparkContext.getConf().getAll())
assert wm.session() is spark
for advice in check_session(spark):
    print(advice)
assert dict(spark.sparkContext.getConf().getAll()) == before
spark.stop()
"""


def test_a_users_own_session_works_and_is_told_what_to_set(tmp_path: Path) -> None:
    ended = run(
        USERS_OWN,
        tmp_path,
        JAVA_HOME=str(java_home()),
        PYSPARK_PYTHON=sys.executable,
        SPARK_LOCAL_IP="127.0.0.1",
    )
    assert ended.returncode == 0, ended.stderr
    told = ended.stdout.splitlines()
    assert any("spark.python.daemon.module is not set" in line for line in told)
    assert any("spark.master is local[2]; with local[2,4]" in line for line in told)


def test_our_own_session_needs_no_advice(spark: SparkSession) -> None:
    assert check_session(spark) == []


def test_a_running_session_is_returned(spark: SparkSession) -> None:
    assert wm.session() is spark
    assert wm.session(cores=CORES, memory=2**30) is spark
    same: dict[str, Any] = {"spark.sql.shuffle.partitions": 2}
    assert wm.session(**same) is spark


def test_a_running_session_that_is_not_what_was_asked_for_is_an_error(spark: SparkSession) -> None:
    with pytest.raises(InvalidArgument, match=r"with spark\.master=local\[2,4\]\. Stop it first"):
        wm.session(cores=CORES + 1)
    with pytest.raises(InvalidArgument, match=r"spark\.driver\.memory=1024m"):
        wm.session(memory="2g")


def test_wrong_arguments_are_found_before_java_starts() -> None:
    with pytest.raises(InvalidArgument, match="cores=0"):
        wm.session(cores=0)
    with pytest.raises(InvalidArgument, match="memory='much' is no size"):
        wm.session(memory="much")
    with pytest.raises(InvalidArgument, match="'ui' is no setting of Spark"):
        wm.session(ui=True)


def test_the_users_settings_win(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for name, value in settings(tmp_path_factory.getbasetemp()).items():
        if not value.startswith("/"):
            assert spark.conf.get(name) == value


def test_a_task_that_lost_its_worker_is_tried_again(spark: SparkSession) -> None:
    def lost_at_first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import signal

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return batches

    frame = spark.range(0, 100, 1, 2).mapInArrow(lost_at_first, "id bigint")
    assert sorted(row.id for row in frame.collect()) == list(range(100))
