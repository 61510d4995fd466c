"""Jobs of a run that is let go while its session stops."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from watersmeet.spark.jobs import cancel


@pytest.mark.parametrize(
    "error", [Py4JError("stopped"), ConnectionRefusedError(), AttributeError()]
)
def test_a_session_that_stops_meanwhile_is_no_error(error: Exception) -> None:
    """It was one in the thread that looks after results, where nobody could catch it."""
    asked = []

    def cancelled(tag: str) -> None:
        asked.append(tag)
        raise error

    session: Any = SimpleNamespace(
        sparkContext=SimpleNamespace(_jsc=object(), cancelJobsWithTag=cancelled)
    )
    cancel(session, "query")
    assert asked == ["query"]
