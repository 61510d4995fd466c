"""What tests of joins on Spark share."""

from __future__ import annotations

import pytest


@pytest.fixture
def in_waves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables come in waves however small they are, as the largest do."""
    for limit in ("SMALL_BYTES", "MEDIUM_BYTES"):
        monkeypatch.setattr(f"watersmeet.spark.tables.opening.{limit}", 0)
    monkeypatch.setattr("watersmeet.spark.scans.text._LEAST_BYTES", 1)


@pytest.fixture
def small() -> None:
    """Small tables are joined by the driver, as they are for users."""


@pytest.fixture(autouse=True)
def by_tasks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are joined by tasks however small they are, as large ones are, unless a test asks for
    `small`."""
    if "small" not in request.fixturenames:
        monkeypatch.setattr("watersmeet.spark.tables.small.SMALL_BYTES", 0)


@pytest.fixture
def finely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are cut wherever, and little text is read at a time."""
    monkeypatch.setattr("watersmeet.spark.scans.text._LEAST_BYTES", 1)
    monkeypatch.setattr("watersmeet.spark.scans.text._CHUNK_BYTES", 999)
    # However many lines are left to Spark.
    monkeypatch.setattr("watersmeet.spark.scans.text_plan._MOST_REFUSED", 1.0)
