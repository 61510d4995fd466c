"""Every key has one wave, each wave about its share of the rows, whatever parts overlap."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.errors import InputChanged
from watersmeet.model import Side
from watersmeet.spark.tables.stretches import KeyRanges, Stretches
from watersmeet.spark.tables.waves import shares

ENDS = shares(closed=True)


def ranges_in(cuts: set[int], overlap: int) -> list[tuple[int, int]]:
    return [(start, stop - 1 + overlap) for start, stop in pairwise([0, *sorted(cuts), 100_000])]


@given(
    cuts=st.tuples(*[st.sets(st.integers(1, 99_999), min_size=15, max_size=90)] * 2),
    overlap=st.integers(0, 2_000),
    base=st.sampled_from([0, -(2**63), 2**63 - 200_000]),
    seed=st.integers(0, 99),
)
def test_waves_have_their_shares_of_keys(
    cuts: tuple[set[int], set[int]], overlap: int, base: int, seed: int
) -> None:
    first, second = (
        [(base + least, base + most) for least, most in ranges_in(side, overlap)] for side in cuts
    )
    rows = [[most - least + 1 for least, most in side] for side in (first, second)]
    known = KeyRanges(("k", "k"), (first, second), (rows[0], rows[1]))
    found = Stretches.of(known, ENDS, seed=seed)
    assert set(found.waves) == set(range(len(ENDS)))
    assert np.all(np.diff(found.starts) > 0)
    keys = pa.array(np.arange(100_000) + base)
    of_wave = {
        wave: len(part) for wave, part in found.divided(Side.LEFT, pa.record_batch({"k": keys}), 0)
    }
    assert sum(of_wave.values()) == 100_000
    # Where parts overlap, a part's rows are spread evenly in truth, too.
    if not overlap:
        so_far = np.cumsum([of_wave[wave] for wave in range(len(ENDS))]) / 100_000
        assert so_far == pytest.approx(ENDS, abs=0.01)


@pytest.mark.parametrize("kind", [pa.int32(), pa.date32(), pa.timestamp("us", "UTC")])
def test_equal_keys_have_one_wave_and_rows_without_a_key_that_of_their_reading(
    kind: pa.DataType,
) -> None:
    found = Stretches(("k", "other"), np.array([10, 20]), np.array([1, 3, 2]))
    left = pa.record_batch({"k": pa.array([5, None, 10, 19, 20, 9]).cast(pa.int32())})
    left = left.set_column(
        0, "k", left.column(0).cast(pa.int64() if kind.bit_width > 32 else pa.int32()).cast(kind)
    )
    divided = {
        wave: rows.column(0).cast(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
        for wave, rows in found.divided(Side.LEFT, left, 1)
    }
    assert divided == {1: [5, None, 9], 2: [20], 3: [10, 19]}
    right = left.rename_columns(["other"]).slice(1, 1)
    assert [(wave, len(rows)) for wave, rows in found.divided(Side.RIGHT, right, 2)] == [(2, 1)]


def test_a_key_of_a_wave_that_has_been_joined_is_an_error() -> None:
    found = Stretches(("k", "k"), np.array([10]), np.array([0, 1]))
    batch = pa.record_batch({"k": pa.array([3, 12])})
    with pytest.raises(InputChanged, match="outside of those"):
        list(found.divided(Side.LEFT, batch, 1))
    with pytest.raises(InputChanged, match="outside of those"):
        list(found.divided(Side.LEFT, batch.slice(0, 1), 1))
