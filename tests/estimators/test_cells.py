"""What a user reads: values, intervals that keep their promises, and reasons for doubt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from watersmeet.estimators import (
    Cells,
    ClusterSample,
    Evidence,
    Kind,
    OrderCheck,
    PartitionedSample,
    Quantity,
    RippleSample,
    TailSketch,
    cells,
)
from watersmeet.estimators.unread import Unread
from watersmeet.model import Side

ALL = [Quantity(Kind.COUNT), *(Quantity(kind, 0) for kind in Kind)]
COUNT, SUM, AVG, STDDEV = 0, 2, 3, 6
CENTRE = 10.0


class Blocks:
    """A population of blocks of one group, from the values of their matching rows."""

    def __init__(self, values: list[NDArray[np.float64]], *, rows: int = 100) -> None:
        self.values = values
        self.rows = rows

    def read(self, count: int, **options: Any) -> Cells:
        sample = ClusterSample(
            blocks=len(self.values), rows=self.rows * len(self.values), moments=4
        )
        evidence = Evidence(expressions=1)
        # The group is there even before a row of it is.
        evidence.add(np.zeros(1, np.int64), pairs=np.zeros(1), left_rows=np.zeros(1))
        for values in self.values[:count]:
            shifted = values - CENTRE
            n = float(len(values))
            totals = np.array([[n, n, shifted.sum(), (shifted**2).sum()]])
            sample.add(np.zeros(1, np.int64), totals, rows=self.rows)
            if n:
                evidence.add(
                    np.zeros(1, np.int64),
                    pairs=np.array([n]),
                    left_rows=np.array([n]),
                    least=values.min().reshape(1, 1),
                    most=values.max().reshape(1, 1),
                )
        return cells(sample.totals(), evidence, ALL, centres=[CENTRE], **options)


def normal(blocks: int, seed: int = 0, *, rows: int = 60) -> Blocks:
    rng = np.random.default_rng(seed)
    return Blocks([rng.normal(10, 2, rng.poisson(rows)) for _ in range(blocks)])


def test_all_read_is_exact_and_trusted() -> None:
    population = normal(7)
    every = np.concatenate(population.values)
    result = population.read(7)
    expected = [len(every), len(every), every.sum(), every.mean()]
    expected += [every.var(ddof=1), every.var(), every.std(ddof=1), every.std()]
    np.testing.assert_allclose(result.value[:, 0], expected)
    np.testing.assert_array_equal(result.low, result.value)
    np.testing.assert_array_equal(result.high, result.value)
    assert not result.relative.any()
    assert result.exact.all()
    assert result.trusted.all()
    assert (result.reason == "").all()


def test_enough_blocks_are_trusted() -> None:
    result = normal(100).read(40)
    assert result.trusted.all(), result.reason
    assert not result.exact.any()
    assert (result.low < result.value).all()
    assert (result.value < result.high).all()
    np.testing.assert_allclose(
        result.relative, (result.high - result.low) / 2 / result.value, rtol=1e-12
    )


def test_few_blocks_are_said_to_be_few() -> None:
    result = normal(480).read(12)
    assert (result.reason == "only 12 blocks of 480 were read, 20 are needed").all()
    assert not result.trusted.any()


def test_one_block_has_no_interval() -> None:
    result = normal(480).read(1)
    assert np.isinf(result.high).all()
    assert not result.trusted.any()
    # What was seen is certain all the same.
    assert result.low[COUNT, 0] == result.value[COUNT, 0] / 480


def test_more_statements_and_more_looks_widen() -> None:
    population = normal(100)
    once = population.read(40).relative
    for options in ({"statements": 10}, {"looks": 7}, {"looks": None}, {"confidence": 0.99}):
        assert (population.read(40, **options).relative > 1.05 * once).all()


def test_ends_are_never_below_what_was_seen() -> None:
    """Wildly different blocks: Student's lower end alone would be negative."""
    rng = np.random.default_rng(1)
    population = Blocks([rng.uniform(9, 11, size) for size in [400, 1, 1, 1] + [1] * 26])
    seen = sum(values.sum() for values in population.values[:25])
    result = population.read(25)
    assert result.low[COUNT, 0] >= 424
    assert result.low[SUM, 0] >= seen * (1 - 1e-12)
    assert "few blocks hold most" in result.reason[COUNT, 0]


def test_sums_of_both_signs_may_be_negative() -> None:
    rng = np.random.default_rng(2)
    population = Blocks([rng.normal(0, 5, 50) for _ in range(100)])
    assert population.read(30).low[SUM, 0] < 0
    # The footers say that no value is negative: then the sum seen is a lower end.
    bounded = population.read(30, bounds=[(0.0, 20.0)])
    assert bounded.low[SUM, 0] >= sum(values.sum() for values in population.values[:30]) - 1e-9


def test_no_match_yet() -> None:
    """The rule of three: 3.69 / p rows may still be there."""
    population = Blocks([np.zeros(0)] * 100)
    result = population.read(40)
    assert result.value[COUNT, 0] == result.low[COUNT, 0] == 0
    assert result.high[COUNT, 0] == pytest.approx(3.689 / 0.4, rel=1e-3)
    assert np.isinf(result.high[SUM, 0])
    assert np.isnan(result.value[AVG, 0])
    assert np.isnan(result.value[STDDEV, 0])
    assert not result.trusted.any()
    assert (result.reason == "no matching row so far").all()
    bounded = population.read(40, bounds=[(-2.0, 5.0)])
    assert bounded.high[SUM, 0] == pytest.approx(5 * 3.689 / 0.4, rel=1e-3)
    assert bounded.low[SUM, 0] == pytest.approx(-2 * 3.689 / 0.4, rel=1e-3)


def test_a_group_without_totals_has_a_cell() -> None:
    """Nothing has matched in any block, so no block names the group; evidence knows of it."""
    sample = ClusterSample(blocks=100, rows=10_000, moments=4)
    for _ in range(40):
        sample.add(np.zeros(0, np.int64), np.zeros((0, 4)), rows=100)
    evidence = Evidence(expressions=1)
    evidence.add(np.zeros(1, np.int64), pairs=np.zeros(1))
    result = cells(sample.totals(), evidence, ALL, centres=[CENTRE])
    expected = Blocks([np.zeros(0)] * 100).read(40)
    np.testing.assert_array_equal(result.high, expected.high)
    np.testing.assert_array_equal(result.reason, expected.reason)


@pytest.mark.parametrize("read", [0, 1])
@pytest.mark.parametrize("design", ["cluster", "ripple", "rows"])
def test_nothing_or_one_unit_read_is_no_interval_and_no_error(design: str, read: int) -> None:
    totals = np.array([[2.0, 2.0, 1.0, 3.0]])
    zero = np.zeros(1, np.int64)
    sample: ClusterSample | RippleSample | PartitionedSample
    if design == "cluster":
        sample = ClusterSample(blocks=9, rows=90, moments=4)
        for _ in range(read):
            sample.add(zero, totals, rows=10)
    elif design == "ripple":
        sample = RippleSample(blocks=(9, 9), rows=(90, 90), moments=4)
        for side in Side if read else ():
            sample.read(side, 0, rows=10)
        if read:
            sample.add(zero, zero, zero, totals)
    else:
        sample = PartitionedSample(partitions=1, rows=(9, 9), moments=4)
        if read:
            sample.observe(0, zero, right_numbers=zero, groups=zero, values=totals)
        sample.joined(0, read=(read, read))
    evidence = Evidence(expressions=1)
    evidence.add(zero, pairs=np.array([2.0 * read]))
    result = cells(sample.totals(), evidence, ALL, centres=[CENTRE])
    assert not result.trusted.any()
    assert not (np.isfinite(result.low) & np.isfinite(result.high)).any()


def test_few_rows_get_the_gamma_interval() -> None:
    """Twelve rows in twelve of 400 blocks, scaled up twelve times: nearly Jeffreys's limits.

    The variance is that of a share of blocks rather than Poisson's, 11% less.
    """
    few = Blocks([np.array([10.0])] * 12 + [np.zeros(0)] * 4788).read(400)
    assert few.value[COUNT, 0] == 12 * 12
    np.testing.assert_allclose(
        [few.low[COUNT, 0], few.high[COUNT, 0]], [12 * 6.56, 12 * 20.32], rtol=0.06
    )
    assert few.high[COUNT, 0] - 144 > 1.2 * (144 - few.low[COUNT, 0])


def test_few_rows_are_said_to_be_few() -> None:
    rng = np.random.default_rng(3)
    population = Blocks([rng.normal(10, 1, int(number < 7)) for number in range(100)])
    result = population.read(50)
    assert result.reason[AVG, 0] == "only 7 matching rows so far"
    three = Blocks([rng.normal(10, 1, int(number < 3)) for number in range(100)]).read(50)
    assert three.reason[COUNT, 0] == "only 3 matching rows so far"


def test_a_hot_block_is_doubted() -> None:
    population = normal(100)
    population.values[5] = np.full(5000, 10.0)
    result = population.read(40)
    for kind in (COUNT, SUM, AVG):
        assert "a few blocks hold most of the spread" in result.reason[kind, 0]


def hot_rows(every: int, *, partners: int) -> tuple[Blocks, TailSketch]:
    """Of one row in so many, as many copies: a join repeats a row for each of its partners."""
    rng = np.random.default_rng(8)
    sketch = TailSketch(centre=CENTRE)
    blocks = []
    for _ in range(200):
        values = rng.exponential(10, 50)
        sketch.add(values)
        times = np.where(rng.random(50) < 1 / every, partners, 1)
        blocks.append(np.repeat(values, times))
    return Blocks(blocks, rows=50), sketch


def test_few_rows_with_many_partners_show_their_number_and_not_their_values() -> None:
    unread = Unread(bounds=(0.0, 150.0), rows=50.0, partners=(60, 60))
    population, sketch = hot_rows(150, partners=60)  # some 30 in the blocks that are read
    result = population.read(90, tails=[sketch], unread=[unread, unread])
    assert result.trusted[COUNT, 0]
    for kind in (AVG, STDDEV):
        assert "60 partners and a value far off" in result.reason[kind, 0]
    # Where a row in ten has as many, one of them is like another.
    population, sketch = hot_rows(10, partners=60)
    result = population.read(90, tails=[sketch], unread=[unread, unread])
    assert result.trusted[[COUNT, SUM, AVG], 0].all()
    assert "far off" not in result.reason[STDDEV, 0]


def test_heavy_tails_are_doubted_for_values_and_not_for_counts() -> None:
    rng = np.random.default_rng(4)
    sketch = TailSketch()
    sketch.add(rng.pareto(1.5, 3000) + 1)
    result = normal(100).read(40, tails=[sketch])
    assert result.trusted[COUNT, 0]
    for kind in (SUM, AVG, STDDEV):
        assert "heavy tail" in result.reason[kind, 0]


def test_an_order_that_is_not_random_is_doubted() -> None:
    layout = OrderCheck.tested((np.arange(40), 400))
    assert "no random sample" in layout.objection
    result = normal(100).read(40, layout=layout)
    assert (result.reason == layout.objection).all()
    assert not OrderCheck.tested((np.arange(0, 400, 10), 400)).objection


def test_spread_of_few_skewed_values_is_doubted() -> None:
    rng = np.random.default_rng(5)
    population = Blocks([rng.lognormal(2, 1.0, 5) for _ in range(100)])
    result = population.read(30)
    assert not result.trusted[STDDEV, 0]
    assert result.low[STDDEV, 0] > 0


def test_values_far_from_the_centre_cost_no_digits() -> None:
    """Same spread, moved far off: the interval of the average moves with it.

    At a million nothing is left of third moments, and the interval is Student's.
    """
    rng = np.random.default_rng(6)
    values = [rng.normal(10, 2, 50) for _ in range(60)]
    near = Blocks(values).read(30)
    for distance, tolerance in ((1e3, 1e-5), (1e6, 0.02)):
        far = Blocks([some + distance for some in values]).read(30)
        for end in ("value", "low", "high"):
            moved = getattr(far, end)[AVG, 0] - distance
            assert moved == pytest.approx(getattr(near, end)[AVG, 0], abs=tolerance)


def test_every_group_is_judged_for_itself() -> None:
    """Group 0 is everywhere, group 1 came late and has two rows."""
    rng = np.random.default_rng(7)
    sample = ClusterSample(blocks=100, rows=10_000, moments=1)
    evidence = Evidence()
    for number in range(40):
        groups = np.array([0, 1] if number in (30, 35) else [0])
        pairs = np.array([50.0 + rng.integers(10), 1.0])[: len(groups)]
        sample.add(groups, pairs[:, None], rows=100)
        evidence.add(groups, pairs=pairs, left_rows=pairs)
    result = cells(sample.totals(), evidence, [Quantity(Kind.COUNT)])
    assert result.trusted[0].tolist() == [True, False]
    assert result.reason[0, 1] == "only 2 matching rows so far"
    assert result.value[0, 1] == 5
    assert result.high[0, 1] > 10


def test_totals_of_inputs_of_unknown_size_are_null() -> None:
    rng = np.random.default_rng(8)
    sample = PartitionedSample(partitions=1, rows=(None, 400), moments=4)
    keys = rng.integers(0, 50, 300), rng.integers(0, 50, 200)
    left, right = np.nonzero(keys[0][:, None] == keys[1])
    x = rng.normal(10, 2, 300)[left] - CENTRE
    values = np.stack([np.ones_like(x), np.ones_like(x), x, x**2], axis=1)
    group = np.zeros(len(left), np.int64)
    sample.observe(0, left, right_numbers=right, groups=group, values=values)
    sample.joined(0, read=(300, 200))
    evidence = Evidence(expressions=1)
    evidence.add(group, pairs=np.ones(len(left)), least=x[:, None], most=x[:, None])
    result = cells(sample.totals(), evidence, ALL, centres=[CENTRE])
    assert np.isnan(result.value[[COUNT, SUM], 0]).all()
    assert np.isnan(result.high[[COUNT, SUM], 0]).all()
    assert "unknown" in result.reason[COUNT, 0]
    assert result.low[AVG, 0] < 10 < result.high[AVG, 0]
    assert result.trusted[AVG, 0], result.reason[AVG, 0]


def test_a_tiny_two_sided_sample_never_has_a_negative_variance() -> None:
    """Values of both signs at two blocks a side: the floor keeps every interval open."""
    rng = np.random.default_rng(9)
    for _ in range(200):
        sample = RippleSample(blocks=(9, 9), rows=(90, 90), moments=4)
        for side in Side:
            for block in range(2):
                sample.read(side, block, rows=10)
        totals = rng.normal(0, 3, (4, 4))
        totals[:, :2] = 1
        b, c = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
        sample.add(b, c, np.zeros(4, np.int64), totals)
        evidence = Evidence(expressions=1)
        evidence.add(np.zeros(1, np.int64), pairs=np.array([4.0]), least=np.full((1, 1), -1.0))
        result = cells(sample.totals(), evidence, [Quantity(Kind.SUM, 0)], centres=[0.0])
        assert result.low[0, 0] < result.value[0, 0] < result.high[0, 0]


def test_evidence_merges() -> None:
    one, two, both = (Evidence(expressions=1) for _ in range(3))
    parts = [
        (
            np.array([0, 2]),
            np.array([3.0, 1.0]),
            np.array([[1.0], [np.nan]]),
            np.array([[4.0], [2.0]]),
        ),
        (
            np.array([2, 1, 2]),
            np.array([5.0, 2.0, 1.0]),
            np.array([[-1.0], [0.0], [7.0]]),
            np.array([[9.0], [0.0], [8.0]]),
        ),
    ]
    for evidence, part in ((one, parts[0]), (two, parts[1]), (both, parts[0]), (both, parts[1])):
        groups, pairs, least, most = part
        evidence.add(groups, pairs=pairs, right_rows=pairs / 2, least=least, most=most)
    two += one
    assert both.rows(3).tolist() == two.rows(3).tolist() == [1.5, 1.0, 3.5]
    assert both.pairs(3).tolist() == two.pairs(3).tolist() == [3.0, 2.0, 7.0]
    assert both.least(3).ravel().tolist() == two.least(3).ravel().tolist() == [1.0, 0.0, -1.0]
    assert both.most(3).ravel().tolist() == two.most(3).ravel().tolist() == [4.0, 0.0, 9.0]
