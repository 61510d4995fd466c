"""A process with one Spark session in which peers run in turn, as they are asked for.

Speaks JSON lines with `benchmarks.spark_outside`: first what to open, then one order for each run.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any


def main() -> None:
    # Java writes to the standard output whatever it likes; answers go where nothing else does.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    opening = json.loads(sys.stdin.readline())
    began = time.perf_counter()
    scratch = Path(opening["scratch"])
    scratch.mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = os.environ["TMPDIR"] = str(scratch)

    # Timed, where a session is opened for one cold run.
    import watersmeet as wm
    from benchmarks.relations import Relations
    from benchmarks.spark_peers import PEERS
    from benchmarks.spark_peers.stage import Stage

    if opening["plain"]:
        spark = _plain_session(opening["cores"])
    else:
        # Without workers started beforehand where none of ours will run.
        heap = opening["heap"]
        spark = wm.session(cores=opening["cores"], memory=heap, warm=opening["warm"], **_SETTINGS)
    _say({"ready": time.perf_counter() - began}, answers)
    for line in sys.stdin:
        order = json.loads(line)
        stage = Stage(
            spark=spark,
            relations=Relations.of(order["relations"]),
            memory=order["memory"],
            began=began if order["cold"] else time.perf_counter(),
            check=order["check"],
            scratch=scratch,
            settings=order["settings"],
        )
        try:
            _say(PEERS[order["peer"]](stage), answers)
        except Exception as error:  # whatever a peer raises is its result
            traceback.print_exc()
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            text = re.sub(r"Query \[.*?\] terminated with exception: ", "", text)
            _say({"seconds": stage.seconds, "failure": text}, answers)
    spark.stop()


# Spark's own broadcast of a large table comes through the driver, which else refuses over 1 GB.
_SETTINGS = {"spark.driver.maxResultSize": "0"}


def _plain_session(cores: int) -> Any:
    """A session as a user starts it, on a Java that is there and with a heap of the same size."""
    from pyspark.sql import SparkSession

    from watersmeet.spark.java import java_home
    from watersmeet.spark.session import _heap

    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(f"local[{cores}]")
    builder = builder.config("spark.driver.memory", f"{_heap() // 2**20}m")
    # The web server's port may be taken.
    return builder.config("spark.ui.enabled", "false").getOrCreate()


def _say(message: dict[str, Any], answers: Any) -> None:
    print(json.dumps(message), file=answers, flush=True)


if __name__ == "__main__":
    main()
