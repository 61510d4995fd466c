"""How tests start Spark: small, quiet, and leaving nothing behind. A reason beside each setting."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from watersmeet.spark.java import java_home

LOGGING = Path(__file__).with_name("log4j2.properties")


def environment() -> dict[str, str]:
    return {
        "JAVA_HOME": str(java_home()),
        # Workers may otherwise pick another Python from PATH, without our packages.
        "PYSPARK_PYTHON": sys.executable,
        # No other machine takes part, and some machines cannot resolve their own name.
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def start(scratch: Path) -> SparkSession:
    """A new session in this process, whose files all go under `scratch`."""
    os.environ.update(environment())
    return (
        SparkSession.builder.master("local[2]")
        .appName("watersmeet tests")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={LOGGING.as_uri()}")
        # No web server, and no port that two test runs could fight over.
        .config("spark.ui.enabled", "false")
        # Draws over pytest's own output.
        .config("spark.ui.showConsoleProgress", "false")
        # The default of 200 is 200 tasks for a handful of rows.
        .config("spark.sql.shuffle.partitions", "2")
        # So that a join is shuffled, as big ones are, however small the test's tables.
        .config("spark.sql.autoBroadcastJoinThreshold", "-1")
        # The machine's own zone must not decide what a timestamp means.
        .config("spark.sql.session.timeZone", "UTC")
        # By default these are the working directory and the machine's /tmp.
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.local.dir", str(scratch / "local"))
        .getOrCreate()
    )
