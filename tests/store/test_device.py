"""Measuring the spill device."""

from __future__ import annotations

from pathlib import Path

import pytest

from watersmeet.errors import SpillError
from watersmeet.store.device import measure_costs


def test_costs_are_positive_and_random_is_never_the_cheaper(tmp_path: Path) -> None:
    costs = measure_costs(tmp_path, 4096)
    assert costs.random >= costs.sequential > 0
    assert not list(tmp_path.iterdir())


def test_measuring_a_missing_directory_is_a_spill_error(tmp_path: Path) -> None:
    with pytest.raises(SpillError, match="Cannot write to the spill directory"):
        measure_costs(tmp_path / "missing", 4096)
