"""SSBJ's cost model: memory, rows of a cycle and rates follow from each other."""

from __future__ import annotations

import numpy as np
import pytest

from watersmeet.policies.service import (
    Balance,
    Demand,
    Popularity,
    ServiceCosts,
    ServiceModel,
    ServiceSizes,
    poisson,
)

SIZES = ServiceSizes(waiting=50, cached=120, entry=30)
COSTS = ServiceCosts(
    read=1e-9, find=50e-9, collect=10e-9, arrive=20e-9, look_up=10e-9, append=80e-9,
    expire=10e-9, output=100e-9, serve=30e-9,
)  # fmt: skip


def model(*, caches: bool = True, exponent: float = 1.0, waits: float = 1.0) -> ServiceModel:
    demand = Demand(Popularity.zipf(100_000, exponent), SIZES, waits=waits, caches=caches)
    return ServiceModel(COSTS, demand, 100_000, 12_000_000, 1.0)


def test_without_a_cache_every_row_waits() -> None:
    balance = model(caches=False).demand.in_memory(5_000_000)
    assert balance.rows == pytest.approx(100_000, rel=1e-6)
    assert balance.waiting == pytest.approx(balance.rows)
    assert balance.cached == 0


def test_values_are_cached_exactly_if_that_takes_less_memory() -> None:
    """Two values: 40 of 100 rows, and 60 values with one row each. An entry takes 150 bytes."""
    popularity = Popularity(np.array([1.0, 60.0]), np.array([0.4, 0.01]), np.ones(2))
    balance = Demand(popularity, SIZES).balance(100)
    assert balance.cached == pytest.approx(0.4)
    assert balance.cache_bytes == 150
    assert balance.memory == pytest.approx(150 + 60 * 50)
    assert Demand(popularity, SIZES).balance(5).cached == 0, "two rows of 50 bytes cost less"


def test_values_without_master_rows_cost_an_entry() -> None:
    popularity = Popularity(np.array([1.0]), np.array([1.0]), np.zeros(1))
    assert Demand(popularity, SIZES).balance(10).memory == SIZES.entry


def test_groups_of_values_are_as_good_as_single_ones() -> None:
    exact = np.arange(1, 100_001) ** -1.0
    exact /= exact.sum()
    single = Popularity(np.ones(100_000), exact, np.ones(100_000))
    for rows in (1e4, 1e5, 1e6):
        groups, all_of_them = (
            Demand(each, SIZES).balance(rows) for each in (Popularity.zipf(100_000, 1.0), single)
        )
        assert groups.memory == pytest.approx(all_of_them.memory, rel=0.01)
        assert groups.cached == pytest.approx(all_of_them.cached, abs=0.01)


def test_rows_at_random_with_repetition_leave_a_third_of_the_values_without() -> None:
    parts = poisson(1.0)
    assert parts[:3] == pytest.approx([1 / np.e, 1 / np.e, 0.5 / np.e])
    assert parts.sum() == pytest.approx(1)
    assert Popularity.zipf(1000, 1.0, rows=parts).results == pytest.approx(1, rel=1e-6)


def test_memory_and_rate_lead_back_to_each_other() -> None:
    for each in (model(), model(caches=False), model(exponent=0.0), model(waits=0.5)):
        service = each.in_memory(2_000_000)
        assert service.balance.memory == pytest.approx(2_000_000, rel=0.01)
        back = each.at_rate(service.rate)
        assert back is not None
        assert back.balance.memory == pytest.approx(2_000_000, rel=0.02)
        assert back.cycle_seconds == pytest.approx(service.cycle_seconds, rel=0.02)


def test_a_cycle_costs_what_equation_2_says() -> None:
    balance = Balance(rows=1000, waiting=400, cached=0.6, cache_bytes=0, memory=0)
    waited, served = 400 * (80 + 10 + 100), 600 * 30
    expected = 12_000_000 * 1 + 100_000 * 60 + 1000 * 30 + waited + served
    assert model().cycle_seconds(balance) == pytest.approx(expected * 1e-9)


def test_with_memory_for_all_of_it_nothing_is_read() -> None:
    service = model().in_memory(100_000 * 150 + 1)
    assert service.cycle_seconds == 0
    assert service.balance.cached == pytest.approx(1)
    assert service.rate == pytest.approx(1 / 60e-9)


def test_no_memory_is_enough_for_more_than_the_processor_can() -> None:
    assert model(caches=False).at_rate(1e7) is None
    whole = model().at_rate(1.5e7)
    assert whole is not None
    assert whole.balance.memory == pytest.approx(100_000 * 150)
    assert model().at_rate(2e7) is None


def test_half_the_waiting_is_twice_the_rows() -> None:
    once, half = (model(waits=waits).demand.in_memory(10**6).rows for waits in (1.0, 0.5))
    assert half == pytest.approx(2 * once, rel=1e-6)


def test_values_that_came_once_stand_for_those_that_did_not_come() -> None:
    popularity = Popularity.observed(np.array([5, 1, 1, 1, 1, 1]), distinct=101, rows=1.0)
    assert popularity.values.tolist() == [1, 100]
    assert popularity.shares == pytest.approx([0.5, 0.005])


def test_values_that_came_twice_by_chance_are_not_taken_for_frequent_ones() -> None:
    """All of 100,000 values are equally likely, and two rows of ten have one that came again."""
    drawn = np.random.default_rng(1).integers(0, 100_000, 20_000)
    _, counts = np.unique(drawn, return_counts=True)
    assert counts[counts > 1].sum() > 0.15 * len(drawn)
    popularity = Popularity.observed(counts, distinct=100_000, rows=1.0)
    assert (popularity.values * popularity.shares).sum() == pytest.approx(1)
    often = popularity.shares > 5 / 100_000
    assert (popularity.values * popularity.shares)[often].sum() < 0.03


def test_a_sample_of_skewed_values_tells_what_the_cache_will_serve() -> None:
    exact = Popularity.zipf(100_000, 1.0)
    parts = np.arange(1, 100_001) ** -1.0
    drawn = np.random.default_rng(1).choice(100_000, 50_000, p=parts / parts.sum())
    _, counts = np.unique(drawn, return_counts=True)
    sampled = Popularity.observed(counts, distinct=100_000, rows=1.0)
    for rows in (1e4, 1e5):
        expected, told = (Demand(each, SIZES).balance(rows) for each in (exact, sampled))
        assert told.cached == pytest.approx(expected.cached, abs=0.04)
