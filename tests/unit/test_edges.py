"""Edges: one code a row, under which all partners are close together and none is found twice."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from watersmeet.model import Side
from watersmeet.rows.address import Rows
from watersmeet.rows.bands import Band, Width
from watersmeet.rows.batch import BatchRows
from watersmeet.rows.edges import ByBucketThenKey, ByPart, Edge
from watersmeet.rows.on import On
from watersmeet.rows.schema import EncodedRows, JoinSchema

Found = NDArray[np.bool_]
"""By [left row, right row]."""

LEAST, MOST = -(2**63), 2**63 - 1


def search() -> settings:
    """Half of the profile's examples: each has dozens of pairs of rows."""
    return settings(max_examples=settings().max_examples // 2)


@dataclass(frozen=True)
class Sides:
    """Two batches of columns k and t, with the edge between them."""

    schema: JoinSchema
    rows: tuple[EncodedRows, EncodedRows]

    @classmethod
    def of(cls, on: On, left: pa.RecordBatch, right: pa.RecordBatch) -> Sides:
        schema = JoinSchema.resolve(left.schema, right.schema, on).in_order()
        return cls(schema, (schema.encode(Side.LEFT, left), schema.encode(Side.RIGHT, right)))

    @property
    def edge(self) -> Edge:
        (edge,) = self.schema.edges
        return edge

    def found(self, side: Side) -> Found:
        """The pairs that rows of a side find by their codes; asserts that none is found twice and
        that the one range of `reach` has them all."""
        mine, others = self.rows[side].codes, self.rows[side.other].codes
        times = np.zeros((len(mine), len(others)), np.int64)
        first, last = self.edge.reach(side, mine)
        around = (first[:, None] <= others) & (others <= last[:, None])
        for first, last in self.edge.reaches(side, mine):
            times += (first[:, None] <= others) & (others <= last[:, None])
        assert times.max(initial=0) <= 1, "found twice"
        assert not ((times > 0) & ~around).any(), "outside of the one range"
        return (times > 0) if side is Side.LEFT else (times > 0).T

    def around(self, side: Side) -> Found:
        """The pairs that are left when blocks out of reach are not read, of all rows of a side and
        of each two of them."""
        mine, others = self.rows[side].codes, self.rows[side.other].codes
        found = np.ones((len(mine), len(others)), np.bool_)
        for block in ([*range(len(mine))], *([n, m] for n in range(len(mine)) for m in range(n))):
            codes = mine[block]
            ends = np.array([codes.min()]), np.array([codes.max()])
            found[block] &= self.edge.can_meet(side, ends, (others, others))
        return found if side is Side.LEFT else found.T

    def decided(self, candidates: Found) -> Found:
        left, right = np.nonzero(candidates)
        sources = [BatchRows(each.rows) for each in self.rows]
        mask = self.schema.verify(Rows(sources[0], left), Rows(sources[1], right))
        decided = np.zeros_like(candidates)
        decided[left, right] = True if mask is None else mask
        return decided

    def check(self, partners: Found) -> None:
        """These are the partners: by the codes of either side, and whatever blocks are read."""
        for side in Side:
            found = self.found(side)
            assert not (partners & ~found).any(), f"not within reach of the {side.name}"
            assert not (partners & ~self.around(side)).any(), f"not around the {side.name}"
            assert (self.decided(found) == partners).all(), f"decided wrongly for the {side.name}"


def held(band: Band, left: pa.Array, right: pa.Array) -> Found:
    """The pairs in a band, decided on values alone."""
    codec = band.resolve(pa.field("t", left.type), pa.field("t", right.type))
    n, m = (index.ravel() for index in np.indices((len(left), len(right))))
    return codec.holds(left.take(n), right.take(m)).reshape(len(left), len(right))


def check_band(band: Band, left: pa.Array, right: pa.Array) -> None:
    """The band alone, beside equal keys of numbers and texts, and beside another band."""
    partners = held(band, left, right)
    check_buckets(band, left, right, partners)
    keys = [[n % 3 for n in range(len(values))] for values in (left, right)]
    same = np.array(keys[0])[:, None] == np.array(keys[1])[None, :]
    for kind in (pa.int32(), pa.string()):
        k = [pa.array(each).cast(kind) for each in keys]
        sides = [
            pa.record_batch({"k": k[0], "t": left}),
            pa.record_batch({"k": k[1], "t": right}),
        ]
        Sides.of(["k", band], *sides).check(partners & same)
    Sides.of(band, *sides).check(partners)
    near = Band("n", "n", low=-1, high=0)
    n = [batch.append_column("n", pa.array(each)) for batch, each in zip(sides, keys, strict=True)]
    apart = np.array(keys[0])[:, None] - np.array(keys[1])[None, :]
    Sides.of([near, band], *n).check(partners & (apart <= 0) & (apart >= -1))


def check_buckets(band: Band, left: pa.Array, right: pa.Array, partners: Found) -> None:
    codec = band.resolve(pa.field("t", left.type), pa.field("t", right.type))
    if codec.has_buckets:
        buckets = [
            codec.buckets(side, codec.encode(side, values).codes).astype(object)
            for side, values in zip(Side, (left, right), strict=True)
        ]
        apart = np.abs(buckets[0][:, None] - buckets[1][None, :])
        assert not (partners & (apart > 1)).any(), "partners are two buckets apart"


# ---- whole numbers of steps ---------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """Two types, with values and widths as whole numbers of steps."""

    left: pa.DataType
    right: pa.DataType
    bits: int
    width: Callable[[int], Width]
    array: Callable[[list[int], pa.DataType], pa.Array]
    most: int | None = None


def whole(steps: list[int], kind: pa.DataType) -> pa.Array:
    return pa.array(steps, kind)


def viewed(steps: list[int], kind: pa.DataType) -> pa.Array:
    return pa.array(steps, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)


def milliseconds(steps: list[int], kind: pa.DataType) -> pa.Array:
    """Steps of a microsecond, as milliseconds where the type counts these."""
    return viewed([step // 1000 if kind.unit == "ms" else step for step in steps], kind)


def cents(steps: list[int], kind: pa.DataType) -> pa.Array:
    return pa.array([Decimal(step).scaleb(-kind.scale) for step in steps], kind)


def moment(steps: int) -> timedelta:
    return timedelta(microseconds=steps)


def scaled(digits: int) -> Callable[[int], Width]:
    return lambda steps: Decimal(steps).scaleb(-digits)


MICROSECONDS, SHORT, LONG = pa.timestamp("us", "UTC"), pa.decimal128(9, 2), pa.decimal128(18, 2)
KINDS = {
    "int8": Kind(pa.int8(), pa.int8(), 8, int, whole),
    "int16 and int32": Kind(pa.int16(), pa.int32(), 16, int, whole),
    "int32 and int64": Kind(pa.int32(), pa.int64(), 32, int, whole),
    "int64": Kind(pa.int64(), pa.int64(), 64, int, whole),
    "decimal": Kind(SHORT, SHORT, 64, scaled(2), cents, 10**9 - 1),
    "long decimals": Kind(LONG, LONG, 64, scaled(2), cents, 10**18 - 1),
    "date": Kind(pa.date32(), pa.date32(), 32, int, viewed),
    "date by spans": Kind(pa.date32(), pa.date32(), 32, timedelta, viewed, 10**8),
    "timestamp": Kind(MICROSECONDS, MICROSECONDS, 64, moment, viewed),
    "timestamps of two units": Kind(
        pa.timestamp("ms"), pa.timestamp("us"), 64, moment, milliseconds, 2**62
    ),
    "time": Kind(pa.time64("us"), pa.time64("us"), 64, moment, viewed),
    "interval": Kind(pa.duration("us"), pa.duration("us"), 64, moment, viewed),
}
# Around what sums of numbers of 64 bits leave, and around where the numbers of buckets begin anew.
CORNERS = [0, 2**31, 2**39, 2**40, 2**41, 2**62, 2**63, 2**64, 2**65]
STEPS = st.integers(-20, 20)
FAR = st.builds(
    lambda corner, sign, near: sign * corner + near,
    st.sampled_from(CORNERS),
    st.sampled_from([-1, 1]),
    STEPS,
)


@pytest.mark.parametrize("name", KINDS)
def test_partners_of_whole_numbers_are_found(name: str) -> None:
    kind = KINDS[name]
    most = min(kind.most or MOST, 2 ** (kind.bits - 1) - 1)
    least = 0 if pa.types.is_time(kind.left) else -most if kind.most else -most - 1

    @search()
    @given(
        low=STEPS | FAR, high=st.integers(0, 9) | FAR, one_end=st.sampled_from([None, 0, 1]),
        opened=st.tuples(st.booleans(), st.booleans()), anchors=st.lists(STEPS | FAR, max_size=3),
        near=st.lists(st.integers(-2, 2), min_size=4, max_size=4),
    )  # fmt: skip
    # Buckets whose width has more than 64 bits, and ends that no number of 64 bits reaches.
    @example(-(2**64), 2**65, None, (False, False), [LEAST, MOST, 0], [0, 0, 1, -1])
    @example(5, 0, 1, (False, False), [LEAST, LEAST + 2, MOST], [0, 1, 2, -2])
    @example(3, -1, None, (False, False), [LEAST, MOST], [0, 0, 0, 0])
    @example(0, 0, None, (False, False), [2**39, -(2**39), 2**40, -(2**40)], [0, -1, 1, 2])
    def found(
        low: int,
        high: int,
        one_end: int | None,
        opened: tuple[bool, bool],
        anchors: list[int],
        near: list[int],
    ) -> None:
        if kind.width is not int:
            # A time is at most so long.
            low, high = (max(min(end, 2**65), -(2**65)) for end in (low, high))
        if kind.width is timedelta:
            low, high = (max(min(end, 10**8), -(10**8)) for end in (low, high))
        ends = [kind.width(low), kind.width(low + high)]
        if one_end is not None:
            ends[one_end] = None  # type: ignore[call-overload]
        band = Band("t", "t", ends[0], ends[1], *opened)
        lefts, rights = [0, *anchors], [0, *anchors]
        for anchor, apart in zip([0, *anchors], near, strict=False):
            rights += [anchor - low + apart, anchor - low - high + apart]
            lefts += [anchor + low + apart, anchor + low + high + apart]
        values = [[min(max(step, least), most) for step in steps] for steps in (lefts, rights)]
        check_band(band, kind.array(values[0], kind.left), kind.array(values[1], kind.right))

    found()


# ---- floating-point numbers ---------------------------------------------------------------------

SPECIAL = [0.0, -0.0, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 0.1, 0.3, 1e15, 2.0**60]
FLOAT_KINDS = {
    "float64": (pa.float64(), pa.float64()),
    "float32": (pa.float32(), pa.float32()),
    "float32 and float64": (pa.float32(), pa.float64()),
    "int64 and float64": (pa.int64(), pa.float64()),
    "float32 and decimal": (pa.float32(), SHORT),
}


def as_kind(values: list[float], kind: pa.DataType) -> pa.Array:
    if pa.types.is_integer(kind):
        return pa.array([int(value) if abs(value) < 2**62 else 7 for value in values], kind)
    if pa.types.is_decimal(kind):
        cut = [round(value, 2) if abs(value) < 10**6 else 0.5 for value in values]
        return pa.array([Decimal(str(value)).quantize(Decimal("0.01")) for value in cut], kind)
    with np.errstate(over="ignore"):
        return pa.array(np.array(values).astype(kind.to_pandas_dtype()))


@pytest.mark.parametrize("name", FLOAT_KINDS)
def test_partners_of_floating_point_numbers_are_found(name: str) -> None:
    left, right = FLOAT_KINDS[name]
    ends = st.sampled_from([0.0, 0.1, -0.1, 0.2, 1.0, 1e6, -1e6, 1e-3, 3e38, 1e300, -1e300, 5e-324])

    @search()
    @given(
        low=ends | st.floats(-20, 20), wide=ends.map(abs) | st.floats(0, 1e9),
        one_end=st.sampled_from([None, 0, 1]), opened=st.tuples(st.booleans(), st.booleans()),
        anchors=st.lists(st.sampled_from(SPECIAL) | st.floats(-1e7, 1e7), max_size=4),
        near=st.lists(st.integers(-2, 2), min_size=5, max_size=5),
    )  # fmt: skip
    # Ends that are far from each other for their size, where a difference of 32 bits is rounded.
    @example(1.6e7, 1.0, None, (False, False), [1.6e7 + 2, 0.5002, 0.3], [0, 1, 2, -1, -2])
    @example(-0.1, 0.2, None, (False, False), [math.nan, 1.0, math.inf, -math.inf], [0] * 5)
    def found(
        low: float,
        wide: float,
        one_end: int | None,
        opened: tuple[bool, bool],
        anchors: list[float],
        near: list[int],
    ) -> None:
        both: list[float | None] = [low, low + wide]
        if one_end is not None:
            both[one_end] = None
        band = Band("t", "t", both[0], both[1], *opened)
        lefts, rights = [0.0, *anchors], [0.0, *anchors]
        with np.errstate(all="ignore"):
            for anchor, apart in zip([0.0, *anchors], near, strict=False):
                for end in (low, low + wide):
                    lefts.append(moved(anchor + end, apart, left))
                    rights.append(moved(anchor - end, apart, right))
        check_band(band, as_kind(lefts, left), as_kind(rights, right))

    found()


def moved(value: float, steps: int, kind: pa.DataType) -> float:
    """The number so many numbers of its type beside this one."""
    dtype = np.float32 if kind == pa.float32() else np.float64
    number = dtype(value)
    for _ in range(abs(steps)):
        number = np.nextafter(number, dtype(math.copysign(math.inf, steps)))
    return float(number)


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
def test_rounding_moves_no_partners_two_buckets_apart(kind: pa.DataType) -> None:
    """Values beside the borders of buckets, and partners that are just in the band."""
    rng, dtype = np.random.default_rng(3), kind.to_pandas_dtype()
    inside = 0
    for _ in range(300):
        low, wide = rng.uniform(-9, 9), 10.0 ** rng.uniform(-3, 3)
        band = Band("t", "t", low, low + wide)
        y = rng.integers(-(10 ** rng.integers(1, 9)), 10**9, 400) * (wide / 2)
        x = y + rng.choice([low, low + wide], 400)
        x, y = (beside.astype(dtype) for beside in (x, y))
        for _ in range(rng.integers(0, 3)):
            x, y = np.nextafter(x, dtype(-np.inf)), np.nextafter(y, dtype(np.inf))
        arrays = [pa.array(x), pa.array(y)]
        codec = band.resolve(pa.field("t", kind), pa.field("t", kind))
        partners = codec.holds(*arrays)
        codes = [codec.encode(side, arrays[side]).codes for side in Side]
        buckets = [codec.buckets(side, codes[side]) for side in Side]
        assert (np.abs(buckets[0] - buckets[1])[partners] <= 1).all()
        inside += int(np.count_nonzero(partners))
    assert inside > 1000


# ---- which order, and what it is like -----------------------------------------------------------


def both(kind: pa.DataType, values: list[Any]) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    batch = pa.record_batch({"k": pa.array(range(len(values))), "t": pa.array(values, kind)})
    return batch, batch


@pytest.mark.parametrize(
    ("band", "order"),
    [
        (Band("t", "t", low=-1, high=1), ByBucketThenKey),
        (Band("t", "t", low=0), ByPart),
        (Band("t", "t", high=0), ByPart),
    ],
    ids=str,
)
def test_only_bands_with_two_ends_have_buckets(band: Band, order: type) -> None:
    assert isinstance(Sides.of(["k", band], *both(pa.int64(), [1])).edge.order, order)
    assert isinstance(Sides.of(band, *both(pa.int64(), [1])).edge.order, ByPart)


def test_rows_of_one_bucket_are_together() -> None:
    """What comes at one time has neighbouring codes, whatever its key."""
    band = Band("t", "t", low=-5, high=5)
    codes = Sides.of(["k", band], *both(pa.int64(), [100, 3, 101, 1, 102, 2])).rows[0].codes
    order = np.argsort(codes)
    assert set(order[:3].tolist()) == {1, 3, 5}


def test_buckets_begin_again_behind_the_last() -> None:
    """Two values are neighbours although one has the first bucket and one the last."""
    last = 2**39 - 1
    batch = pa.record_batch({"k": pa.array([7] * 4), "t": pa.array([last, last + 1, last + 2, 0])})
    sides = Sides.of(["k", Band("t", "t", low=-1, high=1)], batch, batch)
    buckets = sides.rows[0].codes >> np.uint64(24)
    assert buckets.tolist() == [2**40 - 1, 0, 1, 2**39]
    near = [(1, 1, 0, 0), (1, 1, 1, 0), (0, 1, 1, 0), (0, 0, 0, 1)]
    sides.check(np.array(near, np.bool_))


def test_values_a_whole_turn_of_buckets_apart_are_no_partners() -> None:
    batch = pa.record_batch({"k": pa.array([7] * 3), "t": pa.array([0, 2**40, -(2**40)])})
    sides = Sides.of(["k", Band("t", "t", low=0, high=0)], batch, batch)
    assert sides.found(Side.LEFT).all()
    sides.check(np.eye(3, dtype=np.bool_))


RISING = {
    "int8": (pa.int8(), pa.int8()),
    "int32 and int64": (pa.int32(), pa.int64()),
    "int64": (pa.int64(), pa.int64()),
    "uint8": (pa.uint8(), pa.uint8()),
    "uint64": (pa.uint64(), pa.uint64()),
    "bool": (pa.bool_(), pa.bool_()),
    "date": (pa.date32(), pa.date32()),
    "timestamp": (MICROSECONDS, MICROSECONDS),
    "float32": (pa.float32(), pa.float32()),
    "float64": (pa.float64(), pa.float64()),
    "float32 and float64": (pa.float32(), pa.float64()),
    "int32 and float64": (pa.int32(), pa.float64()),
}


def keys_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_floating(kind):
        some = [value for value in SPECIAL if abs(value) != 1e308]
        return st.sampled_from(some) | st.floats(width=kind.bit_width)
    unsigned = pa.types.is_unsigned_integer(kind)
    least = 0 if unsigned else -(2 ** (kind.bit_width - 1))
    most = 2**kind.bit_width - 1 if unsigned else 2 ** (kind.bit_width - 1) - 1
    return st.integers(0, 5) | st.integers(least, most) | st.sampled_from([least, most])


def ordered(values: pa.Array) -> list[Any]:
    """The values as what Python orders as Spark does: NaN is the largest and equals itself."""
    if pa.types.is_floating(values.type):
        return [(value != value, 0.0 if value != value else value) for value in values.to_pylist()]
    if not (pa.types.is_integer(values.type) or pa.types.is_boolean(values.type)):
        values = values.view(pa.int32() if values.type.bit_width == 32 else pa.int64())
    return [(False, value) for value in values.to_pylist()]


@pytest.mark.parametrize("name", RISING)
def test_codes_of_one_number_rise_and_are_equal_as_keys_are(name: str) -> None:
    kinds = RISING[name]

    @search()
    @given(st.lists(keys_of(kinds[0]), max_size=9), st.lists(keys_of(kinds[1]), max_size=9))
    def rise(left: list[Any], right: list[Any]) -> None:
        arrays = []
        for values, kind in zip((left + right, right + left), kinds, strict=True):
            fitting = []
            for value in values:
                try:
                    fitting.append(pa.array([value], kind)[0].as_py())
                except (pa.ArrowInvalid, OverflowError):
                    continue
            arrays.append(pa.array(fitting, kind))
        if pa.types.is_floating(kinds[1]) and pa.types.is_integer(kinds[0]):
            arrays[1] = pa.array([float(value) for value in arrays[1].to_pylist()], kinds[1])
        sides = Sides.of("k", *(pa.record_batch({"k": each}) for each in arrays))
        known = [*zip(ordered(arrays[0]), sides.rows[0].codes.tolist(), strict=True)]
        known += zip(ordered(arrays[1]), sides.rows[1].codes.tolist(), strict=True)
        for mine, code in known:
            for other, others_code in known:
                assert (code < others_code, code == others_code) == (mine < other, mine == other)
        partners = np.array(
            [[mine == other for other in ordered(arrays[1])] for mine in ordered(arrays[0])],
            np.bool_,
        ).reshape(len(arrays[0]), len(arrays[1]))
        if partners.size:
            sides.check(partners)

    rise()


def test_other_keys_are_in_order_of_a_hash() -> None:
    texts = pa.record_batch({"k": ["b", "a", "c", "a"]})
    Sides.of("k", texts, texts).check(np.array([list(row) for row in SAME_TEXTS], np.bool_))


SAME_TEXTS = ((1, 0, 0, 0), (0, 1, 0, 1), (0, 0, 1, 0), (0, 1, 0, 1))


def test_nulls_of_any_part_make_a_row_invalid() -> None:
    batch = pa.record_batch(
        {"k": pa.array([None, 1, 1], pa.int64()), "t": pa.array([1, None, 1], pa.int64())}
    )
    for band in (Band("t", "t", -1, 1), Band("t", "t", low=1)):
        for rows in Sides.of(["k", band], batch, batch).rows:
            assert rows.valid is not None
            assert rows.valid.tolist() == [False, False, True]
