"""A column gives back what was put in, for every Arrow type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.arrays import VALUES, name_of
from watersmeet.store.columns import ArrowColumn, fixed_bytes, make_column, variable_bytes

KINDS = [*VALUES, pa.dictionary(pa.int8(), pa.string())]
ROOM = 2**16


def arrays(kind: pa.DataType, *, nulls: bool = True) -> st.SearchStrategy[pa.Array]:
    """Arrays that may begin in the middle of their buffers, or be empty."""
    values = VALUES.get(kind, ["red", "green", "blue"])
    known: list[Any] = [*values, None] if nulls or not values else values

    def build(drawn: tuple[list[Any], int, int]) -> pa.Array:
        content, before, after = drawn
        whole = pa.array([known[0]] * before + content + [known[-1]] * after, kind)
        return whole.slice(before, len(content))

    few = st.integers(0, 3)
    return st.tuples(st.lists(st.sampled_from(known), max_size=12), few, few).map(build)


def filled(kind: pa.DataType, pieces: list[pa.Array]) -> tuple[Any, pa.Array]:
    column, rows = make_column(kind, rows=ROOM, nbytes=ROOM), 0
    for piece in pieces:
        column.append(rows, piece)
        rows += len(piece)
    return column, pa.chunked_array(pieces, kind).combine_chunks()


def assert_holds(column: Any, content: pa.Array, order: np.ndarray) -> None:
    got = column.take(order)
    got.validate(full=True)
    assert got.type == content.type
    assert got.to_pylist() == content.take(pa.array(order)).to_pylist()


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
@settings(max_examples=15)
@given(data=st.data())
def test_rows_come_back_in_any_order(kind: pa.DataType, data: st.DataObject) -> None:
    # Nulls appear late, when the column has not reckoned with them.
    early = data.draw(st.lists(arrays(kind, nulls=False), max_size=3))
    column, content = filled(kind, early + data.draw(st.lists(arrays(kind), max_size=4)))
    index = st.lists(st.integers(0, len(content) - 1), max_size=30) if len(content) else st.just([])
    assert_holds(column, content, np.array(data.draw(index), np.int64))


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
@settings(max_examples=15)
@given(data=st.data())
def test_chosen_values_are_added_as_if_they_had_been_copied_out_first(
    kind: pa.DataType, data: st.DataObject
) -> None:
    pieces = data.draw(st.lists(arrays(kind, nulls=False), max_size=3))
    pieces += data.draw(st.lists(arrays(kind), max_size=2))
    column, copied, rows = make_column(kind, rows=ROOM, nbytes=ROOM), list[pa.Array](), 0
    for piece in pieces:
        size = len(piece)
        wanted = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
        chosen = np.flatnonzero(np.array(wanted, np.bool_))
        column.append(rows, piece, chosen)
        copied.append(piece.take(pa.array(chosen)))
        rows += len(chosen)
    content = pa.chunked_array(copied, kind).combine_chunks()
    assert_holds(column, content, np.arange(rows))
    column.close_gaps(np.arange(rows) % 2 == 0)
    assert_holds(column, content.take(pa.array(np.arange(0, rows, 2))), np.arange((rows + 1) // 2))


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
@settings(max_examples=15)
@given(data=st.data())
def test_closing_gaps_keeps_the_others_and_takes_more_after(
    kind: pa.DataType, data: st.DataObject
) -> None:
    column, content = filled(kind, data.draw(st.lists(arrays(kind), max_size=4)))
    for _ in range(2):
        size = len(content)
        keep = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), np.bool_)
        column.close_gaps(keep)
        content = content.filter(pa.array(keep, pa.bool_()))
        more = data.draw(arrays(kind))
        column.append(len(content), more)
        content = pa.chunked_array([content, more], kind).combine_chunks()
        assert_holds(column, content, np.arange(len(content)))


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
def test_rows_that_a_mask_does_not_reach_are_forgotten(kind: pa.DataType) -> None:
    values = [*VALUES.get(kind, ["red"]), None] * 2
    column, content = filled(kind, [pa.array(values, kind)])
    column.close_gaps(np.zeros(0, np.bool_))
    assert column.variable_bytes == 0
    column.append(0, content)
    assert_holds(column, content, np.arange(len(content)))


@pytest.mark.parametrize("kind", KINDS, ids=name_of)
@settings(max_examples=10)
@given(data=st.data())
def test_bytes_foretold_are_bytes_held(kind: pa.DataType, data: st.DataObject) -> None:
    pieces = data.draw(st.lists(arrays(kind), max_size=4))
    column, content = filled(kind, pieces)
    assert column.fixed_bytes == fixed_bytes(kind)
    foretold = sum(map(variable_bytes, pieces))
    if isinstance(column, ArrowColumn):
        # Putting arrays together pads their bitmaps, and a dictionary may be needed once only.
        assert column.variable_bytes <= foretold + 16 * len(pieces) + 8 * len(content)
    else:
        assert column.variable_bytes == foretold


@pytest.mark.parametrize(
    ("kind", "values", "nbytes"),
    [(pa.string(), ["", "ab", None, "cde"], 5), (pa.int64(), [1, 2], 0), (pa.binary(), [], 0)],
    ids=str,
)
def test_variable_bytes_are_the_bytes_of_the_values(
    kind: pa.DataType, values: list[Any], nbytes: int
) -> None:
    column, content = filled(kind, [pa.array(values, kind)])
    assert column.variable_bytes == variable_bytes(content) == nbytes


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.struct({"x": pa.int64()})], ids=name_of)
def test_a_slice_does_not_keep_its_whole_array_alive(kind: pa.DataType) -> None:
    """Nobody would count that memory."""
    before = pa.total_allocated_bytes()
    value: Any = [1] if pa.types.is_list(kind) else {"x": 1}
    for start in (0, 5):
        large = pa.array([value] * 100_000, kind)
        column, _ = filled(kind, [large.slice(start, 10)])
        del large
        assert pa.total_allocated_bytes() - before < 20_000
        assert column.variable_bytes < 1_000


def test_a_column_of_many_small_pieces_has_few_pieces() -> None:
    kind = pa.dictionary(pa.int32(), pa.int64())
    column, content = filled(kind, [pa.array([n]).dictionary_encode() for n in range(300)])
    assert len(column._pieces) <= 10
    assert_holds(column, content, np.arange(300)[::-1].copy())


def test_keys_of_fixed_and_variable_width_are_read_in_place() -> None:
    numbers, _ = filled(pa.int32(), [pa.array([1, 258], pa.int32())])
    buffers = numbers.key_buffers()
    assert buffers.width == 4
    assert buffers.data[:8].tolist() == [1, 0, 0, 0, 2, 1, 0, 0]
    texts, _ = filled(pa.string(), [pa.array(["ab", "", "c"])])
    buffers = texts.key_buffers()
    assert buffers.offsets[:4].tolist() == [0, 2, 2, 3]
    assert bytes(buffers.data[:3]) == b"abc"
