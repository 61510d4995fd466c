"""Decimals as 64-bit integers: Arrow stores 16 bytes for each, and most need only eight."""

from __future__ import annotations

import numpy as np
from numba import njit, types

_WORDS = types.Array(types.int64, 1, "C", readonly=True)
_MASK = types.Array(types.boolean, 1, "C", readonly=True)
_RESULT = types.Tuple((types.int64, types.int64, types.boolean))
_OUT = types.Array(types.int64, 1, "C")


@njit(_RESULT(_WORDS, _OUT), cache=True, nogil=True)
def low_words(words, out):
    """Copy the low word of each pair. Returns the smallest and the largest of them, and whether all
    values fit their low word."""
    least, most, carried = np.int64(0), np.int64(0), np.int64(0)
    if out.size:
        least = most = words[0]
    for k in range(out.size):
        value = words[2 * k]
        carried |= words[2 * k + 1] ^ (value >> 63)
        least = min(least, value)
        most = max(most, value)
        out[k] = value
    return least, most, carried == 0


@njit(_RESULT(_WORDS, _MASK, _OUT), cache=True, nogil=True)
def valid_low_words(words, valid, out):
    """The same where values may be null: null is zero, whatever its bytes are."""
    least, most, carried = np.int64(0), np.int64(0), np.int64(0)
    for k in range(out.size):
        keep = -np.int64(valid[k])
        value = words[2 * k] & keep
        carried |= (words[2 * k + 1] & keep) ^ (value >> 63)
        least = min(least, value)
        most = max(most, value)
        out[k] = value
    return least, most, carried == 0
