"""What all tests share: Hypothesis profiles and one Spark session."""

from __future__ import annotations

import os
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
# To look further, by hand: HYPOTHESIS_PROFILE=search make test ARGS="-k schedule"
settings.register_profile(
    "search", parent=settings.get_profile("ci"), derandomize=False, max_examples=2_000
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


# Where files take longest, a minute and more. They come first: a process that gets such a file last
# works on it while the others have nothing to do.
_LONGEST = ("tests/spark/streams", "tests/spark", "tests/unit/test_readme", "tests/memory")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        path = item.path.relative_to(config.rootpath).as_posix()
        return next(
            (n for n, start in enumerate(_LONGEST) if path.startswith(start)), len(_LONGEST)
        )

    items.sort(key=rank)
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.timeout(3600))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one session of a process; the JVM starts with the first test that asks for it."""
    # Here, so that runs without Spark tests do not wait for its import.
    from tests.spark.session import start

    session = start(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()
