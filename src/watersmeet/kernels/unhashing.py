"""Keys that fit 64 bits, from their hashes: the bijection of `hashing.hash_codes`, undone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from watersmeet.kernels.hashing import _GOLDEN, _MIX_1, _MIX_2

Codes = NDArray[np.uint64]

_UNMIX_1 = np.uint64(pow(int(_MIX_1), -1, 2**64))
_UNMIX_2 = np.uint64(pow(int(_MIX_2), -1, 2**64))


def unhashed(hashes: Codes) -> Codes:
    """The codes that have these hashes: the steps of SplitMix64's finaliser, undone one by one.

    >>> from watersmeet.kernels.hashing import hash_codes
    >>> unhashed(hash_codes(np.array([0, 7, 2**64 - 1], np.uint64))).tolist()
    [0, 7, 18446744073709551615]
    """
    codes = _unshifted(hashes, 31) * _UNMIX_2
    codes = _unshifted(codes, 27) * _UNMIX_1
    return _unshifted(codes, 30) - _GOLDEN


def _unshifted(codes: Codes, bits: int) -> Codes:
    """The numbers x for which x ^ (x >> bits) are these."""
    found = codes
    for _ in range(64 // bits):
        found = codes ^ (found >> np.uint64(bits))
    return found
