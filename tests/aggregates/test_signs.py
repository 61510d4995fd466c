"""What the footers of blocks say about each other."""

from __future__ import annotations

import numpy as np
import pytest

from watersmeet.aggregates.sampling.signs import related

RISING = np.arange(20.0)


@pytest.mark.parametrize("alike", [np.full(20, 7.0), np.full(20, np.nan)], ids=["equal", "nan"])
def test_blocks_that_are_all_alike_follow_nothing(alike: np.ndarray) -> None:
    """Spark writes no least and greatest value for a column with NaN: all blocks have NaN there."""
    assert related(alike, RISING) == related(RISING, alike) == 0.0


def test_blocks_whose_values_rise_together_do() -> None:
    assert related(RISING, np.exp(RISING)) == pytest.approx(1.0)
    assert related(RISING, -RISING) == pytest.approx(-1.0)
