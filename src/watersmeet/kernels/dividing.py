"""Which instance of a join has the rows of a code."""

from __future__ import annotations

import numpy as np
from numba import njit, types

_CODES = types.Array(types.uint64, 1, "C", readonly=True)
_CELLS = types.Array(types.int32, 1, "C")


@njit(types.void(_CODES, types.int64, types.int64, types.int64, _CELLS), nogil=True, cache=True)
def place(codes, shift, share, stride, cells):
    """Add to the cell of each row `stride` times its place among `share`: the 32 bits of its code
    behind the first `shift`, scaled to the number of places."""
    for row in range(codes.size):
        bits = (codes[row] << np.uint64(shift)) >> np.uint64(32)
        cells[row] += np.int32((bits * np.uint64(share)) >> np.uint64(32)) * np.int32(stride)
