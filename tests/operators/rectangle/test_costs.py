"""The cost models give the paper's numbers."""

from __future__ import annotations

import pytest

from watersmeet.operators.rectangle import costs
from watersmeet.operators.rectangle.costs import Setting

# Table 2's condition: F = 1.2 and all times equal. Inputs of different size, to tell them apart.
SETTING = Setting(left=1000, right=2000, memory=90, fudge=1.2)
C = 1000 * 2000 * 90 / (3000**2 * 1.2)


def test_the_unit_is_the_papers_c() -> None:
    a, b = SETTING.block
    assert a + b == pytest.approx(90 / 1.2)
    assert a / b == pytest.approx(1000 / 2000)
    assert SETTING.unit == pytest.approx(C)


def test_table_2() -> None:
    assert costs.symmetric_rate(SETTING) == pytest.approx(C)
    assert costs.hash_ripple_rate(SETTING) == pytest.approx(0.5 * C)
    assert costs.sms_rate(SETTING) == pytest.approx(0.6 * C)
    assert costs.dbo_rate(SETTING) == pytest.approx(1.2 * C)
    ripple = [costs.ripple_rate(SETTING, k) / C for k in range(1, 6)]
    assert [round(rate, 2) for rate in ripple] == [1.0, 1.25, 1.40, 1.50, 1.57]
    assert ripple == pytest.approx([(2 * k + 1) / (k + 2) for k in range(1, 6)])
    pr = [costs.pr_rate(SETTING, j) / C for j in range(1, 6)]
    assert [round(rate, 1) for rate in pr] == [1.0, 1.7, 3.2, 6.2, 12.2]
    assert pr == pytest.approx([2 ** (j - 1) * 3 / (4 - 2 ** (1 - j)) for j in range(1, 6)])


def test_times_count_where_they_are_spent() -> None:
    uneven = Setting(1000, 2000, 90, read_input=2.0, write=3.0, read=5.0)
    assert costs.symmetric_rate(uneven) == pytest.approx(C / 2)
    assert costs.ripple_rate(uneven, 4) == pytest.approx(C * 9 / (2 + 3 + 4 * 5))
    assert costs.hash_ripple_rate(uneven) == pytest.approx(C / 5)
    assert costs.sms_rate(uneven) == pytest.approx(1.2 * C / 5)
    assert costs.join_phase_rate(uneven) == pytest.approx(1000 * 2000 / 3000 / 5)
    assert costs.magic_rate(uneven, mu=4, nu=0.5) == pytest.approx(C * 5 / (0.5 * 10 + 5))
    assert costs.pr_rate(uneven, 3) == pytest.approx(C * 4 * 3 / (10 + 0.75 * 5))


def test_a_ripple_that_reads_no_new_rows_back_is_block_ripple() -> None:
    """The paper's remark below eq. 9."""
    for k in (1, 3, 7):
        seconds = 1 / k * (1 + 1) + 1
        assert costs.ripple_rate(SETTING, k) == pytest.approx(
            costs.magic_rate(SETTING, mu=k, nu=1 / k) * (seconds + 1 / k) / seconds
        )


def test_later_partitions_of_a_step_have_grown_further() -> None:
    assert costs.pr_step(1, gamma=1.0, place=0.5) == pytest.approx((1, 2**1.5 - 1))
    assert costs.pr_step(3, gamma=2.0, place=0.25) == pytest.approx((3**2.25, 2.0))
    for step in (1, 2, 5):
        rates = [costs.pr_rate(SETTING, step, place=place) for place in (0.0, 0.3, 0.9)]
        assert rates == sorted(rates)


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
