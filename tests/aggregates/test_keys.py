"""How rows find the entries of their key: by place where keys are close together, else by hash."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.aggregates.partials.groups import Groups
from watersmeet.aggregates.partials.keys import DenseIndex, HashIndex, RowKeys, indexed

_NO_ROWS = pa.record_batch({"k": pa.array([], pa.int64())})
_EDGES = [0, 1, 2, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
KEYS = st.lists(
    st.one_of(st.sampled_from(_EDGES), st.integers(0, 40), st.integers(2**64 - 40, 2**64 - 1)),
    max_size=40,
)


@given(there=KEYS, wanted=KEYS, room=st.sampled_from([0, 64, 2**12]))
def test_rows_find_the_number_of_their_key_and_no_other(
    there: list[int], wanted: list[int], room: int
) -> None:
    index, numbers = indexed(np.array(there, np.uint64), plain=True, room=room)
    first = {key: number for number, key in enumerate(dict.fromkeys(there))}
    assert numbers.tolist() == [first[key] for key in there]
    assert len(index) == len(first)
    rows, found = index.find(RowKeys(_NO_ROWS, np.array(wanted, np.uint64), None, True))
    assert list(zip(rows.tolist(), found.tolist(), strict=True)) == [
        (row, first[key]) for row, key in enumerate(wanted) if key in first
    ]


@given(there=KEYS, distinct=KEYS.filter(bool), room=st.sampled_from([0, 2**12]), data=st.data())
def test_keys_that_have_numbers_are_found_as_if_they_stood_in_every_row(
    there: list[int], distinct: list[int], room: int, data: st.DataObject
) -> None:
    places = data.draw(st.lists(st.integers(0, len(distinct) - 1), max_size=40))
    index, _ = indexed(np.array(there, np.uint64), plain=True, room=room)
    keys = np.array(distinct, np.uint64)
    plain = index.find(RowKeys(_NO_ROWS, keys[np.array(places, np.int64)], None, True))
    numbered = RowKeys(_NO_ROWS, keys, None, True, np.array(places, np.int32))
    for mine, others in zip(index.find(numbered), plain, strict=True):
        assert mine.tolist() == others.tolist()


@pytest.mark.parametrize(
    ("keys", "room", "kind"),
    [
        (range(100), 0, DenseIndex),
        (range(0, 600, 6), 0, DenseIndex),
        (range(0, 1000, 10), 0, HashIndex),
        (range(0, 1000, 10), 1000, DenseIndex),
        # Signed -1 beside 1: far apart as bits.
        ([2**64 - 1, 1], 1000, HashIndex),
    ],
)
def test_an_index_by_place_takes_no_more_than_hashes_would(
    keys: list[int], room: int, kind: type
) -> None:
    index, _ = indexed(np.array(list(keys), np.uint64), plain=True, room=room)
    assert isinstance(index, kind)


def test_hashes_are_not_taken_for_keys() -> None:
    index, _ = indexed(np.arange(100, dtype=np.uint64), plain=False, room=1000)
    assert isinstance(index, HashIndex)


VALUES = st.lists(st.one_of(st.none(), st.sampled_from(["", "a", "b", "long " * 9])), max_size=12)


@given(
    values=VALUES,
    numbers=st.lists(st.one_of(st.none(), st.integers(0, 11)), max_size=30),
    other=st.booleans(),
)
def test_text_that_comes_with_numbers_is_grouped_as_text(
    values: list[str | None], numbers: list[int | None], other: bool
) -> None:
    """Dictionaries may have a value twice, null among them, or values of no row."""
    chosen = [None if n is None or n >= len(values) else n for n in numbers]
    column = pa.DictionaryArray.from_arrays(
        pa.array(chosen, pa.int32()), pa.array(values, pa.string())
    )
    plain = pa.array([None if n is None else values[n] for n in chosen], pa.string())
    columns = [pa.array([n % 2 for n in range(len(chosen))])] if other else []
    groups = Groups.of([column, *columns])
    assert groups.codes is not None
    taken = [each.take(pa.array(groups.codes)) for each in groups.values]
    assert tuples(taken) == tuples([plain, *columns])
    distinct = tuples(groups.values)
    assert len(set(distinct)) == len(distinct) == groups.count


def tuples(columns: Sequence[pa.Array]) -> list[tuple[object, ...]]:
    return list(zip(*(each.to_pylist() for each in columns), strict=True))
