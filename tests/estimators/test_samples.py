"""Merging, completeness and agreement between the sampling designs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from watersmeet.errors import InvalidArgument
from watersmeet.estimators import (
    ClusterSample,
    PartitionedSample,
    RippleSample,
    Totals,
    take_all,
)
from watersmeet.estimators.moments import packed
from watersmeet.estimators.rows import PairSums, row_totals
from watersmeet.estimators.totals import Reading
from watersmeet.model import Side

Block = tuple[NDArray[np.int64], NDArray[np.float64], int]


def blocks(count: int, seed: int, *, groups: int = 3) -> list[Block]:
    """Blocks of unequal size, each with some of the groups."""
    rng = np.random.default_rng(seed)
    result = []
    for _ in range(count):
        named = np.flatnonzero(rng.random(groups) < 0.7)
        result.append((named, rng.normal(5, 3, (len(named), 4)), int(rng.integers(1, 50))))
    return result


def sample_of(some: list[Block], *, of: list[Block]) -> ClusterSample:
    sample = ClusterSample(blocks=len(of), rows=sum(rows for *_, rows in of), moments=4)
    for groups, totals, rows in some:
        sample.add(groups, totals, rows=rows)
    return sample


def assert_equal(one: Totals, two: Totals) -> None:
    groups = max(one.groups, two.groups)
    for name in ("value", "covariance", "seen"):
        left, right = getattr(one, name), getattr(two, name)
        padded = [np.zeros((groups, left.shape[1])) for _ in range(2)]
        padded[0][: len(left)], padded[1][: len(right)] = left, right
        scale = np.abs(padded[0]).max(initial=0) + 1e-30
        np.testing.assert_allclose(padded[0] / scale, padded[1] / scale, atol=1e-9)
    assert one.exact == two.exact
    assert one.degrees == two.degrees


def dense(some: list[Block], groups: int = 3) -> NDArray[np.float64]:
    totals = np.zeros((len(some), groups, 4))
    for number, (named, values, _) in enumerate(some):
        totals[number, named] = values
    return totals


def test_ratio_to_rows_as_written_in_textbooks() -> None:
    every = blocks(9, seed=0)
    drawn = every[:4]
    totals = sample_of(drawn, of=every).totals()
    y = dense(drawn)
    rows = np.array([r for *_, r in drawn], float)
    whole = sum(r for *_, r in every)
    np.testing.assert_allclose(totals.value, y.sum(axis=0) * whole / rows.sum())
    e = y - y.sum(axis=0) / rows.sum() * rows[:, None, None]
    first, second = packed(4, 2).T
    squares = (e[..., first] * e[..., second]).sum(axis=0)
    expected = (whole / rows.sum()) ** 2 * (1 - 4 / 9) * 4 / 3 * squares
    np.testing.assert_allclose(totals.covariance, expected, rtol=1e-8, atol=1e-6)
    i, j, k = packed(4, 3).T
    cubes = (e[..., i] * e[..., j] * e[..., k]).sum(axis=0)
    np.testing.assert_allclose(totals.shapes[0].third, cubes, rtol=1e-8, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10_000),
    st.lists(st.integers(0, 2), min_size=2, max_size=12),
    st.randoms(use_true_random=False),
)
def test_blocks_merge_in_any_order(seed: int, owners: list[int], random: object) -> None:
    every = blocks(len(owners) + 1, seed)
    some = list(zip(every, owners, strict=False))
    whole = sample_of([block for block, _ in some], of=every)
    random.shuffle(some)  # type: ignore[attr-defined]
    merged = sample_of([], of=every)
    for owner in (2, 0, 1):
        merged += sample_of([block for block, o in some if o == owner], of=every)
    assert_equal(whole.totals(), merged.totals())


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 8))
def test_all_blocks_read_leaves_exactly_nothing(seed: int, count: int) -> None:
    every = blocks(count, seed)
    totals = sample_of(every, of=every).totals()
    assert totals.exact
    assert not totals.covariance.any()
    np.testing.assert_allclose(totals.value, dense(every).sum(axis=0)[: totals.groups])


def test_blocks_are_counted_not_rows_when_these_are_unknown() -> None:
    sample = ClusterSample(blocks=10, rows=None, moments=1)
    for total, rows in ((4.0, 1), (8.0, 99)):
        sample.add(np.array([0]), np.array([[total]]), rows=rows)
    totals = sample.totals()
    assert totals.value.item() == 60
    # 10^2 (1 - 2/10) s^2 / 2 with s^2 = 8
    assert totals.covariance.item() == pytest.approx(320)


def test_a_group_named_twice_in_a_block_is_one_contribution() -> None:
    twice, once = (ClusterSample(blocks=9, rows=90, moments=1) for _ in range(2))
    twice.add(np.array([1, 0, 1]), np.array([[2.0], [7.0], [3.0]]), rows=10)
    once.add(np.array([0, 1]), np.array([[7.0], [5.0]]), rows=10)
    for sample in (twice, once):
        sample.add(np.array([0]), np.array([[1.0]]), rows=10)
    assert_equal(twice.totals(), once.totals())


def test_more_blocks_than_there_are_is_an_error() -> None:
    every = blocks(2, seed=1)
    sample = sample_of(every, of=every)
    with pytest.raises(InvalidArgument, match="All 2 blocks"):
        sample.add(*every[0][:2], rows=1)


def test_one_block_has_no_variance_to_show() -> None:
    totals = sample_of(blocks(5, seed=1)[:1], of=blocks(5, seed=1)).totals()
    assert not np.isfinite(totals.covariance).all()
    assert totals.degrees == 0


class Grid:
    """Both sides in blocks of unequal size, every pair of blocks with some groups."""

    def __init__(self, seed: int, shape: tuple[int, int] = (6, 5)) -> None:
        rng = np.random.default_rng(seed)
        self.shape = shape
        self.totals = rng.normal(2, 3, (*shape, 2, 4)) * (rng.random((*shape, 2, 1)) < 0.5)
        self.rows = tuple(rng.integers(5, 40, count) for count in shape)

    def sample(self, left: int, right: int, *, groups: tuple[int, ...] = (0, 1)) -> RippleSample:
        sample = RippleSample(
            blocks=self.shape,
            rows=(int(self.rows[0].sum()), int(self.rows[1].sum())),
            moments=4,
        )
        for side, count in ((Side.LEFT, left), (Side.RIGHT, right)):
            for block in range(count):
                sample.read(side, block, rows=int(self.rows[side][block]))
        # One row of pairs after the other, as a ripple grows.
        for b in range(left):
            for g in groups:
                c = np.flatnonzero(self.totals[b, :right, g].any(axis=1))
                sample.add(np.full(len(c), b), c, np.full(len(c), g), self.totals[b, c, g])
        return sample


@pytest.mark.parametrize("complete", list(Side))
def test_a_ripple_with_one_side_complete_is_a_cluster_sample(complete: Side) -> None:
    grid = Grid(seed=3)
    counts = [4, 4]
    counts[complete] = grid.shape[complete]
    ripple = grid.sample(*counts).totals()
    sampled = complete.other
    cluster = ClusterSample(
        blocks=grid.shape[sampled], rows=int(grid.rows[sampled].sum()), moments=4
    )
    for block in range(4):
        totals = np.take(grid.totals, block, axis=sampled).sum(axis=0)
        cluster.add(np.arange(2), totals, rows=int(grid.rows[sampled][block]))
    assert_equal(ripple, cluster.totals())


def test_interaction_of_unequal_blocks_is_the_sum_over_pairs() -> None:
    grid = Grid(seed=4)
    n, m = 4, 3
    totals = grid.sample(n, m).totals()
    t = grid.totals[:n, :m]
    r, s = (
        grid.rows[side][:count] / grid.rows[side][:count].sum() for side, count in ((0, n), (1, m))
    )
    a, b, all_ = t.sum(axis=1), t.sum(axis=0), t.sum(axis=(0, 1))
    left = a - r[:, None, None] * all_
    right = b - s[:, None, None] * all_
    pairs = (
        t
        - a[:, None] * s[None, :, None, None]
        - b[None] * r[:, None, None, None]
        + all_ * (r[:, None] * s)[..., None, None]
    )
    first, second = packed(4, 2).T

    def squares(e: NDArray[np.float64], axis: tuple[int, ...]) -> NDArray[np.float64]:
        return np.asarray((e[..., first] * e[..., second]).sum(axis=axis))

    scale = np.prod([grid.rows[i].sum() / grid.rows[i][:k].sum() for i, k in ((0, n), (1, m))])
    share = [(1 - k / of) * k / (k - 1) for k, of in zip((n, m), grid.shape, strict=True)]
    classic = scale**2 * (share[0] * squares(left, (0,)) + share[1] * squares(right, (0,)))
    expected = classic - scale**2 * share[0] * share[1] * squares(pairs, (0, 1))
    np.testing.assert_allclose(totals.covariance, expected, rtol=1e-8, atol=1e-6)
    assert totals.floor is not None
    np.testing.assert_allclose(totals.floor, classic / 2, rtol=1e-8, atol=1e-6)


def test_parts_of_a_ripple_merge() -> None:
    grid = Grid(seed=5)
    merged = grid.sample(4, 3, groups=(1,))
    merged += grid.sample(4, 3, groups=(0,))
    assert_equal(grid.sample(4, 3).totals(), merged.totals())


def test_a_complete_ripple_is_exact() -> None:
    grid = Grid(seed=6)
    totals = grid.sample(*grid.shape).totals()
    assert totals.exact
    assert not totals.covariance.any()
    np.testing.assert_allclose(totals.value, grid.totals.sum(axis=(0, 1)))


def test_a_pair_of_blocks_needs_both_to_be_read() -> None:
    sample = RippleSample(blocks=(2, 2), rows=(None, None), moments=1)
    sample.read(Side.LEFT, 0, rows=1)
    with pytest.raises(InvalidArgument, match="not been read"):
        sample.add(np.array([0]), np.array([1]), np.array([0]), np.array([[1.0]]))
    with pytest.raises(InvalidArgument, match="was read before"):
        sample.read(Side.LEFT, 0, rows=1)


class Join:
    """Rows of both sides in random order, joined on a small key; values of the left rows."""

    def __init__(self, seed: int, rows: tuple[int, int] = (60, 50), keys: int = 12) -> None:
        rng = np.random.default_rng(seed)
        self.rows = rows
        self.keys = [rng.integers(0, keys, count) for count in rows]
        self.values = rng.normal(3, 2, rows[0])

    def pairs(
        self, n: int, m: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        r, s = np.nonzero(self.keys[0][:n, None] == self.keys[1][None, :m])
        x = self.values[r]
        return r, s, np.stack([np.ones_like(x), np.ones_like(x), x, x**2], axis=1)

    def totals(self, n: int, m: int, *, rows: tuple[int | None, int] | None = None) -> Totals:
        """In three rectangles: then more rows on the left, then on the right."""
        sample = PairSums(4)
        r, s, values = self.pairs(n, m)
        when = np.maximum((r >= n // 2) * 1, (s >= m // 2) * 2)
        for step in range(3):
            now = when == step
            sample.observe(r[now], s[now], np.zeros(now.sum(), np.int64), values[now])
        left, right = rows or self.rows
        return row_totals(sample, (Reading(n, left, "left rows"), Reading(m, right, "right rows")))


def test_pairs_as_they_come_equal_sums_per_key() -> None:
    """The factorised statistics: no pair is needed when a value is u(r) w(s)."""
    join = Join(seed=7)
    n, m = 40, 30
    totals = join.totals(n, m)
    u = np.stack([np.ones(n), np.ones(n), join.values[:n], join.values[:n] ** 2], axis=1)
    keys = [join.keys[0][:n], join.keys[1][:m]]
    count = np.bincount(keys[1], minlength=12).astype(float)
    first, second = packed(4, 2).T
    sums = np.stack([np.bincount(keys[0], column, 12) for column in u.T], axis=1)
    squares = np.stack(
        [np.bincount(keys[0], u[:, i] * u[:, j], 12) for i, j in zip(first, second, strict=True)],
        axis=1,
    )
    t = (sums * count[:, None]).sum(axis=0)
    a = (squares * count[:, None] ** 2).sum(axis=0)
    b = (sums[:, first] * sums[:, second] * count[:, None]).sum(axis=0)
    q = (squares * count[:, None]).sum(axis=0)
    tt = t[first] * t[second]
    (big_n, big_m), p, share = join.rows, n / 60, m / 50
    scale = big_n * big_m / (n * m)
    left = (1 - p) * scale**2 * n * (a - tt / n) / (n - 1)
    right = (1 - share) * scale**2 * m * (b - tt / m) / (m - 1)
    both = (1 - p) * (1 - share) * scale**2 * n * m * (q - a / m - b / n + tt / (n * m))
    expected = left + right - both / ((n - 1) * (m - 1))
    np.testing.assert_allclose(totals.value[0], scale * t)
    np.testing.assert_allclose(totals.covariance[0], expected, rtol=1e-9)


def test_unknown_sizes_leave_ratios() -> None:
    join = Join(seed=8)
    totals = join.totals(40, 30, rows=(None, 50))
    assert not totals.scaled
    assert not totals.exact
    np.testing.assert_allclose(totals.value, totals.seen)


def partitioned(join: Join, depth: tuple[int, int], *, partitions: int = 4) -> PartitionedSample:
    sample = PartitionedSample(partitions=partitions, rows=join.rows, moments=4)
    r, s, values = join.pairs(*depth)
    for number in range(partitions):
        mine = join.keys[0][r] % partitions == number
        sample.observe(
            number,
            r[mine],
            right_numbers=s[mine],
            groups=np.zeros(mine.sum(), np.int64),
            values=values[mine],
        )
        sample.joined(number, read=depth)
    return sample


@pytest.mark.parametrize("depth", [(40, 30), (60, 30), (40, 50), (60, 50)])
def test_partitions_of_one_depth_are_the_pooled_formula(depth: tuple[int, int]) -> None:
    join = Join(seed=9)
    pooled, parts = join.totals(*depth), partitioned(join, depth).totals()
    assert_equal(pooled, parts)
    assert pooled.floor is not None
    assert parts.floor is not None
    np.testing.assert_allclose(pooled.floor, parts.floor, rtol=1e-9)


@pytest.mark.parametrize("most", [50, 400])
def test_sums_of_some_rows_stand_for_all(most: int) -> None:
    """Totals are those of all rows, variances right on average: each draw keeps other rows.

    Which rows are kept depends on their numbers alone, so other numbers are other draws.
    """
    join = Join(seed=12, rows=(900, 700), keys=40)
    r, s, values = join.pairs(600, 500)
    readings = Reading(600, 900, "left rows"), Reading(500, 700, "right rows")
    group = (r % 2).astype(np.int64)
    whole = PairSums(4)
    whole.observe(r, s, group, values)
    expected = row_totals(whole, readings)
    covariances = []
    for draw in range(60):
        some = PairSums(4, most=most)
        half = len(r) // 2
        for part in (slice(half), slice(half, None)):
            rows = (r[part] + 10_000 * draw, s[part] + 10_000 * draw)
            some.observe(*rows, group[part], values[part])
        found = row_totals(some, readings)
        np.testing.assert_allclose(found.value, expected.value)
        covariances.append(found.covariance[:, 0])
    assert max(len(rows.entries()[0]) for rows in some._rows) <= most
    spread = np.std(covariances, axis=0) / np.sqrt(len(covariances))
    assert (np.abs(np.mean(covariances, axis=0) - expected.covariance[:, 0]) < 4 * spread).all()


def test_thinned_sums_add_up() -> None:
    join = Join(seed=13, rows=(900, 700), keys=40)
    r, s, values = join.pairs(600, 500)
    group = np.zeros(len(r), np.int64)
    whole, few, many = (PairSums(4, most=most) for most in (60, 60, 300))
    whole.observe(r, s, group, values)
    half = r < 300
    few.observe(r[half], s[half], group[half], values[half])
    many.observe(r[~half], s[~half], group[~half], values[~half])
    many += few
    assert many._rows[0].share <= few._rows[0].share
    readings = Reading(600, 900, "left rows"), Reading(500, 700, "right rows")
    np.testing.assert_allclose(row_totals(many, readings).value, row_totals(whole, readings).value)
    # A unit that is kept has all that was ever added to it.
    kept = dict(zip(*many._rows[0].entries()[1:], strict=True))
    for row, sums in list(kept.items())[:20]:
        np.testing.assert_allclose(sums, values[r == row].sum(axis=0))


def test_some_partitions_with_variance_of_their_own() -> None:
    """Ratio to rows over partitions, plus the partitions' own variances, by the book."""
    join = Join(seed=11)
    sample = PartitionedSample(partitions=4, rows=join.rows, moments=4)
    taus, sizes, own = [], [], []
    for number in range(3):
        mine = [np.flatnonzero(keys % 4 == number) for keys in join.keys]
        half = [rows[: max(len(rows) - 3, 2)] for rows in mine]
        r, s = np.nonzero(join.keys[0][half[0], None] == join.keys[1][None, half[1]])
        r, s = half[0][r], half[1][s]
        x = join.values[r]
        values = np.stack([np.ones_like(x), np.ones_like(x), x, x**2], axis=1)
        stratum = PairSums(4)
        stratum.observe(r, s, np.zeros(len(r), np.int64), values)
        readings = (
            Reading(len(half[0]), len(mine[0]), "left rows"),
            Reading(len(half[1]), len(mine[1]), "right rows"),
        )
        alone = row_totals(stratum, readings)
        taus.append(alone.value[0, 0])
        own.append(alone.covariance[0, 0])
        sizes.append(len(mine[0]))
        sample.observe(number, r, right_numbers=s, groups=np.zeros(len(r), np.int64), values=values)
        sample.joined(
            number,
            read=(50, 40),
            own=((len(half[0]), len(mine[0])), (len(half[1]), len(mine[1]))),
        )
    totals = sample.totals()
    y, x = np.array(taus), np.array(sizes, float)
    rate = y.sum() / x.sum()
    assert totals.value[0, 0] == pytest.approx(60 * rate)
    between = 3 * (1 - 3 / 4) * ((y - rate * x) ** 2).sum() / 2
    expected = (60 / x.sum()) ** 2 * (between + 3 / 4 * sum(own))
    assert totals.covariance[0, 0] == pytest.approx(expected)
    assert totals.degrees == 2


def test_a_stratum_joined_completely_adds_value_and_no_variance() -> None:
    every = blocks(6, seed=12)
    rest = sample_of(every[:3], of=every).totals()
    both = take_all(np.full((rest.groups, 4), 100.0), rest)
    np.testing.assert_allclose(both.value, rest.value + 100)
    np.testing.assert_allclose(both.seen, rest.seen + 100)
    assert both.covariance is rest.covariance
