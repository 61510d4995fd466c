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
from watersmeet.errors import InvalidArgument, MissingPackage
from watersmeet.spark.interpreter import _fits
from watersmeet.spark.java import java_home
from watersmeet.spark.jobs import run_tasks
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(EVERYTHING, id="work"),
        pytest.param(AT_ONCE, id="leave", marks=pytest.mark.slow),
        pytest.param(f"{AT_ONCE}; spark.stop()", id="stop", marks=pytest.mark.slow),
    ],
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


@pytest.mark.slow
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
    assert any("spark.python.unix.domain.socket.enabled is false" in line for line in told)
    # What nobody has set, and is as it should be, is not worth a word.
    assert len(told) == 3


NOT_ACTIVATED = """
import gc
import watersmeet as wm
from pyspark.sql import SparkSession
from watersmeet.spark.jobs import run_tasks

spark = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false").getOrCreate()
assert spark.sparkContext.pythonExec == "python3"
left = spark.createDataFrame([(1, "a"), (2, "b")], "k int, x string")
right = spark.range(5).selectExpr("CAST(id AS int) AS k", "id AS y")
with wm.join(left, right, on="k") as run:
    print(sorted(map(tuple, run.to_df().collect())))
    print(run.explain())
with wm.aggregate(left, right, on="k", n=wm.count(), s=wm.sum("y")) as run:
    print(run.exact().answer.to_pylist())

left.write.parquet("stream")
streams = [spark.readStream.schema(left.schema).parquet("stream") for _ in range(2)]
joined = wm.join_streams(*streams, on="k", state="state", memory="64MB")
query = joined.writeStream.format("memory").queryName("joined").trigger(availableNow=True)
query.option("checkpointLocation", "checkpoint").start().awaitTermination()
print(spark.table("joined").count(), "from streams")

# Workers of Spark's own daemon have set aside what they loaded.
told = run_tasks(
    spark, [0], lambda _: {"frozen": gc.get_freeze_count()}, at_once=1, query="q", what="asking"
)
assert told[0]["frozen"] > 50_000, told
# The user's own functions still go where the user wants them.
assert spark.sparkContext.pythonExec == "python3"
spark.stop()
"""


def other_python(folder: Path) -> Path:
    """A python3 without any packages, as in an environment that was not activated."""
    program = folder / "python3"
    program.write_text(f'#!/bin/sh\nexec {sys._base_executable} -S "$@"\n')  # type: ignore[attr-defined]
    program.chmod(0o755)
    return program


@pytest.mark.slow
def test_an_environment_that_was_not_activated_is_found(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    other_python(tmp_path / "bin")
    environment = {name: text for name, text in os.environ.items() if name != "PYSPARK_PYTHON"}
    environment |= {
        "JAVA_HOME": str(java_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "TMPDIR": str(tmp_path),
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
    }
    ended = subprocess.run(
        [sys.executable, "-c", NOT_ACTIVATED],
        capture_output=True, text=True, check=False, cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "[(1, 'a', 1), (2, 'b', 2)]" in ended.stdout
    assert "[{'n': 2, 's': 3}]" in ended.stdout
    assert "2 from streams" in ended.stdout
    words = " ".join(ended.stdout.split())
    assert f"advice PYSPARK_PYTHON is python3; with {sys.executable} all Python" in words
    assert "spark.python.worker.reuse" not in words


def test_which_python_will_do(tmp_path: Path) -> None:
    """One that was chosen on purpose is used, if it has what our tasks need."""
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    wrapper.chmod(0o755)
    assert _fits(str(wrapper))
    assert not _fits(str(other_python(tmp_path)))
    assert not _fits(str(tmp_path / "none"))


@pytest.mark.parametrize("name", ["watersmeet", "pyarrow", "numba"])
def test_a_worker_without_a_package_is_told_in_a_sentence(spark: SparkSession, name: str) -> None:
    def work(task: int) -> dict[str, Any]:
        raise ModuleNotFoundError(f"No module named '{name}'")

    with pytest.raises(MissingPackage, match=f"workers cannot import {name}") as raised:
        run_tasks(spark, [0], work, at_once=1, query="q", what="failing")
    assert "\n" not in str(raised.value)


KILLED = """
import os, signal, sys
import watersmeet as wm
spark = wm.session(cores=2, memory="1g")
left, right = (spark.range(1000).selectExpr("id AS k", f"id AS {name}") for name in "ab")
run = wm.join(left, right, on="k")
rows = run.to_df()
assert rows.count() == 1000
unused = wm.join(left, right, on="k")
print(len([name for name in os.listdir(os.environ["TMPDIR"]) if name.startswith("watersmeet-")]))
sys.stdout.flush()
os.kill(os.getpid(), signal.{signal})
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param("SIGTERM", marks=pytest.mark.slow), "SIGKILL"])
def test_a_driver_that_is_killed_leaves_nothing(tmp_path: Path, name: str) -> None:
    """Java outlives it by a moment, and clears up."""
    ended = run(KILLED.replace("{signal}", name), tmp_path)
    assert ended.returncode != 0
    assert ended.stdout == "2\n"
    assert not list(tmp_path.glob("watersmeet-*"))


STOPPED = """
import watersmeet as wm
spark = wm.session(cores=2, memory="1g")
spark.range(10).selectExpr("id AS k").write.parquet("{table}")
table = spark.read.parquet("{table}")
stream = spark.readStream.schema(table.schema).parquet("{table}")
spark.stop()
{again}
calls = [
    lambda: wm.join(table, table, on="k"),
    lambda: wm.aggregate(table, table, on="k", n=wm.count()),
    lambda: wm.join_streams(stream, stream, on="k", state="{table}-state"),
]
for call in calls:
    try:
        call()
    except wm.errors.InvalidArgument as error:
        print(error.cause)
"""


@pytest.mark.slow
@pytest.mark.parametrize("again", ["", 'wm.session(cores=2, memory="1g")'])
def test_what_a_stopped_session_has_read_is_refused(tmp_path: Path, again: str) -> None:
    """Also while another session runs, which knows nothing of it."""
    script = STOPPED.replace("{table}", str(tmp_path / "table")).replace("{again}", again)
    ended = run(script, tmp_path)
    assert ended.stdout == 3 * "left is a DataFrame of a Spark session that was stopped.\n"


def test_our_own_session_needs_no_advice(spark: SparkSession) -> None:
    assert check_session(spark) == []


def test_workers_of_our_own_session_are_not_reached_over_tcp(spark: SparkSession) -> None:
    """Where a task waits 40 ms for an acknowledgement."""

    def families(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import contextlib
        import os
        import socket
        import stat

        list(batches)
        found = set()
        for number in range(3, 256):
            with contextlib.suppress(OSError):
                if stat.S_ISSOCK(os.fstat(number).st_mode):
                    with socket.socket(fileno=os.dup(number)) as one:
                        found.add(one.family.name)
        yield pa.RecordBatch.from_pydict({"family": sorted(found)})

    found = spark.range(0, 2, 1, 1).mapInArrow(families, "family string").collect()
    assert {row.family for row in found} == {"AF_UNIX"}


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
