"""A driver to be killed: enriches the stream below a directory, and is struck.

python -m tests.spark.enrich.driver DIRECTORY WHERE BATCH
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.spark.enrich.running import OPTIONS, Enrichment
from tests.spark.session import settings
from tests.spark.streams.faults import Fault
from watersmeet.spark.enrich import enrich, laying
from watersmeet.spark.enrich.masters import MasterRecord, Masters
from watersmeet.spark.session import session
from watersmeet.store.master.laying import lay_down


def main(directory: Path, where: str, batch: int) -> None:
    spark = session(cores=2, memory="1g", warm=False, **settings(directory / "local"))
    fault = Fault(where, os.getpgid(0), directory / "struck", batch=batch)
    if where == "laying":

        def lay_down_and_strike(batches: Iterator[pa.RecordBatch], *rest: Any, **more: Any) -> Any:
            described = lay_down(batches, *rest, **more)
            fault.strike()
            return described

        # What tasks get is what this module names.
        setattr(laying, "lay_down", lay_down_and_strike)  # noqa: B010
    elif where == "published":
        publish = Masters.publish

        def publish_and_strike(self: Masters, record: MasterRecord) -> None:
            publish(self, record)
            fault.strike()

        setattr(Masters, "publish", publish_and_strike)  # noqa: B010
    else:
        setattr(enrich, "run_batch", replace(fault))  # noqa: B010
    Enrichment(spark, directory, OPTIONS).start().awaitTermination()
    print("done")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
