"""Several executors, each a process of its own: one is killed, and no row is lost or doubled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# In a process of its own: a JVM runs one Spark, and the tests' shared one is in use.
LOSING_AN_EXECUTOR = """
import os
import signal
import sys
from collections import Counter
from pathlib import Path

import watersmeet as wm
import watersmeet.spark.tables.opening

# In waves, however small.
opening = watersmeet.spark.tables.opening
opening.SMALL_BYTES = opening.MEDIUM_BYTES = 0
folder = sys.argv[1]
spark = wm.session(warm=False, memory="1g", **{
    "spark.master": "local-cluster[2,1,1024]",
    "spark.executor.cores": "1",
    "spark.sql.shuffle.partitions": "2",
})
for name in "ab":
    rows = spark.range(0, 20_000, 1, 4).selectExpr("id * 7 % 5000 AS k", f"id AS {name}")
    rows.write.parquet(f"{folder}/{name}")
left, right = (spark.read.parquet(f"{folder}/{name}") for name in "ab")


def executors():
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            command = (process / "cmdline").read_bytes().replace(bytes(1), b" ")
            if b"CoarseGrainedExecutorBackend" in command and spark_id in command:
                yield int(process.name)


spark_id = spark.sparkContext.applicationId.encode()
killed = 0
with wm.join(left, right, on="k", storage=folder) as run:
    found = Counter()
    for wave in run:
        found += Counter(map(tuple, wave.rows.collect()))
        if killed < 2:
            os.kill(next(executors()), signal.SIGKILL)
            killed += 1
assert killed == 2
assert found == Counter(map(tuple, left.join(right, on="k").collect()))
print("the same", found.total(), "rows")
spark.stop()
"""


def test_a_killed_executor_changes_no_row(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LOSING_AN_EXECUTOR, str(tmp_path)],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert ran.stdout == "the same 80000 rows\n", ran.stderr
