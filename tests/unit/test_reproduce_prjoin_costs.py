"""The cost models give the paper's numbers."""

from __future__ import annotations

import pytest

from watersmeet.reproduce.prjoin import costs
from watersmeet.reproduce.prjoin.costs import Setting

# F = 1.2 and all times equal. Inputs of different size, to tell them apart.
SETTING = Setting(left=1000, right=2000, memory=90, fudge=1.2)


def test_memory_is_shared_by_size() -> None:
    a, b = SETTING.block
    assert a + b == pytest.approx(90 / 1.2)
    assert a / b == pytest.approx(1000 / 2000)


def test_totals() -> None:
    assert costs.grace_total(SETTING) == pytest.approx(3 * 3000)
    assert costs.sms_total(SETTING) == pytest.approx(3 * 3000)
    blocks = 3000 * 1.2 / 90
    assert SETTING.blocks == pytest.approx(blocks) == 40
    steps = sum(75 * (1 + 1 + k) for k in range(1, 40))
    assert costs.ripple_total(SETTING) == pytest.approx(75 + steps)
    assert costs.hash_ripple_total(SETTING) == pytest.approx(3000 + 2 * (3000 - 50))
    assert costs.pr_total_bound(SETTING) == pytest.approx(4 * 3000)
    assert costs.pr_total_bound(SETTING, gamma=0.5) == pytest.approx(5 * 3000)
    assert costs.pr_total_bound(SETTING, gamma=1e9) == pytest.approx(costs.grace_total(SETTING))
