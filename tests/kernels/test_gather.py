"""Copying by position and closing gaps, against lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.kernels import gather

TEXTS = st.lists(st.binary(max_size=6), max_size=12)


def laid_out(texts: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int64)
    return offsets, np.frombuffer(b"".join(texts) + b"beyond", np.uint8).copy()


@pytest.mark.parametrize("offset_type", [np.int32, np.int64])
@given(texts=TEXTS, data=st.data())
def test_values_are_copied_in_the_order_asked_for(
    offset_type: type, texts: list[bytes], data: st.DataObject
) -> None:
    offsets, content = laid_out(texts)
    positions = st.lists(st.integers(0, len(texts) - 1)) if texts else st.just([])
    index = np.array(data.draw(positions), np.int64)
    out_offsets: np.ndarray = np.full(len(index) + 1, -1, offset_type)
    total = gather.lay_out(offsets, index, out_offsets)
    chosen = [texts[i] for i in index]
    assert total == sum(map(len, chosen))
    assert out_offsets.tolist() == np.cumsum([0, *map(len, chosen)]).tolist()
    out = np.empty(total, np.uint8)
    gather.copy_bytes(offsets, content, index, out)
    assert bytes(out) == b"".join(chosen)


@pytest.mark.parametrize("kind", [np.bool_, np.uint8, np.uint16, np.uint32, np.uint64])
def test_values_of_one_word_are_copied_in_the_order_asked_for(kind: type) -> None:
    values: np.ndarray = (np.arange(100) * 7).astype(kind)
    index = np.array([99, 0, 0, 50, 3], np.int64)
    out: np.ndarray = np.empty(5, kind)
    gather.take_values(values, index, out)
    assert out.tolist() == values[index].tolist()


def masked(size: int, data: st.DataObject) -> np.ndarray:
    return np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), np.bool_)


@given(texts=TEXTS, data=st.data())
def test_gaps_between_texts_are_closed(texts: list[bytes], data: st.DataObject) -> None:
    offsets, content = laid_out(texts)
    keep = masked(len(texts), data)
    gather.close_gaps(offsets, content, keep)
    kept = [text for text, stays in zip(texts, keep, strict=True) if stays]
    assert offsets[: len(kept) + 1].tolist() == np.cumsum([0, *map(len, kept)]).tolist()
    assert bytes(content[: sum(map(len, kept))]) == b"".join(kept)


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.uint16, np.uint32, np.uint64, np.int64])
@given(size=st.integers(0, 20), data=st.data())
def test_gaps_between_numbers_are_closed(dtype: type, size: int, data: st.DataObject) -> None:
    values: np.ndarray = np.arange(size + 2).astype(dtype)
    before, keep = values.copy(), masked(size, data)
    kept = gather.close_values(values, keep)
    assert kept == np.count_nonzero(keep)
    assert values[:kept].tolist() == before[:size][keep].tolist()
    assert values[size:].tolist() == before[size:].tolist()


@given(size=st.integers(0, 20), data=st.data())
def test_gaps_between_pairs_are_closed(size: int, data: st.DataObject) -> None:
    values = np.arange(2 * size, dtype=np.uint64).reshape(size, 2)
    before, keep = values.copy(), masked(size, data)
    kept = gather.close_pairs(values, keep)
    assert values[:kept].tolist() == before[keep].tolist()
