"""The jackknife of a ratio from third moments equals leaving out one block at a time."""

from __future__ import annotations

import numpy as np
import pytest

from watersmeet.estimators import ClusterSample, Kind, Quantity, Totals
from watersmeet.estimators.ratios import jackknife

AVG = Quantity(Kind.AVG, 0)
ZERO = np.zeros(1, np.int64)


def totals_of(blocks: list[np.ndarray]) -> Totals:
    sample = ClusterSample(blocks=10 * len(blocks), rows=1000 * len(blocks), moments=4)
    for values in blocks:
        n, s, q = len(values), values.sum(), (values**2).sum()
        sample.add(ZERO, np.array([[n, n, s, q]], np.float64), rows=100)
    return sample.totals()


def linear(blocks: list[np.ndarray]) -> float:
    """Sum of squared residuals over the squared count, the residual sum without leverage."""
    mean = np.concatenate(blocks).mean()
    count = sum(map(len, blocks))
    return float(sum((values - mean).sum() ** 2 for values in blocks) / count**2)


def left_out(blocks: list[np.ndarray]) -> float:
    mean = np.concatenate(blocks).mean()
    return float(
        sum(
            (np.concatenate([*blocks[:number], *blocks[number + 1 :]]).mean() - mean) ** 2
            for number in range(len(blocks))
        )
    )


def test_blocks_of_few_rows() -> None:
    """One or two rows per block, as a sharp filter leaves them: within 2% of the real thing."""
    rng = np.random.default_rng(2)
    blocks = [rng.lognormal(size=rows) for rows in rng.poisson(1.0, 40)]
    totals = totals_of(blocks)
    _, form = AVG.evaluate(totals.value)
    expected = left_out(blocks) / linear(blocks) * 39 / 40
    assert expected > 1.05
    assert jackknife(form, totals).item() == pytest.approx(expected, rel=0.02)


def test_blocks_of_equal_counts() -> None:
    """Every block has the share 1/n: its removal moves the mean by e / (1 - 1/n), exactly."""
    rng = np.random.default_rng(3)
    blocks = [rng.lognormal(size=5) for _ in range(20)]
    totals = totals_of(blocks)
    _, form = AVG.evaluate(totals.value)
    assert left_out(blocks) / linear(blocks) == pytest.approx((20 / 19) ** 2)
    assert jackknife(form, totals).item() == pytest.approx(20 / 19)


def test_nothing_varies() -> None:
    totals = totals_of([np.ones(3)] * 20)
    _, form = AVG.evaluate(totals.value)
    assert jackknife(form, totals).item() == 1
