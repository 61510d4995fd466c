"""What tests of joins on Spark share."""

from __future__ import annotations

import pytest


@pytest.fixture
def in_waves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables come in waves however small they are, as large ones do."""
    monkeypatch.setattr("watersmeet.spark.tables.run.SMALL_BYTES", 0)
