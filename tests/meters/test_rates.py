"""Arrival probabilities by hand: RPJ's Equations 5 and 6."""

from __future__ import annotations

import json

import numpy as np
import pytest

from watersmeet.meters.rates import ArrivalRates
from watersmeet.model import Side

L, R = Side


def rates(*, decay: float = 0.8) -> ArrivalRates:
    return ArrivalRates(2, decay=decay, time_unit=10.0)


def counts(first: int, second: int = 0) -> np.ndarray:
    return np.array([first, second], np.int64)


def test_before_a_time_unit_is_over_all_arrivals_count() -> None:
    meter = rates()
    meter.arrived(L, counts(10, 20), now=100.0)
    meter.arrived(R, counts(10, 0), now=109.9)
    assert meter.sides() == pytest.approx([0.75, 0.25])
    assert meter.probabilities() == pytest.approx(np.array([[0.25, 0.5], [0.25, 0.0]]))


def test_the_first_whole_unit_sets_what_is_recent() -> None:
    meter = rates()
    meter.arrived(L, counts(30), now=100.0)
    meter.arrived(R, counts(10), now=105.0)
    meter.arrived(R, counts(999), now=110.0)  # of the unit that has just begun
    assert meter.sides() == pytest.approx([0.75, 0.25])


def test_recent_arrivals_decay_unit_by_unit() -> None:
    """nrcnt := lambda * nrcnt + (1 - lambda) * n, with n = (30, 10), (0, 50), (20, 0)."""
    meter = rates()
    meter.arrived(L, counts(30), now=0.0)
    meter.arrived(R, counts(10), now=1.0)
    meter.arrived(R, counts(50), now=10.0)
    meter.arrived(L, counts(20), now=20.0)
    assert meter.sides() == pytest.approx([24 / 42, 18 / 42])
    meter.arrived(L, counts(1), now=30.0)
    assert meter.sides() == pytest.approx([23.2 / 37.6, 14.4 / 37.6])


def test_units_without_arrivals_decay_too() -> None:
    meter = rates(decay=0.5)
    meter.arrived(L, counts(80), now=0.0)
    meter.arrived(R, counts(8), now=40.0)  # units 1 to 3 were empty: 80 has become 10
    meter.arrived(L, counts(1), now=50.0)  # 0.5 * 10 + 0.5 * 0 and 0.5 * 0 + 0.5 * 8
    assert meter.sides() == pytest.approx([5 / 9, 4 / 9])


def test_partitions_are_weighed_by_all_rows_ever_and_sides_by_recent_ones() -> None:
    meter = rates(decay=0.0)
    meter.arrived(L, counts(90, 10), now=0.0)
    meter.arrived(R, counts(5, 15), now=10.0)
    meter.arrived(L, counts(0, 100), now=15.0)
    meter.arrived(R, counts(0, 0), now=20.0)
    # The last whole unit had 100 left and 20 right rows.
    assert meter.sides() == pytest.approx([100 / 120, 20 / 120])
    expected = np.array([[90 / 200 * 5 / 6, 110 / 200 * 5 / 6], [1 / 4 / 6, 3 / 4 / 6]])
    assert meter.probabilities() == pytest.approx(expected)
    assert meter.probabilities().sum() == pytest.approx(1.0)


def test_a_side_that_has_ended_brings_nothing_more() -> None:
    meter = rates()
    meter.arrived(L, counts(30, 10), now=0.0)
    meter.arrived(R, counts(10), now=5.0)
    meter.ended[L] = True
    assert meter.probabilities().tolist() == [[0.0, 0.0], [1.0, 0.0]]
    meter.ended[R] = True
    assert meter.probabilities().tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_a_side_that_is_silent_of_late_counts_by_its_past_when_the_other_ends() -> None:
    meter = rates(decay=0.0)
    meter.arrived(R, counts(10), now=0.0)
    meter.arrived(L, counts(10), now=10.0)
    meter.arrived(L, counts(10), now=20.0)
    assert meter.sides().tolist() == [1.0, 0.0]
    meter.ended[L] = True
    assert meter.sides().tolist() == [0.0, 1.0]


def test_nothing_is_likely_before_anything_came() -> None:
    assert not rates().probabilities().any()


def test_saved_counts_go_on_elsewhere_as_json() -> None:
    meter, other = rates(), rates()
    meter.arrived(L, counts(30, 4), now=0.0)
    meter.arrived(R, counts(50, 6), now=10.0)
    meter.arrived(L, counts(20), now=20.0)
    meter.ended[R] = True
    other.load(json.loads(json.dumps(meter.save())))
    assert other.probabilities().tolist() == meter.probabilities().tolist()
    assert other.ended == [False, True]
    # Another clock: the unit that was open begins anew, and what it had counted stays in it.
    meter.arrived(L, counts(2), now=21.0)
    other.arrived(L, counts(2), now=7000.0)
    meter.arrived(L, counts(1), now=30.0)
    other.arrived(L, counts(1), now=7010.0)
    meter.ended[R] = other.ended[R] = False
    assert other.sides().tolist() == meter.sides().tolist()


def test_a_saved_meter_is_not_changed_by_what_comes_later() -> None:
    meter = rates()
    meter.arrived(L, counts(3), now=0.0)
    saved = meter.save()
    before = json.dumps(saved)
    meter.arrived(R, counts(9), now=50.0)
    meter.ended[L] = True
    assert json.dumps(saved) == before
