"""Exact sums by group: row k has a value, the number of its group (`groups`), and a weight.

Empty `groups` means that all rows are in one group, empty `weights` that each counts once, empty
`valid` that none is null. The value of a null is zero, so sums need not look for nulls.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

_LONGS = types.Array(types.int64, 1, "C", readonly=True)
_FLOATS = types.Array(types.float64, 1, "C", readonly=True)
_MASK = types.Array(types.boolean, 1, "C", readonly=True)
_OUT_LONGS = types.Array(types.int64, 1, "C")
_OUT_FLOATS = types.Array(types.float64, 1, "C")


@njit(types.void(_MASK, _LONGS, _LONGS, _OUT_LONGS), cache=True, nogil=True)
def count_valid(valid, groups, weights, out):
    for k in range(valid.size):
        weight = weights[k] if weights.size else np.int64(1)
        out[groups[k] if groups.size else 0] += weight * valid[k]


@njit(types.void(_LONGS, _LONGS, _LONGS, _OUT_LONGS), cache=True, nogil=True)
def sum_longs(values, groups, weights, out):
    """For sums that are known to fit 64 bits."""
    if values.size and groups.size == 0:
        total = np.int64(0)
        for k in range(values.size):
            total += values[k] * (weights[k] if weights.size else np.int64(1))
        out[0] += total
        return
    for k in range(values.size):
        out[groups[k]] += values[k] * (weights[k] if weights.size else np.int64(1))


@njit(types.void(_LONGS, _LONGS, _LONGS, _OUT_LONGS, _OUT_LONGS), cache=True, nogil=True)
def sum_wide(values, groups, weights, high, low):
    """For sums of up to 94 bits: high * 2**32 + low, with weights below 2**31."""
    mask = np.int64(0xFFFFFFFF)
    for k in range(values.size):
        group = groups[k] if groups.size else np.int64(0)
        weight = weights[k] if weights.size else np.int64(1)
        # The low half of a value times a weight is below 2**63, so nothing is lost on the way.
        part = (values[k] & mask) * weight + low[group]
        high[group] += (values[k] >> 32) * weight + (part >> 32)
        low[group] = part & mask


@njit(types.void(_FLOATS, _LONGS, _LONGS, _OUT_FLOATS, _OUT_FLOATS), cache=True, nogil=True)
def sum_floats(values, groups, weights, sums, errors):
    """Knuth's TwoSum: what rounding takes from a sum is kept beside it and added in the end."""
    for k in range(values.size):
        group = groups[k] if groups.size else np.int64(0)
        value = values[k] * (weights[k] if weights.size else np.int64(1))
        before = sums[group]
        after = before + value
        part = after - before
        errors[group] += (before - (after - part)) + (value - part)
        sums[group] = after


@njit(
    [types.void(array, _MASK, _FLOATS, _LONGS, _LONGS, _OUT_FLOATS) for array in (_LONGS, _FLOATS)],
    cache=True,
    nogil=True,
)
def sum_squares(values, valid, centres, groups, weights, out):
    """Squares of a value less the centre of its group. All terms are positive, so plain sums lose
    little by rounding if they are short: each stretch of rows is summed by itself first."""
    stretch = 4096
    partial = np.zeros(out.size)
    for start in range(0, values.size, stretch):
        for k in range(start, min(start + stretch, values.size)):
            group = groups[k] if groups.size else np.int64(0)
            weight = weights[k] if weights.size else np.int64(1)
            distance = values[k] - centres[group]
            if valid.size == 0 or valid[k]:
                partial[group] += distance * distance * weight
        if out.size < stretch:
            out += partial
            partial[:] = 0
    out += partial


@njit(
    [
        types.void(_LONGS, _MASK, _LONGS, _OUT_LONGS, _OUT_LONGS),
        types.void(_FLOATS, _MASK, _LONGS, _OUT_FLOATS, _OUT_FLOATS),
    ],
    cache=True,
    nogil=True,
)
def extremes(values, valid, groups, least, most):
    for k in range(values.size):
        if valid.size == 0 or valid[k]:
            group = groups[k] if groups.size else np.int64(0)
            least[group] = min(least[group], values[k])
            most[group] = max(most[group], values[k])
