"""Ranges of values: each pair of partners is together in one instance, and instances are even."""

from __future__ import annotations

import math
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
from watersmeet.rows.predicates import ValuesInBand
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


def band(kind: pa.DataType, low: Any, high: Any, *, open: bool = False) -> ValuesInBand:
    asked = Band("t", "t", low=low, high=high, low_open=open, high_open=open)
    field = pa.field("t", kind)
    return ValuesInBand((0, 1), (0, 0), asked.resolve(field, field), str(asked))


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
    owner = draw(st.sampled_from(Side))
    codes = near.codec.encode(owner, rows.column(0)).codes
    begins = st.tuples(st.sampled_from(codes.tolist()), st.sampled_from([-1, 0, 0, 1]))
    starts = sorted(
        min(max(code + beside, 0), 2**64 - 1)
        for code, beside in draw(st.lists(begins, min_size=1, max_size=6))
    )
    return RangeRouter(Ranges(owner, tuple(starts)), near), rows


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
    known = np.flatnonzero(rows.column(0).is_valid().to_numpy(zero_copy_only=False))
    i, j = (each.reshape(-1) for each in np.meshgrid(known, known))
    partners = router.band.codec.holds(rows.column(0).take(i), rows.column(0).take(j))
    together = (left[i] * right[j]).sum(axis=1)
    assert (together[partners] == 1).all()


@given(questions())
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


def histogram(side: Side, values: NDArray[Any], near: ValuesInBand) -> Histogram:
    blocks = [values[start : start + 5000] for start in range(0, len(values), 5000)]
    return Histogram.of([noted(side, pa.array(block), near) for block in blocks], source="a look")


def divided(
    left: NDArray[Any], right: NDArray[Any], near: ValuesInBand, instances: int
) -> tuple[Division, NDArray[np.int64]]:
    """What is expected, and how many rows really go to each instance."""
    both = histogram(Side.LEFT, left, near), histogram(Side.RIGHT, right, near)
    division = divide(both, near, owners=(Side.LEFT,), instances=instances)
    router = RangeRouter(division.ranges, near)
    counts = sum(
        np.diff(router.group(side, pa.record_batch({"t": pa.array(values)}))[1])
        for side, values in zip(Side, (left, right), strict=True)
    )
    assert division.read == len(left) + len(right)
    assert len(division.rows) == router.instances <= instances
    return division, np.asarray(counts)


@pytest.mark.parametrize("instances", [1, 2, 7, 32])
def test_instances_have_about_as_many_rows(instances: int) -> None:
    random = np.random.default_rng(3)
    near = band(pa.int64(), -5, 5)
    # Far from even: most values are small, and those of the right side are others.
    left = (random.pareto(1.0, 100_000) * 10_000).astype(np.int64)
    right = (random.pareto(1.5, 60_000) * 30_000).astype(np.int64)
    division, counts = divided(left, right, near, instances)
    assert len(counts) == instances
    assert counts.max() < 1.25 * counts.mean()
    assert np.abs(counts - np.array(division.rows)).max() < 0.25 * counts.mean()
    assert 1 <= division.replication < 1.1


def test_a_value_that_most_rows_have_is_divided() -> None:
    near = band(pa.int64(), 0, 0)
    left = np.where(np.arange(40_000) % 4 == 0, np.arange(40_000), 77)
    right = np.arange(40_000)
    division, counts = divided(left, right, near, 8)
    assert counts.max() < 1.3 * counts.mean()
    assert len(set(division.ranges.starts)) < len(division.ranges.starts)


def test_equal_values_are_divided_and_their_partners_copied() -> None:
    near = band(pa.int64(), -1, 1)
    division, counts = divided(np.full(30_000, 5), np.full(1_000, 6), near, 3)
    assert counts.tolist() == [11_000] * 3
    assert division.rows == (11_000,) * 3
    assert division.sent == 33_000


def test_a_band_without_an_end_copies_to_all_ranges_behind() -> None:
    near = band(pa.int64(), 0, None)
    values = np.random.default_rng(1).permutation(20_000)
    division, counts = divided(values, values, near, 4)
    assert counts.sum() == pytest.approx(division.sent, rel=0.05)
    # Ranges with small values are longer, since fewer rows reach them.
    assert counts.max() < 1.1 * counts.mean()
    assert 1.5 < division.replication < 2.5


@pytest.mark.parametrize(("left", "right"), [(0, 9), (9, 0), (0, 0)])
def test_tables_without_rows_are_divided(left: int, right: int) -> None:
    near = band(pa.int64(), -1, 1)
    division, counts = divided(np.arange(left), np.arange(right), near, 4)
    assert counts.sum() >= left + right
    assert (left == 0) == (division.ranges.starts == (0,))


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
    _, counts = divided(np.arange(256), np.arange(256), near, 4)
    assert counts.tolist() == [128] * 4
