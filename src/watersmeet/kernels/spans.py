"""Groups rows by instance where a row may go to several neighbouring instances."""

import numpy as np
from numba import njit, types

_INTS = types.Array(types.int32, 1, "C", readonly=True)


@njit([types.UniTuple(types.int64[::1], 2)(_INTS, _INTS, types.int64)], nogil=True, cache=True)
def group_by_span(first, last, instances):
    """Row numbers grouped by instance, in their old order inside one, and where each group starts.

    Row `i` is in the groups `first[i]` to `last[i]`; in none if the first is above the last.
    """
    offsets = np.zeros(instances + 1, np.int64)
    for row in range(first.size):
        for instance in range(first[row], last[row] + 1):
            offsets[instance + 1] += 1
    for instance in range(instances):
        offsets[instance + 1] += offsets[instance]
    ends = offsets[:-1].copy()
    order = np.empty(offsets[instances], np.int64)
    for row in range(first.size):
        for instance in range(first[row], last[row] + 1):
            order[ends[instance]] = row
            ends[instance] += 1
    return order, offsets
