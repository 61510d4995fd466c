"""Hashes must be exact where promised, even in all their bits, and blind to where bytes lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from watersmeet.kernels import hashing, packing

NO_OFFSETS = np.empty(0, np.int64)
texts = st.lists(st.binary(max_size=40), max_size=12)


def laid_out(values: list[bytes], *, before: bytes = b"") -> tuple[NDArray[Any], ...]:
    """Values end to end after some foreign bytes; exactly as long as it must be."""
    data = np.frombuffer(before + b"".join(values), np.uint8)
    offsets = np.cumsum([len(before), *map(len, values)]).astype(np.int64)
    return data, offsets


def unmixed(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64 backwards, from the inverses of its multipliers modulo 2^64."""
    modulus = 2**64
    code = [int(h) for h in hashes]
    code = [c ^ (c >> 31) ^ (c >> 62) for c in code]
    code = [c * pow(0x94D049BB133111EB, -1, modulus) % modulus for c in code]
    code = [c ^ (c >> 27) ^ (c >> 54) for c in code]
    code = [c * pow(0xBF58476D1CE4E5B9, -1, modulus) % modulus for c in code]
    code = [c ^ (c >> 30) ^ (c >> 60) for c in code]
    return np.array([(c - 0x9E3779B97F4A7C15) % modulus for c in code], np.uint64)


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_the_hash_of_a_code_can_be_undone(codes: list[int]) -> None:
    given_codes = np.array(codes, np.uint64)
    np.testing.assert_array_equal(unmixed(hashing.hash_codes(given_codes)), given_codes)


@pytest.mark.parametrize("shift", [0, 8, 32, 52], ids=lambda s: f"keys times 2^{s}")
def test_every_bit_of_a_hash_depends_on_every_bit_of_a_code(shift: int) -> None:
    """Consecutive keys, the hard case: flipping one bit flips each hash bit half the time."""
    codes = np.arange(4096, dtype=np.uint64) << np.uint64(shift)
    hashes = hashing.hash_codes(codes)
    for bit in range(64):
        flipped = hashes ^ hashing.hash_codes(codes ^ np.uint64(1 << bit))
        share = np.unpackbits(flipped.view(np.uint8).reshape(-1, 8), axis=1).mean(axis=0)
        # Six standard deviations of a fair coin tossed 4,096 times are 0.047.
        assert abs(share - 0.5).max() < 0.08, bit


@pytest.mark.parametrize("length", [2, 3, 4, 7, 8, 9, 16, 17, 31])
def test_every_byte_of_a_text_matters_to_every_part_of_its_hash(length: int) -> None:
    rng = np.random.default_rng(length)
    texts = rng.integers(0, 256, (2048, length), np.uint8)
    hashes = hashing.hash_fixed(texts.ravel(), length, len(texts))
    for at in range(length):
        changed = texts.copy()
        changed[:, at] ^= np.uint8(1)
        others = hashing.hash_fixed(changed.ravel(), length, len(texts))
        share = np.unpackbits((hashes ^ others).view(np.uint8).reshape(-1, 8), axis=1).mean(axis=0)
        assert abs(share - 0.5).max() < 0.1, at


def test_hundred_thousand_texts_have_as_many_hashes() -> None:
    values = [f"key{i}".encode() for i in range(100_000)]
    data, offsets = laid_out(values)
    hashes = hashing.hash_bytes(data, offsets)
    # Two of 100,000 random 64-bit numbers agree less than once in three billion draws.
    assert len(np.unique(hashes)) == len(values)
    counts = np.bincount(hashing.partition_of(hashes, 7), minlength=7)
    assert abs(counts / len(values) - 1 / 7).max() < 0.01


@given(values=texts, before=st.binary(max_size=9), after=st.binary(max_size=9))
def test_a_hash_depends_on_the_bytes_and_not_on_their_neighbours(
    values: list[bytes], before: bytes, after: bytes
) -> None:
    data, offsets = laid_out(values)
    moved, moved_offsets = laid_out([*values, after], before=before)
    own = hashing.hash_bytes(data, offsets)
    np.testing.assert_array_equal(own, hashing.hash_bytes(moved, moved_offsets)[: len(values)])
    narrow = hashing.hash_bytes(data, offsets.astype(np.int32))
    np.testing.assert_array_equal(own, narrow)


@given(st.integers(1, 20), st.integers(0, 5), st.randoms(use_true_random=False))
def test_fixed_width_makes_no_difference(width: int, rows: int, random: object) -> None:
    values = [random.randbytes(width) for _ in range(rows)]  # type: ignore[attr-defined]
    data, offsets = laid_out(values)
    np.testing.assert_array_equal(
        hashing.hash_fixed(data, width, rows), hashing.hash_bytes(data, offsets)
    )


def test_zeros_of_different_lengths_have_different_hashes() -> None:
    data, offsets = laid_out([bytes(n) for n in range(64)])
    assert len(np.unique(hashing.hash_bytes(data, offsets))) == 64


# Few letters and few lengths, so that equal and nearly equal texts are common.
alike = st.lists(
    st.builds(lambda s, n: s * n, st.sampled_from([b"a", b"b", b"ab"]), st.integers(0, 12)),
    max_size=6,
)


@given(left=alike, right=alike, before=st.binary(max_size=3))
def test_equal_bytes_is_python_equality(
    left: list[bytes], right: list[bytes], before: bytes
) -> None:
    a, b = np.divmod(np.arange(len(left) * len(right)), max(len(right), 1))
    left_data, left_offsets = laid_out(left, before=before)
    right_data, right_offsets = laid_out(right)
    found = hashing.equal_bytes(left_data, left_offsets, 0, a, right_data, right_offsets, 0, b)
    assert found.tolist() == [x == y for x in left for y in right]


@pytest.mark.parametrize("width", [1, 2, 3, 5, 8, 11, 24])
def test_equal_bytes_sees_a_difference_at_any_place(width: int) -> None:
    one = np.zeros((width + 1, width), np.uint8)
    one[np.arange(width), np.arange(width)] = 1
    rows = np.arange(width + 1)
    zero = np.zeros(width, np.uint8)
    found = hashing.equal_bytes(
        one.ravel(), NO_OFFSETS, width, rows, zero, NO_OFFSETS, width, np.zeros_like(rows)
    )
    assert found.tolist() == [False] * width + [True]


def test_fixed_and_variable_width_can_be_compared() -> None:
    data, offsets = laid_out([b"abc", b"ab", b"abd"])
    fixed = np.frombuffer(b"abcabd", np.uint8)
    found = hashing.equal_bytes(
        data, offsets, 0, np.array([0, 1, 2, 2]), fixed, NO_OFFSETS, 3, np.array([0, 0, 1, 0])
    )
    assert found.tolist() == [True, False, True, False]


@given(
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20),
    st.integers(1, 2**16),
)
def test_partitions_are_the_hash_scaled(hashes: list[int], partitions: int) -> None:
    found = hashing.partition_of(np.array(hashes, np.uint64), partitions)
    assert found.tolist() == [(h >> 32) * partitions >> 32 for h in hashes]
    assert max(found) < partitions


def test_kernels_take_what_arrow_hands_out() -> None:
    """Read-only arrays, which is what every Arrow buffer is."""
    frozen = np.arange(3, dtype=np.uint64)
    frozen.flags.writeable = False
    np.testing.assert_array_equal(hashing.hash_codes(frozen), hashing.hash_codes(frozen.copy()))


@given(values=texts, width=st.integers(0, 20))
def test_parts_are_laid_end_to_end(values: list[bytes], width: int) -> None:
    rng = np.random.default_rng(width)
    fixed = rng.integers(0, 256, (len(values), width), np.uint8)
    whole = [bytes(head) + text for head, text in zip(fixed, values, strict=True)]
    data, offsets = laid_out(values, before=b"x")
    out = np.empty(sum(map(len, whole)), np.uint8)
    cursor = np.cumsum([0, *map(len, whole)])[:-1].astype(np.int64)
    packing.place_fixed(out, cursor, fixed.ravel(), width)
    packing.place_bytes(out, cursor, data, offsets)
    assert out.tobytes() == b"".join(whole)
    assert cursor.tolist() == np.cumsum([*map(len, whole)]).tolist()
