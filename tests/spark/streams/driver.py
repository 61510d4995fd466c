"""A driver to be killed: joins the streams below a directory, and is struck.

python -m tests.spark.streams.driver DIRECTORY WHERE CASE

CASE is plain, rows, which Spark reads, or a name of `tests/spark/streams/promised_cases.py`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.spark.session import settings
from tests.spark.streams.faults import Fault
from tests.spark.streams.promised_cases import CASES
from tests.spark.streams.running import Streams
from watersmeet.spark.session import session
from watersmeet.spark.streams import join

PLAIN = ("plain", "rows")


def main(directory: Path, where: str, case: str) -> None:
    spark = session(cores=2, memory="1g", warm=False, **settings(directory / "local"))
    # From the fourth batch on, rows break promises.
    batch = 1 if case in PLAIN else 3
    fault = Fault(where, os.getpgid(0), directory / "struck", batch)
    setattr(join, "run_batch", fault)  # noqa: B010  What tasks get is what this module names.
    if case in PLAIN:
        options = {"on": "k", "memory": "4MB"}
        streams = Streams(spark, directory, options, spark_reads=case == "rows")
    else:
        streams = CASES[case](spark, directory)
    streams.start().awaitTermination()
    print("done")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
