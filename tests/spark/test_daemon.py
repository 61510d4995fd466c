"""Workers are born with everything loaded, and what was loaded before the fork works after it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AFTER_THE_FORK = """
import os, sys

from watersmeet.spark.daemon import can_fork, preload

assert "numba" not in sys.modules and "pyarrow" not in sys.modules
preload()
assert can_fork()
loaded = set(sys.modules)

def work(path):
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from watersmeet.model import Side
    from watersmeet.rows.schema import JoinSchema
    from watersmeet.spark.routing import HashRouter

    pa.set_cpu_count(4)
    table = pa.table({"k": np.arange(100_000) % 100, "v": [str(n) for n in range(100_000)]})
    # Arrow's threads: sorting into groups, writing, and reading columns side by side.
    assert table.group_by("k").aggregate([("v", "count")]).num_rows == 100
    pq.write_table(table, path, row_group_size=10_000)
    read = pq.read_table(path, use_threads=True)
    assert read.equals(table)
    schema = JoinSchema.resolve(table.schema, table.schema, "k")
    batch = read.combine_chunks().to_batches()[0]
    _, offsets = HashRouter.of(schema, instances=4).group(Side.LEFT, batch)
    assert offsets[-1] == 100_000
    return np.random.random()

pipes = []
for number in range(3):
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            os.write(write, repr(work(f"{sys.argv[1]}/{number}.parquet")).encode())
        finally:
            os._exit(0)
    os.close(write)
    pipes.append(read)
drawn = [float(os.read(pipe, 100)) for pipe in pipes]
assert len(set(drawn)) == 3, drawn
"""


def test_what_was_loaded_before_the_fork_works_after_it(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", AFTER_THE_FORK, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        # As Spark sets it: a BLAS with threads of its own could not be forked.
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.spark
def test_a_worker_is_born_with_everything_loaded(spark: SparkSession) -> None:
    def names_of_modules(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        loaded = [name for name in sys.modules if name.startswith("watersmeet.")]
        for batch in batches:
            yield batch.from_pydict({"module": loaded})

    rows = spark.range(0, 1, 1, 1).mapInArrow(names_of_modules, "module string").collect()
    loaded = {row.module for row in rows}
    assert {"watersmeet.kernels.matching", "watersmeet.operators.family"} <= loaded
    assert "watersmeet.spark.routing" in loaded


@pytest.mark.spark
def test_tasks_of_all_kinds_are_given_to_the_same_workers(spark: SparkSession) -> None:
    """A daemon for each kind would load everything again."""
    from watersmeet.spark.jobs import Partitions, run_tasks

    def daemon(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch.from_pydict({"pid": pa.array([os.getppid()], pa.int32())})

    rows = spark.range(0, 1, 1, 1)
    of_the_user = {row.pid for row in rows.mapInArrow(daemon, "pid int").collect()}
    ours = run_tasks(spark, [0], lambda _: os.getppid(), at_once=1, query="q", what="w")
    over_rows = Partitions(rows, lambda _, __: os.getppid(), query="q", what="w").run([0], what="w")
    assert of_the_user == {*ours, *over_rows}
    assert "SPARK_SIMPLIFIED_TRACEBACK" not in spark.sparkContext.environment


BROKEN = "print('nothing that belongs here')\nraise ImportError('no such thing')\n"
BUSY = "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"


@pytest.mark.parametrize(
    ("file", "text", "daemon"),
    [
        ("unrelated.py", "", "watersmeet.spark.daemon"),
        ("pyarrow.py", BROKEN, "pyspark.daemon"),
        ("numba.py", BROKEN, "pyspark.daemon"),
        ("sitecustomize.py", BUSY, "pyspark.daemon"),
    ],
    ids=["as usual", "no arrow", "no numba", "a thread"],
)
def test_spark_s_own_daemon_takes_over_when_ours_cannot(
    file: str, text: str, daemon: str, tmp_path: Path
) -> None:
    (tmp_path / file).write_text(text)
    process = subprocess.Popen(
        [sys.executable, "-m", "watersmeet.spark.daemon", "pyspark.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"},
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdin is not None
        port = int.from_bytes(process.stdout.read(4), "big")
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        # Spark ends a daemon by closing its input.
        process.stdin.close()
        said = process.stderr.read()
    assert command[2].decode() == daemon
    assert 0 < port < 2**16
    assert said == b""
