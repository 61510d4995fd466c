"""Arrival processes: the stated waiting times with the stated odds, repeatable by seed."""

from __future__ import annotations

import numpy as np
import pytest

from watersmeet.errors import InvalidArgument
from watersmeet.sim import delays
from watersmeet.sim.delays import Bursts, Exponential, Fixed, Fragmented, Fragments, ZipfDelay

DELAYS = [
    Fixed(0.001),
    Exponential(0.01),
    ZipfDelay(),
    Fragments(rows=7, interval=0.001, gap=2.0),
    Bursts(rows=20, interval=0.001, quiet=0.5),
    Fragmented(Exponential(0.01), fragments=4, pause=0.2),
]


def rng(seed: int = 7) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("delay", DELAYS, ids=lambda delay: type(delay).__name__)
def test_rows_arrive_from_time_zero_on_and_in_order(delay: delays.Delay) -> None:
    arrive = delays.times(delay, 5_000, rng=rng())
    assert len(arrive) == 5_000
    assert arrive[0] == 0.0
    assert np.all(np.diff(arrive) > 0)


@pytest.mark.parametrize("delay", DELAYS, ids=lambda delay: type(delay).__name__)
def test_the_same_seed_gives_the_same_arrivals_and_another_seed_others(
    delay: delays.Delay,
) -> None:
    first = delays.times(delay, 1_000, rng=rng(1))
    assert np.array_equal(first, delays.times(delay, 1_000, rng=rng(1)))
    if not isinstance(delay, Fixed | Fragments):
        assert not np.array_equal(first, delays.times(delay, 1_000, rng=rng(2)))


def test_no_rows_and_one_row_have_no_waiting_time() -> None:
    assert delays.times(ZipfDelay(), 0, rng=rng()).tolist() == []
    assert delays.times(ZipfDelay(), 1, rng=rng()).tolist() == [0.0]


def test_zipf_waits_have_the_papers_odds() -> None:
    count = 200_000
    waits = ZipfDelay().intervals(count, rng())
    milliseconds = np.rint(waits * 1000).astype(int)
    assert milliseconds.min() == 1
    assert milliseconds.max() == 30
    expected = count * (1 / np.arange(1, 31)) / sum(1 / k for k in range(1, 31))
    seen = np.bincount(milliseconds, minlength=31)[1:]
    # Chi-square with 29 degrees of freedom exceeds 58.3 once in a thousand seeds.
    assert np.sum((seen - expected) ** 2 / expected) < 58.3


def test_the_papers_two_million_rows_take_about_fifteen_thousand_seconds() -> None:
    delay = ZipfDelay()
    mean = float(np.dot(delay.values(), delay.probabilities()))
    assert 14_000 < 2e6 * mean < 15_100
    stalls = delay.probabilities()[delay.values() > 0.025 + 1e-9].sum()
    assert stalls == pytest.approx(sum(1 / k for k in range(26, 31)) / 3.99499, rel=1e-4)


def test_exponential_waits_have_the_stated_mean_and_no_memory() -> None:
    waits = Exponential(0.01).intervals(100_000, rng())
    assert waits.mean() == pytest.approx(0.01, rel=0.02)
    assert np.mean(waits > 0.02) == pytest.approx(np.exp(-2), rel=0.05)


def test_fragments_pause_after_every_full_fragment_only() -> None:
    waits = Fragments(rows=3, interval=0.1, gap=5.0).intervals(8, rng())
    assert waits.tolist() == [0.1, 0.1, 5.0, 0.1, 0.1, 5.0, 0.1, 0.1]


def test_bursts_are_as_long_and_as_far_apart_as_stated() -> None:
    waits = Bursts(rows=20, interval=0.001, quiet=0.5).intervals(200_000, rng())
    quiet = waits[waits != 0.001]
    assert len(quiet) == pytest.approx(200_000 / 20, rel=0.05)
    assert quiet.mean() == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Fixed(0.0),
        lambda: Exponential(-1.0),
        lambda: ZipfDelay(0.02, 0.01),
        lambda: Fragments(rows=0, interval=0.1, gap=1.0),
        lambda: Bursts(rows=0.5, interval=0.1, quiet=1.0),
    ],
)
def test_a_delay_that_cannot_be_is_refused(wrong) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidArgument):
        wrong()


def test_fragments_are_followed_by_a_pause_in_proportion_to_the_time_they_took() -> None:
    arrive = delays.times(Fragmented(Fixed(0.5), fragments=3, pause=0.5), 9, rng=rng())
    # Three rows in one second; then half a second more than the usual wait.
    assert arrive.tolist() == [0.0, 0.5, 1.0, 2.0, 2.5, 3.0, 4.25, 4.75, 5.25]


def test_a_fragment_takes_as_long_as_its_own_rows() -> None:
    steady = delays.times(Exponential(0.001), 10_000, rng=rng())
    paused = delays.times(Fragmented(Exponential(0.001), 10, 0.3), 10_000, rng=rng())
    added = (paused - steady)[-1]
    assert added == pytest.approx(0.3 * steady[8_999], rel=1e-6)
    assert np.count_nonzero(np.diff(paused) > 0.1) == 9
