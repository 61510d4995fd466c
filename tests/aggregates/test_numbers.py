"""Numbers read from Arrow, and their sums by group, against Python's own integers and fractions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.aggregates.partials.sums import Sums, extremes_of
from watersmeet.expressions.numbers import Numbers, read

LONGS = st.integers(-(2**63), 2**63 - 1)


def numbers_of(values: list[int | None], scale: int = 0) -> Numbers:
    """Integers of any size; as 64-bit ones if they all fit."""
    valid = np.array([value is not None for value in values], np.bool_)
    whole = np.array([value or 0 for value in values], object)
    return Numbers(whole, None if valid.all() else valid, scale).tight()


def nonnull(numbers: Numbers) -> int:
    return numbers.values.size if numbers.valid is None else int(numbers.valid.sum())


def known(values: Iterable[Any], codes: Iterable[int], group: int) -> list[Any]:
    pairs = zip(values, codes, strict=True)
    return [value for value, code in pairs if code == group and value is not None]


@pytest.mark.parametrize("precision", [9, 18, 19, 38])
@given(data=st.data())
def test_decimals_are_read_as_the_integers_they_are(precision: int, data: st.DataObject) -> None:
    most = 10**precision - 1
    whole = data.draw(st.lists(st.none() | st.integers(-most, most) | st.integers(-9, 9)))
    kind = pa.decimal128(precision, 0)
    array = pa.array([None if v is None else Decimal(v) for v in whole], kind)
    start = data.draw(st.integers(0, len(whole)))
    numbers = read(array.slice(start))
    assert numbers.values.tolist() == [value or 0 for value in whole[start:]]
    assert nonnull(numbers) == len(known(whole[start:], [0] * len(whole[start:]), 0))
    if len(whole[start:]):
        assert numbers.bounds[0] <= numbers.values.min()
        assert numbers.bounds[1] >= numbers.values.max()


@pytest.mark.parametrize("under", [(-1, 7), (999, 0), (-(2**63), -1)])
def test_what_is_under_a_null_does_not_count(under: tuple[int, int]) -> None:
    words = np.array([5, 0, *under, 3, 0], np.int64)
    valid = pa.py_buffer(np.array([0b101], np.uint8))
    array = pa.Array.from_buffers(pa.decimal128(9, 2), 3, [valid, pa.py_buffer(words)])
    numbers = read(array)
    assert numbers.values.tolist() == [5, 0, 3]
    assert numbers.bounds == (0, 5)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.uint8(), [255, None, 0]),
        (pa.uint32(), [2**32 - 1, 1]),
        (pa.uint64(), [2**64 - 1, None, 3]),
        (pa.int16(), [-5, None]),
        (pa.int64(), [2**63 - 1, -(2**63)]),
        (pa.dictionary(pa.int8(), pa.int32()), [4, None, 4]),
    ],
)
def test_integers_of_every_width(kind: pa.DataType, values: list[int | None]) -> None:
    numbers = read(pa.array(values, kind))
    assert numbers.values.tolist() == [value or 0 for value in values]
    assert nonnull(numbers) == sum(value is not None for value in values)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(-(10**38), 10**38)), min_size=1))
def test_floats_are_the_nearest(pairs: list[tuple[int, int]]) -> None:
    for scale, whole in pairs:
        numbers = Numbers(np.array([whole], object), None, scale).tight()
        assert numbers.floats()[0] == float(Fraction(whole, 10**scale))


@given(
    st.lists(st.tuples(st.none() | LONGS | st.integers(-99, 99), st.integers(0, 3),
                       st.integers(0, 9) | st.integers(0, 2**40))),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_sums_are_exact(
    rows: list[tuple[int | None, int, int]], grouped: bool, weighted: bool
) -> None:
    values = [value for value, _, _ in rows]
    codes = [code if grouped else 0 for _, code, _ in rows]
    weights = [weight if weighted else 1 for _, _, weight in rows]
    sums = Sums.of(
        numbers_of(values, scale=2),
        np.array(codes, np.int64) if grouped else None,
        groups=4,
        weights=np.array(weights, np.int64) if weighted else None,
    )
    products = [None if v is None else v * w for v, w in zip(values, weights, strict=True)]
    counted = [None if v is None else w for v, w in zip(values, weights, strict=True)]
    assert sums.total.scale == 2
    assert sums.total.values.tolist() == [sum(known(products, codes, g)) for g in range(4)]
    assert sums.count.tolist() == [sum(known(counted, codes, g)) for g in range(4)]


def test_a_sum_of_more_than_64_bits_needs_no_slow_numbers() -> None:
    """A million of the largest values; the two halves carry into each other."""
    values = np.full(1_000_000, 2**63 - 1)
    values[::3] = -(2**63)
    weights = np.full(values.size, 2**31 - 1)
    numbers = Numbers(values, None, 0, (-(2**63), 2**63 - 1))
    exact = int(values.astype(object).sum())
    assert Sums.of(numbers).total.values.tolist() == [exact]
    assert Sums.of(numbers, weights=weights).total.values.tolist() == [exact * (2**31 - 1)]
    # A weight that fills more than half a word, and a value that does too.
    one = Numbers(np.array([2**50 - 1]), None, 0, (2**50 - 1, 2**50 - 1))
    sums = Sums.of(one, weights=np.array([2**40 - 1]))
    assert sums.total.values.tolist() == [(2**50 - 1) * (2**40 - 1)]


@given(st.lists(st.lists(st.tuples(LONGS, st.integers(0, 2)), max_size=5), min_size=1, max_size=4))
def test_sums_add_up(parts: list[list[tuple[int, int]]]) -> None:
    """In any order, and from parts that know only their own groups."""
    total = Sums.of(numbers_of([]), np.empty(0, np.int64), groups=3, spread=True)
    for part in reversed(parts):
        present = sorted({code for _, code in part})
        codes = np.array([present.index(code) for _, code in part], np.int64)
        numbers = numbers_of([value for value, _ in part])
        own = Sums.of(numbers, codes, groups=len(present), spread=True)
        total = total + own.placed(np.array(present, np.int64), 3)
        low, high = total.total.bounds
        assert all(low <= value <= high for value in total.total.values)
    everything = [pair for part in parts for pair in part]
    for group in range(3):
        values = [value for value, code in everything if code == group]
        assert total.total.values[group] == sum(values)
        assert total.count[group] == len(values)
        about_zero = total.squares_about(0.0)[group]
        assert about_zero == pytest.approx(sum(float(v) ** 2 for v in values))


@given(st.lists(st.floats(-1e200, 1e200), max_size=40), st.integers(0, 40))
def test_float_sums_are_rounded_once(values: list[float], cut: int) -> None:
    parts = [np.array(values[:cut]), np.array(values[cut:])]
    first, second = (Sums.of(Numbers(part, None)) for part in parts)
    exact = math.fsum(values)
    tolerance = 1e-28 * math.fsum(map(abs, values))
    assert (first + second).floats()[0] == pytest.approx(exact, rel=4e-16, abs=tolerance)


def test_a_small_number_is_not_lost_beside_a_large_one() -> None:
    values = np.array([1e16] + [1.0] * 1000 + [-1e16])
    assert Sums.of(Numbers(values, None)).floats().tolist() == [1000.0]
    codes = np.zeros(values.size, np.int64)
    assert Sums.of(Numbers(values, None), codes).floats().tolist() == [1000.0]
    large, one, small = (Sums.of(Numbers(np.array([v]), None)) for v in (1e16, 1.0, -1e16))
    assert (large + one + small).floats().tolist() == [1.0]


@given(
    st.lists(st.tuples(st.none() | st.integers(-(10**6), 10**6), st.integers(0, 2),
                       st.integers(0, 5)), max_size=30),
    st.floats(-1e3, 1e3),
)  # fmt: skip
def test_squares_about_a_centre(rows: list[tuple[int | None, int, int]], centre: float) -> None:
    values, codes = [row[0] for row in rows], [row[1] for row in rows]
    weights = [row[2] for row in rows]
    numbers = numbers_of(values, scale=2)
    codes_array, weights_array = np.array(codes, np.int64), np.array(weights, np.int64)
    exact = Sums.of(numbers, codes_array, groups=3, weights=weights_array, spread=True)
    floats = Numbers(numbers.floats(), numbers.valid)
    same = Sums.of(floats, codes_array, groups=3, weights=weights_array, spread=True)
    squares = [
        None if v is None else w * (v / 100 - centre) ** 2
        for v, w in zip(values, weights, strict=True)
    ]
    expected = [math.fsum(known(squares, codes, group)) for group in range(3)]
    for sums in (exact, same):
        about = sums.squares_about(centre)
        assert about.tolist() == pytest.approx(expected, rel=1e-9, abs=1e-6)


def test_squares_of_many_rows_by_many_groups_are_each_counted_once() -> None:
    values = np.arange(20_000) % 7
    for groups in (1, 3, 5000):
        codes = np.arange(20_000) % groups
        sums = Sums.of(Numbers(values, None, 0, (0, 6)), codes, groups=groups, spread=True)
        expected = np.bincount(codes, (values - 1.0) ** 2)
        np.testing.assert_allclose(sums.squares_about(1.0), expected, rtol=1e-12)


@given(st.lists(st.tuples(st.none() | LONGS | st.just(2**70), st.integers(0, 2)), max_size=20))
def test_extremes(rows: list[tuple[int | None, int]]) -> None:
    values, codes = [row[0] for row in rows], [row[1] for row in rows]
    least, most = extremes_of(numbers_of(values), np.array(codes, np.int64), groups=3)
    for group in range(3):
        mine = known(values, codes, group)
        assert bool(least.valid is None or least.valid[group]) == bool(mine)
        if mine:
            assert (least.values[group], most.values[group]) == (min(mine), max(mine))
