"""How tests start Spark: as users do, but small and leaving nothing behind. Reasons beside each."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from watersmeet.spark.session import session

# Enough for every test, on machines that run several things at once.
CORES, MEMORY = 2, "1g"
# What only saves time, for the session that tests share.
QUICKER = {
    # Java does not live long enough for its second compiler, nor is there garbage for several
    # threads: 31 s of processor time instead of 52 for eight small streams.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def start(scratch: Path) -> SparkSession:
    """A new session in this process, whose files all go under `scratch`."""
    return session(cores=CORES, memory=MEMORY, warm=False, **settings(scratch), **QUICKER)


def settings(scratch: Path) -> dict[str, str]:
    return {
        # The default of 200 is 200 tasks for a handful of rows.
        "spark.sql.shuffle.partitions": "2",
        # So that a join is shuffled, as big ones are, however small the test's tables.
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        # The machine's own zone must not decide what a timestamp means.
        "spark.sql.session.timeZone": "UTC",
        # By default these are the working directory and the machine's temporary one.
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
    }
