"""Ranges of values: each pair of partners is together in one instance, and instances are even."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.contract.test_planted_bugs import Bug
from watersmeet.model import Side
from watersmeet.rows.bands import Band
from watersmeet.rows.intervals import Ends, Overlap
from watersmeet.rows.predicates import IntervalsOverlap, ValuesInBand
from watersmeet.spark.placing import BandPlacing, IntervalPlacing, Placing
from watersmeet.spark.ranges import RangeRouter, Ranges
from watersmeet.spark.tables.balance import Division, divide
from watersmeet.spark.tables.histograms import Histogram, noted

EPOCH = datetime(2024, 1, 1, tzinfo=UTC)
NUMBERS = [None, *range(-9, 10), -(2**63), 2**63 - 1, -(2**62), 2**62]
FLOATS = [None, math.nan, math.inf, -math.inf, 0.0, -0.0, 1e300, -1e300, 0.1, 0.3, 5e-324]
KINDS: dict[str, tuple[pa.DataType, list[Any], list[Any]]] = {
    "bigint": (pa.int64(), NUMBERS, [-3, 0, 2, 5, 2**63]),
    "double": (pa.float64(), [*FLOATS, *(n / 4 for n in range(-6, 7))], [-0.5, 0.0, 0.2, 1.0]),
    "float": (pa.float32(), [*FLOATS, *(n / 4 for n in range(-6, 7))], [-0.5, 0.0, 0.2, 1.0]),
    "decimal": (
        pa.decimal128(9, 2),
        [None, *(Decimal(n) / 100 for n in range(-9, 10)), Decimal("9999999.99")],
        [Decimal("-0.03"), Decimal("0"), Decimal("0.025"), Decimal(4)],
    ),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [None, *(EPOCH + timedelta(seconds=n) for n in range(-9, 10))],
        [timedelta(seconds=-2), timedelta(0), timedelta(seconds=4)],
    ),
}


def band(kind: pa.DataType, low: Any, high: Any, *, open: bool = False) -> BandPlacing:
    asked = Band("t", "t", low=low, high=high, low_open=open, high_open=open)
    field = pa.field("t", kind)
    return BandPlacing(ValuesInBand((0, 1), (0, 0), asked.resolve(field, field), str(asked)))


def intervals(kind: pa.DataType, left: Ends, right: Ends, *, open: bool) -> IntervalPlacing:
    schema = pa.schema({"t": kind, "u": kind})
    asked = Overlap(left, right, open, open)
    columns = [(schema.get_field_index(a), schema.get_field_index(b)) for a, b in (left, right)]
    fields = [(schema.field(a), schema.field(b)) for a, b in (left, right)]
    codec = asked.resolve(fields[0], fields[1])
    return IntervalPlacing(IntervalsOverlap((0, 1), (columns[0], columns[1]), codec, str(asked)))


@st.composite
def overlapping(draw: Any) -> tuple[RangeRouter, pa.RecordBatch]:
    """Points and intervals, some of which end before they start."""
    kind, values, _ = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    ends = [("t", "u"), ("t", "u")]
    point = draw(st.sampled_from([None, *Side]))
    if point is not None:
        ends[point] = ("t", "t")
    near = intervals(kind, ends[0], ends[1], open=draw(st.booleans()))
    others = draw(st.permutations(values))
    rows = pa.record_batch({"t": pa.array(values, kind), "u": pa.array(others, kind)})
    return drawn_router(draw, near, rows), rows


@st.composite
def questions(draw: Any) -> tuple[RangeRouter, pa.RecordBatch]:
    """A band, ranges that begin on values and beside them, and rows with all values."""
    kind, values, widths = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    low, high = sorted(draw(st.tuples(st.sampled_from(widths), st.sampled_from(widths))))
    ends = draw(st.sampled_from(["both", "low", "high"]))
    near = band(
        kind,
        None if ends == "high" else low,
        None if ends == "low" else high,
        open=draw(st.booleans()) and (low < high or ends != "both"),
    )
    rows = pa.record_batch({"t": pa.array(values * 2, kind)})
    return drawn_router(draw, near, rows), rows


def drawn_router(draw: Any, near: Placing, rows: pa.RecordBatch) -> RangeRouter:
    owner = draw(st.sampled_from(Side))
    codes = near.extent(owner, [rows.column(place) for place in near.columns(owner)]).starts
    begins = st.tuples(st.sampled_from(codes.tolist()), st.sampled_from([-1, 0, 0, 1]))
    starts = sorted(
        min(max(code + beside, 0), 2**64 - 1)
        for code, beside in draw(st.lists(begins, min_size=1, max_size=6))
    )
    return RangeRouter(Ranges(owner, tuple(starts)), near)


def where(router: RangeRouter, side: Side, rows: pa.RecordBatch) -> NDArray[np.int64]:
    """How often each row is in each instance."""
    order, offsets = router.group(side, rows)
    counts = np.zeros((len(rows), router.instances), np.int64)
    for instance in range(router.instances):
        mine = order[offsets[instance] : offsets[instance + 1]]
        assert (np.diff(mine) > 0).all()
        counts[mine, instance] += 1
    return counts


def check(router: RangeRouter, rows: pa.RecordBatch) -> None:
    """Rows of the owner are in one instance, and partners together in one."""
    left, right = (where(router, side, rows) for side in Side)
    assert ((left, right)[router.ranges.owner].sum(axis=1) == 1).all()
    assert (left.max(initial=0), right.max(initial=0)) <= (1, 1)
    assert (left.sum(axis=1) > 0).all()
    assert (right.sum(axis=1) > 0).all()
    partners, i, j = pairs(router.placing, rows)
    together = (left[i] * right[j]).sum(axis=1)
    assert (together[partners] == 1).all()


def pairs(
    placing: Placing, rows: pa.RecordBatch
) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
    """Of all pairs of rows without nulls, which are partners, and their left and right rows."""
    known = np.flatnonzero(np.all([column.is_valid() for column in rows.columns], axis=0))
    i, j = (each.reshape(-1) for each in np.meshgrid(known, known))
    sides = [rows.take(pa.array(each)) for each in (i, j)]
    if isinstance(placing, BandPlacing):
        return placing.band.codec.holds(*(side.column(0) for side in sides)), i, j
    assert isinstance(placing, IntervalPlacing)
    left, right = (
        tuple(side.column(place) for place in columns)
        for side, columns in zip(sides, placing.overlap.columns, strict=True)
    )
    return placing.overlap.codec.holds(left, right), i, j


@given(st.one_of(questions(), overlapping()))
def test_partners_are_together_in_one_instance(
    question: tuple[RangeRouter, pa.RecordBatch],
) -> None:
    check(*question)


BUGS = {
    "a range begins behind its first value": Bug(
        "", (RangeRouter, "_last_with"), 'codes, "right") - 1', 'codes, "left") - 1'
    ),
    "a row that reaches a range's last value is not sent there": Bug(
        "", (RangeRouter, "_within"), "found -= (found == self.instances) | (begins != least)", ""
    ),
    "rows of the owner are copied, and their pairs counted twice": Bug(
        "",
        (RangeRouter, "_owned"),
        "return last, last.copy()",
        "return np.maximum(last - 1, 0), last",
    ),
    "copies of the other side are not made": Bug(
        "", (RangeRouter, "_within"), "last = self._last_with(most)", "last = first.copy()"
    ),
    "rows without a value are dropped": Bug(
        "", (RangeRouter, "spans"), "first[lost] = last[lost] =", "first[lost], last[lost] = 1, 0;"
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_the_check_notices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[name].plant(monkeypatch)
    with pytest.raises(AssertionError):
        check_three_ranges()


def test_the_check_finds_no_fault_without_a_bug() -> None:
    check_three_ranges()


def check_three_ranges() -> None:
    near = band(pa.int64(), -2, 3)
    rows = pa.record_batch({"t": pa.array(NUMBERS, pa.int64())})
    for owner in Side:
        check(RangeRouter(Ranges(owner, (2**63 - 5, 2**63, 2**63 + 4)), near), rows)


# ---- even ranges --------------------------------------------------------------------------------


def histogram(side: Side, values: NDArray[Any], near: Placing) -> Histogram:
    blocks = [values[start : start + 5000] for start in range(0, len(values), 5000)]
    batches = [pa.record_batch({"t": pa.array(block)}) for block in blocks]
    return Histogram.of([noted(side, batch, near) for batch in batches], source="a look")


@dataclass(frozen=True)
class Divided:
    """What is expected, and how many rows and results instances really have."""

    division: Division
    rows: NDArray[np.int64]
    results: NDArray[np.int64]

    @property
    def unevenness(self) -> float:
        """The most work of an instance over that of all on average."""
        work = self.rows + self.results / 2
        return float(work.max() / work.mean())


def divided(left: NDArray[Any], right: NDArray[Any], near: Placing, instances: int) -> Divided:
    both = histogram(Side.LEFT, left, near), histogram(Side.RIGHT, right, near)
    division = divide(both, near, owners=(Side.LEFT,), instances=instances)
    router = RangeRouter(division.ranges, near)
    first, second = (pa.record_batch({"t": pa.array(values)}) for values in (left, right))
    rows = sum(np.diff(router.group(s, b)[1]) for s, b in zip(Side, (first, second), strict=True))
    # A row of the left side is in one instance, with all its partners.
    codes = np.sort(near.extent(Side.RIGHT, second.columns).starts)
    starts = near.extent(Side.LEFT, first.columns).starts
    least, most = near.reach(Side.LEFT, starts, starts)
    partners = np.searchsorted(codes, most, "right") - np.searchsorted(codes, least, "left")
    where, _ = router.spans(Side.LEFT, first)
    results = np.bincount(where, partners, router.instances)
    assert division.read == len(left) + len(right)
    assert len(division.rows) == router.instances <= instances
    return Divided(division, np.asarray(rows), results)


@pytest.mark.parametrize("width", [5, 2000])
@pytest.mark.parametrize("instances", [1, 2, 7, 32])
def test_instances_have_about_as_much_to_do(instances: int, width: int) -> None:
    random = np.random.default_rng(3)
    near = band(pa.int64(), -width, width)
    # Far from even: most values are small, and those of the right side are others.
    left = (random.pareto(1.0, 100_000) * 100_000).astype(np.int64)
    right = (random.pareto(1.5, 60_000) * 300_000).astype(np.int64)
    found = divided(left, right, near, instances)
    assert len(found.rows) == instances
    # Of few rows that were looked at each, the more instances there are.
    assert found.unevenness < (1.5 if instances == 32 else 1.2)
    expected = np.array(found.division.rows)
    assert np.abs(found.rows - expected).max() < 0.3 * found.rows.mean()
    assert 1 <= found.division.replication < (1.1 if width == 5 else 1.5)


def test_a_value_that_most_rows_have_is_divided() -> None:
    near = band(pa.int64(), 0, 0)
    left = np.where(np.arange(40_000) % 4 == 0, np.arange(40_000), 77)
    found = divided(left, np.arange(40_000), near, 8)
    assert found.unevenness < 1.3
    starts = found.division.ranges.starts
    assert len(set(starts)) < len(starts)


def test_equal_values_are_divided_and_their_partners_copied() -> None:
    near = band(pa.int64(), -1, 1)
    found = divided(np.full(30_000, 5), np.full(1_000, 6), near, 3)
    assert found.rows.tolist() == [11_000] * 3
    assert found.division.rows == (11_000,) * 3
    assert found.division.sent == 33_000


def test_a_band_without_an_end_copies_to_all_ranges_behind() -> None:
    near = band(pa.int64(), 0, None)
    values = np.random.default_rng(1).permutation(20_000)
    found = divided(values, values, near, 4)
    assert found.rows.sum() == pytest.approx(found.division.sent, rel=0.05)
    assert found.unevenness < 1.1
    assert 1.5 < found.division.replication < 2.5


@pytest.mark.parametrize(("left", "right"), [(0, 9), (9, 0), (0, 0)])
def test_tables_without_rows_are_divided(left: int, right: int) -> None:
    near = band(pa.int64(), -1, 1)
    found = divided(np.arange(left), np.arange(right), near, 4)
    assert found.rows.sum() >= left + right
    assert (left == 0) == (found.division.ranges.starts == (0,))


def test_of_an_inner_join_the_smaller_side_is_copied() -> None:
    near = band(pa.int64(), -1000, 1000)
    random = np.random.default_rng(4)
    sides = (random.integers(0, 20_000, 50_000), random.integers(0, 20_000, 1_000))
    left, right = (histogram(s, v, near) for s, v in zip(Side, sides, strict=True))
    found = divide((left, right), near, owners=tuple(Side), instances=4)
    assert found.ranges.owner is Side.LEFT
    swapped = histogram(Side.LEFT, sides[1], near), histogram(Side.RIGHT, sides[0], near)
    found = divide(swapped, near, owners=tuple(Side), instances=4)
    assert found.ranges.owner is Side.RIGHT


def test_rows_that_divide_evenly_are_divided_evenly() -> None:
    near = band(pa.int64(), 0, 0)
    assert divided(np.arange(256), np.arange(256), near, 4).rows.tolist() == [128] * 4
