"""What all tests share: Hypothesis profiles and one Spark session."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# No deadline: the first example of a test may load kernels, and a busy machine proves nothing.
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
# Look further by hand: HYPOTHESIS_PROFILE=search make test ARGS="-k schedule"
settings.register_profile(
    "search", parent=settings.get_profile("ci"), derandomize=False, max_examples=2_000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one session of a test run; the JVM starts with the first test that asks for it."""
    from pyspark.sql import SparkSession

    from watersmeet.spark.java import java_home

    scratch = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("JAVA_HOME", str(java_home()))
        # Workers may otherwise pick another Python from PATH, without our packages.
        environment.setenv("PYSPARK_PYTHON", sys.executable)
        # Tests run where no other machine can reach, and some sandboxes cannot resolve their name.
        environment.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        session = (
            SparkSession.builder.master("local[2]")
            .appName("watersmeet tests")
            # No web server, no port that two test runs could fight over.
            .config("spark.ui.enabled", "false")
            # Draws over pytest's own output.
            .config("spark.ui.showConsoleProgress", "false")
            # The default of 200 is 200 tasks for a handful of rows.
            .config("spark.sql.shuffle.partitions", "2")
            # So that a join is shuffled, as big ones are, however small the test's tables.
            .config("spark.sql.autoBroadcastJoinThreshold", "-1")
            # The machine's zone must not decide what a timestamp means.
            .config("spark.sql.session.timeZone", "UTC")
            # Both default to the working directory, and would litter the repository.
            .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
            .config("spark.local.dir", str(scratch / "local"))
            .getOrCreate()
        )
        # Warnings of Spark's own start-up are no news; its errors are.
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()
