"""Bands: codes leave out no partner, and values decide as they should."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.errors import InvalidArgument, SchemaError
from watersmeet.model import Side
from watersmeet.rows.band_codecs import BandCodec
from watersmeet.rows.bands import Band, Width

INTS = st.one_of(st.integers(-20, 20), st.sampled_from([-(2**63), 2**63 - 1, 2**62, -(2**62), 0]))
SPANS = st.integers(-30, 30)


def in_steps(number: Any) -> Fraction:
    return Fraction(number)


@dataclass(frozen=True)
class Kind:
    """Values of a type as whole numbers, and widths that fit them."""

    left: pa.DataType
    right: pa.DataType
    values: st.SearchStrategy[int]
    widths: st.SearchStrategy[Width]
    steps: Callable[[Any], Fraction]
    array: Callable[[list[int], pa.DataType], pa.Array]


def whole(values: list[int], kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind)


def viewed(values: list[int], kind: pa.DataType) -> pa.Array:
    return pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)


def cents(values: list[int], kind: pa.DataType) -> pa.Array:
    return pa.array([Decimal(value) / 100 for value in values], kind)


SMALL = st.integers(-100, 100)
WIDE_NUMBERS = st.one_of(
    SPANS,
    st.sampled_from([2**63, -(2**63), 2**64, -(2**64), 2**65, 10**25]),
    st.floats(-9, 9).map(lambda number: round(number, 2)),
    st.decimals(-9, 9, places=1),
)
KINDS = {
    "int8": Kind(pa.int8(), pa.int8(), SMALL, WIDE_NUMBERS, in_steps, whole),
    "int64": Kind(pa.int64(), pa.int64(), INTS, WIDE_NUMBERS, in_steps, whole),
    "int32 and int64": Kind(
        pa.int32(), pa.int64(), st.integers(-40, 40), WIDE_NUMBERS, in_steps, whole
    ),
    "decimal": Kind(
        pa.decimal128(9, 2), pa.decimal128(9, 2), SMALL,
        st.decimals(-1, 1, places=3), lambda width: Fraction(width) * 100, cents,
    ),
    "date32": Kind(pa.date32(), pa.date32(), SMALL, SPANS, in_steps, viewed),
    "date32 by spans": Kind(
        pa.date32(), pa.date32(), SMALL, st.integers(-99, 99).map(lambda n: timedelta(hours=n)),
        lambda span: Fraction(span // timedelta(hours=1), 24), viewed,
    ),
    "timestamp": Kind(
        pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC"), INTS,
        st.integers(-30, 30).map(lambda n: timedelta(microseconds=n)),
        lambda span: Fraction(span // timedelta(microseconds=1)), viewed,
    ),
    "time": Kind(
        pa.time64("us"), pa.time64("us"), st.integers(0, 99),
        st.integers(-30, 30).map(lambda n: timedelta(microseconds=n)),
        lambda span: Fraction(span // timedelta(microseconds=1)), viewed,
    ),
}  # fmt: skip


def check_codes(codec: BandCodec, arrays: tuple[pa.Array, pa.Array], inside: np.ndarray) -> None:
    """`inside` by [left, right]: every such pair lies in the range of either side."""
    codes = [codec.encode(side, arrays[side]).codes for side in Side]
    for side in Side:
        first, last = codec.reach(side, codes[side])
        others = codes[side.other]
        found = (first[:, None] <= others) & (others <= last[:, None])
        wanted = inside if side is Side.LEFT else inside.T
        assert not (wanted & ~found).any()


@pytest.mark.parametrize("name", KINDS)
def test_whole_numbers_of_steps(name: str) -> None:
    kind = KINDS[name]
    ends = st.none() | kind.widths

    @given(
        left=st.lists(kind.values, min_size=1, max_size=8),
        right=st.lists(kind.values, min_size=1, max_size=8),
        low=ends, high=ends, low_open=st.booleans(), high_open=st.booleans(),
    )  # fmt: skip
    def agrees(
        left: list[int], right: list[int], low: Any, high: Any, low_open: bool, high_open: bool
    ) -> None:
        if low is None and high is None:
            return
        band = Band("l", "r", low, high, low_open, high_open)
        codec = band.resolve(pa.field("l", kind.left), pa.field("r", kind.right))

        def is_inside(x: int, y: int) -> bool:
            above = (
                low is None
                or x - y > kind.steps(low)
                or (x - y == kind.steps(low) and not low_open)
            )
            below = (
                high is None
                or x - y < kind.steps(high)
                or (x - y == kind.steps(high) and not high_open)
            )
            return above and below

        inside = np.array([[is_inside(x, y) for y in right] for x in left])
        arrays = (kind.array(left, kind.left), kind.array(right, kind.right))
        pairs = np.array([(n, m) for n in range(len(left)) for m in range(len(right))])
        held = codec.holds(arrays[0].take(pairs[:, 0]), arrays[1].take(pairs[:, 1]))
        assert held.tolist() == inside.ravel().tolist()
        check_codes(codec, arrays, inside)

    agrees()


EXTREMES = [0.0, -0.0, 1.5, -1.5, 1e300, -1e300, 5e-324, math.inf, -math.inf, math.nan, 0.1, 0.3]
FLOATS = st.one_of(st.sampled_from(EXTREMES), st.floats(-10, 10), st.floats())
NARROW = st.one_of(st.sampled_from(EXTREMES), st.floats(-10, 10, width=32), st.floats(width=32))


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
def test_floating_point_numbers(kind: pa.DataType) -> None:
    """As one subtraction and two comparisons in which NaN is the largest."""
    numbers = FLOATS if kind == pa.float64() else NARROW
    dtype = np.dtype(kind.to_pandas_dtype())
    ends = st.none() | st.floats(-20, 20) | st.sampled_from([0.0, 0.1, 0.2, 1e300, -1e300])

    @given(
        left=st.lists(numbers, min_size=1, max_size=8),
        right=st.lists(numbers, min_size=1, max_size=8),
        low=ends, high=ends, low_open=st.booleans(), high_open=st.booleans(),
    )  # fmt: skip
    def agrees(
        left: list[float], right: list[float], low: Any, high: Any, low_open: bool, high_open: bool
    ) -> None:
        if low is None and high is None:
            return
        codec = Band("l", "r", low, high, low_open, high_open).resolve(
            pa.field("l", kind), pa.field("r", kind)
        )
        with np.errstate(all="ignore"):
            x, y = (np.array(values).astype(dtype) for values in (left, right))
            apart = (x[:, None] - y[None, :]).astype(np.float64)
        inside = np.ones(apart.shape, np.bool_)
        if low is not None:
            inside &= (apart > low if low_open else apart >= low) | np.isnan(apart)
        if high is not None:
            inside &= apart < high if high_open else apart <= high
        arrays = (pa.array(x), pa.array(y))
        pairs = np.array([(n, m) for n in range(len(left)) for m in range(len(right))])
        held = codec.holds(arrays[0].take(pairs[:, 0]), arrays[1].take(pairs[:, 1]))
        assert held.tolist() == inside.ravel().tolist()
        check_codes(codec, arrays, inside)

    agrees()


@pytest.mark.parametrize(
    ("kind", "low"),
    [
        (pa.int32(), 1),
        (pa.decimal128(5, 1), 1),
        (pa.float32(), 1),
        (pa.date32(), 1),
        (pa.timestamp("us"), timedelta(1)),
    ],
    ids=str,
)
def test_nulls_are_told(kind: pa.DataType, low: Width) -> None:
    codec = Band("l", "r", low=low).resolve(pa.field("l", kind), pa.field("r", kind))
    one = codec.encode(Side.LEFT, pa.array([None, None], kind).slice(1))
    assert one.valid is not None
    assert one.valid.tolist() == [False]


@pytest.mark.parametrize(
    ("left", "right", "width", "said"),
    [
        (pa.string(), pa.string(), 1, "string has no differences.*Use numbers"),
        (pa.int64(), pa.string(), 1, "Spark has no rule"),
        (pa.decimal128(38, 2), pa.decimal128(38, 2), 1, "more digits than are exact.*Cast both"),
        (pa.timestamp("us"), pa.timestamp("us"), 5, "5 says nothing about its unit.*timedelta"),
        (pa.int64(), pa.int64(), timedelta(1), "is a span of time.*Give a number"),
        (pa.float64(), pa.float64(), timedelta(1), "is a span of time.*Give a number"),
        (pa.timestamp("us"), pa.timestamp("us", "UTC"), timedelta(1), "time zone"),
        (pa.uint64(), pa.uint64(), 1, "more digits than are exact"),
    ],
)
def test_what_has_no_band(left: pa.DataType, right: pa.DataType, width: Width, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        Band("l", "r", high=width).resolve(pa.field("l", left), pa.field("r", right))


def test_ends_that_are_none() -> None:
    with pytest.raises(InvalidArgument, match="neither a lower nor an upper end"):
        Band("l", "r")
    for end in (math.nan, math.inf, Decimal("NaN")):
        with pytest.raises(InvalidArgument, match="ends at"):
            Band("l", "r", low=end)
