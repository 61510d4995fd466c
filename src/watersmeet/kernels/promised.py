"""Which rows break promises, and codes of texts that keep their order."""

from __future__ import annotations

import numpy as np
from numba import njit, types

_U8 = types.Array(types.uint8, 1, "C", readonly=True)
_I32 = types.Array(types.int32, 1, "C", readonly=True)
_I64 = types.Array(types.int64, 1, "C", readonly=True)
_OUT_U64 = types.Array(types.uint64, 1, "C")

TEXT_BYTES = 7
"""How many bytes of a text its code has."""


@njit(
    [types.void(_U8, _I32, _OUT_U64), types.void(_U8, _I64, _OUT_U64)],
    cache=True,
    nogil=True,
)
def text_codes(data, offsets, codes):
    """The first seven bytes of each text, and its length in the last byte, where 8 is for all that
    are longer. Codes rise with texts, and those of texts of up to seven bytes differ."""
    for row in range(codes.size):
        start, stop = offsets[row], offsets[row + 1]
        code = np.uint64(0)
        for place in range(7):
            code <<= np.uint64(8)
            if start + place < stop:
                code |= np.uint64(data[start + place])
        codes[row] = (code << np.uint64(8)) | np.uint64(min(stop - start, 8))
