"""Equal values have one number, different values different ones."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.aggregates.partials.groups import Groups

NAN = float("nan")
COLUMNS: dict[pa.DataType, list[Any]] = {
    pa.string(): ["", "a", "b"],
    pa.large_string(): ["", "a"],
    pa.dictionary(pa.int8(), pa.string()): ["x", "y"],
    pa.int64(): [0, -1, 2**62],
    pa.bool_(): [True, False],
    pa.float64(): [0.0, -0.0, NAN, 1.5],
    pa.decimal128(20, 2): [0, 1],
    pa.date32(): [0, 1],
}


def plain(value: Any) -> Any:
    """NaN is one value, and zero has no sign."""
    if isinstance(value, float):
        return "NaN" if np.isnan(value) else value + 0.0
    return value


@given(st.data())
def test_numbers_stand_for_values(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=4))
    rows = data.draw(st.integers(0, 20))
    columns = [
        pa.array(
            data.draw(
                st.lists(st.none() | st.sampled_from(COLUMNS[kind]), min_size=rows, max_size=rows)
            ),
            kind,
        )
        for kind in kinds
    ]
    groups = Groups.of(columns)
    assert groups.codes is not None
    wanted = [
        tuple(map(plain, row))
        for row in zip(*(column.to_pylist() for column in columns), strict=True)
    ]
    names = [
        tuple(map(plain, row))
        for row in zip(*(values.to_pylist() for values in groups.values), strict=True)
    ]
    assert len(names) == groups.count == len(set(wanted))
    assert [names[code] for code in groups.codes] == wanted
    # As they come: known groups put first keep their numbers.
    assert names == list(dict.fromkeys(wanted))


def test_no_columns_are_one_group() -> None:
    groups = Groups.of([])
    assert (groups.codes, groups.values, groups.count) == (None, (), 1)


def test_more_combinations_than_64_bits_can_number() -> None:
    """Six columns of 5,000 values each: 10 to the 22nd could occur, 10,000 do."""
    random = np.random.default_rng(0)
    columns = [random.permutation(5_000) for _ in range(6)]
    twice = [pa.array(np.concatenate([column, column])) for column in columns]
    groups = Groups.of(twice)
    assert groups.codes is not None
    assert groups.count == 5_000
    assert groups.codes.tolist() == [*range(5_000), *range(5_000)]
    for values, column in zip(groups.values, columns, strict=True):
        assert values.to_pylist() == column.tolist()


def test_every_nan_is_one_group_whatever_its_bits() -> None:
    bits = np.array([0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000], np.uint64)
    groups = Groups.of([pa.array(bits.view(np.float64))])
    assert groups.count == 1


@pytest.mark.parametrize("kind", [pa.float16(), pa.decimal32(5, 1), pa.decimal64(12, 1)])
def test_short_numbers_are_grouped_in_sparks_types(kind: pa.DataType) -> None:
    values = pa.array([1.5, None, 2.5, 1.5] if kind == pa.float16() else
                      [Decimal("1.5"), None, Decimal("2.5"), Decimal("1.5")], kind)  # fmt: skip
    assert Groups.of([values]).codes.tolist() == [0, 1, 2, 0]  # type: ignore[union-attr]
