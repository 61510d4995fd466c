"""Hashes of keys, and exact equality of the bytes behind equal hashes.

A key that fits 64 bits is mixed by a bijection: its hash is the key in another spelling, so equal
hashes are equal keys. Longer keys are hashed as bytes and compared as bytes. High bits of a hash
choose partitions and low bits choose buckets, so every bit must depend on the whole key.

Bytes are read eight at a time. `words` is an overlapping view of `data` with a step of one byte:
`words[i]` is the little-endian word that starts at byte `i`, wherever that is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_WORDS = types.Array(types.uint64, 1, "A", readonly=True, aligned=False)
_HASHES = types.Array(types.uint64, 1, "C", readonly=True)
_OFFSETS_32 = types.Array(types.int32, 1, "C", readonly=True)
_OFFSETS_64 = types.Array(types.int64, 1, "C", readonly=True)
_INDEX = types.Array(types.int64, 1, "C", readonly=True)

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_PRIME_1 = np.uint64(0x9E3779B185EBCA87)
_PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_4 = np.uint64(0x85EBCA77C2B2AE63)
_PRIME_5 = np.uint64(0x27D4EB2F165667C5)


def words_of(data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The word that starts at every byte of `data` from which eight bytes can be read."""
    return np.ndarray((max(len(data) - 7, 0),), "<u8", buffer=data, strides=(1,))


@njit(nogil=True, cache=True)
def _mix(code: Any) -> Any:
    """Steele, Lea and Flood's SplitMix64 finaliser (OOPSLA 2014): a bijection of 64 bits."""
    code = code + _GOLDEN
    code = (code ^ (code >> np.uint64(30))) * _MIX_1
    code = (code ^ (code >> np.uint64(27))) * _MIX_2
    return code ^ (code >> np.uint64(31))


@njit(nogil=True, cache=True)
def _rotate(word: Any, bits: Any) -> Any:
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@njit(nogil=True, cache=True)
def _absorb(state: Any, word: Any) -> Any:
    """One step of XXH64 (Collet, 2012)."""
    state = state ^ (_rotate(word * _PRIME_2, 31) * _PRIME_1)
    return _rotate(state, 27) * _PRIME_1 + _PRIME_4


@njit(nogil=True, cache=True)
def _short_word(data: Any, words: Any, start: Any, length: Any) -> Any:
    """Up to seven bytes as a word padded with zeros, without reading past the buffer."""
    if length <= 0:
        return np.uint64(0)
    unused = np.uint64(8 * (8 - length))
    if start < words.size:
        return (words[start] << unused) >> unused
    if start + length >= 8:
        return words[start + length - 8] >> unused
    word = np.uint64(0)
    for i in range(length):
        word |= np.uint64(data[start + i]) << np.uint64(8 * i)
    return word


@njit(nogil=True, cache=True)
def _hash_span(data: Any, words: Any, start: Any, length: Any) -> Any:
    # The length is part of the seed because the last word overlaps the one before it.
    state = _GOLDEN ^ (np.uint64(length) * _PRIME_5)
    if length >= 8:
        last = start + length - 8
        for i in range(start, last, 8):
            state = _absorb(state, words[i])
        state = _absorb(state, words[last])
    else:
        state = _absorb(state, _short_word(data, words, start, length))
    return _mix(state)


@njit(nogil=True, cache=True)
def _equal_spans(
    data_a: Any, words_a: Any, a: Any, data_b: Any, words_b: Any, b: Any, length: Any
) -> Any:
    if length < 8:
        word_a = _short_word(data_a, words_a, a, length)
        return word_a == _short_word(data_b, words_b, b, length)
    last = length - 8
    for i in range(0, last, 8):
        if words_a[a + i] != words_b[b + i]:
            return False
    return words_a[a + last] == words_b[b + last]


@njit([types.uint64[::1](_HASHES)], nogil=True, cache=True)
def hash_codes(codes):  # type: ignore[no-untyped-def]
    """Hashes of keys that are 64-bit codes. Distinct codes have distinct hashes."""
    hashes = np.empty(codes.size, np.uint64)
    for row in range(codes.size):
        hashes[row] = _mix(codes[row])
    return hashes


@njit(
    [
        types.uint64[::1](_BYTES, _WORDS, _OFFSETS_32),
        types.uint64[::1](_BYTES, _WORDS, _OFFSETS_64),
    ],
    nogil=True,
    cache=True,
)
def hash_bytes(data, words, offsets):  # type: ignore[no-untyped-def]
    """Hashes of the byte strings `data[offsets[i]:offsets[i + 1]]`."""
    hashes = np.empty(max(offsets.size - 1, 0), np.uint64)
    for row in range(hashes.size):
        start = np.int64(offsets[row])
        hashes[row] = _hash_span(data, words, start, np.int64(offsets[row + 1]) - start)
    return hashes


@njit([types.uint64[::1](_BYTES, _WORDS, types.int64, types.int64)], nogil=True, cache=True)
def hash_fixed(data, words, width, rows):  # type: ignore[no-untyped-def]
    """Hashes of `rows` byte strings of `width` bytes; the same as `hash_bytes` gives for them."""
    hashes = np.empty(rows, np.uint64)
    for row in range(rows):
        hashes[row] = _hash_span(data, words, row * width, width)
    return hashes


_SIDE = (_BYTES, _WORDS, _OFFSETS_64, types.int64, _INDEX)


@njit([types.boolean[::1](*_SIDE, *_SIDE)], nogil=True, cache=True)
def equal_bytes(  # type: ignore[no-untyped-def]
    data_a, words_a, offsets_a, width_a, index_a, data_b, words_b, offsets_b, width_b, index_b
):
    """Whether the byte strings at `index_a[i]` and `index_b[i]` are equal.

    A side without offsets has fixed width; the two sides need not be of the same kind.
    """
    equal = np.empty(index_a.size, np.bool_)
    fixed_a, fixed_b = offsets_a.size == 0, offsets_b.size == 0
    for i in range(index_a.size):
        row_a, row_b = index_a[i], index_b[i]
        if fixed_a:
            start_a, length_a = row_a * width_a, width_a
        else:
            start_a = offsets_a[row_a]
            length_a = offsets_a[row_a + 1] - start_a
        if fixed_b:
            start_b, length_b = row_b * width_b, width_b
        else:
            start_b = offsets_b[row_b]
            length_b = offsets_b[row_b + 1] - start_b
        equal[i] = length_a == length_b and _equal_spans(
            data_a, words_a, start_a, data_b, words_b, start_b, length_a
        )
    return equal


@njit([types.uint16[::1](_HASHES, types.int64)], nogil=True, cache=True)
def partition_of(hashes, partitions):  # type: ignore[no-untyped-def]
    """Partition of every hash: its high 32 bits scaled to [0, partitions), at most 65,536."""
    chosen = np.empty(hashes.size, np.uint16)
    count = np.uint64(partitions)
    for row in range(hashes.size):
        chosen[row] = np.uint16(((hashes[row] >> np.uint64(32)) * count) >> np.uint64(32))
    return chosen
