"""Finding pairs: hash chains, and which pairs have met before.

A node is two words, the row's hash and the next row of its chain, side by side because a probe
always needs both. Buckets come from a hash's low bits and partitions from its high bits, so the
rows of one partition still spread over every bucket. Only hashes are compared here; callers
compare the keys where equal hashes may belong to different keys.

Everything here that calls each other shares this file, because numba's on-disk cache does not
notice a change in a function that another file defines.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

_U64 = types.Array(types.uint64, 1, "C", readonly=True)
_I64 = types.Array(types.int64, 1, "C", readonly=True)
_I32 = types.Array(types.int32, 1, "C", readonly=True)
_HISTORY = types.Array(types.int64, 2, "C", readonly=True)
_RANGES = types.Array(types.uint64, 2, "C", readonly=True)
_NODES = types.Array(types.uint64, 2, "C")
_OUT = types.Array(types.int64, 1, "C")
_HEADS = types.Array(types.int32, 1, "C")
_BITS = types.Array(types.uint8, 1, "C")
_MASK = types.Array(types.boolean, 1, "C")

# How many probes are in flight together. Their loads do not depend on each other, so the
# processor fetches them at once; 64 was as good as 256 and better than 16 (bench: scaling).
_GROUP = 64


@njit(types.void(_HEADS, _NODES, _U64, types.int64), cache=True, nogil=True)
def insert(heads, nodes, hashes, start):
    """Add rows, numbered from `start` on, to the chains; the newest becomes its chain's head."""
    mask = np.uint64(heads.size - 1)
    for k in range(hashes.size):
        row = start + k
        bucket = hashes[k] & mask
        nodes[row, 0] = hashes[k]
        nodes[row, 1] = np.uint64(np.int64(heads[bucket]))
        heads[bucket] = np.int32(row)


@njit(types.void(_HEADS, _NODES, types.int64), cache=True, nogil=True)
def link(heads, nodes, count):
    """Build the chains of the first `count` nodes anew; all `heads` are empty."""
    mask = np.uint64(heads.size - 1)
    for row in range(count):
        bucket = nodes[row, 0] & mask
        nodes[row, 1] = np.uint64(np.int64(heads[bucket]))
        heads[bucket] = np.int32(row)


@njit(
    types.UniTuple(types.int64, 3)(
        _HEADS, _NODES, _U64, types.int64, types.int64, types.int64, _OUT, _OUT
    ),
    cache=True,
    nogil=True,
)
def probe(heads, nodes, wanted, floor, start, resume, rows, asked):
    """Pair wanted[start:] with stored rows of equal hash until `rows` and `asked` are full.

    Rows numbered below `floor` are left out: chains go from new rows to old ones, so a search ends
    at the first such row. `resume` is the row at which to go on in the chain of wanted[start], or
    -2 to begin that chain. Returns how many pairs were written, and (start, resume) for the next
    call; start equals wanted.size when all is done.
    """
    mask = np.uint64(heads.size - 1)
    limit = rows.size
    found = 0
    i = start
    if resume >= -1:
        row = resume
        while row >= floor:
            if nodes[row, 0] == wanted[i]:
                if found == limit:
                    return found, i, row
                rows[found] = row
                asked[found] = i
                found += 1
            row = np.int64(nodes[row, 1])
        i += 1

    first = np.empty(_GROUP, np.int64)
    hashes = np.empty(_GROUP, np.uint64)
    nexts = np.empty(_GROUP, np.int64)
    while i < wanted.size:
        size = min(_GROUP, wanted.size - i)
        for k in range(size):
            first[k] = heads[wanted[i + k] & mask]
        for k in range(size):
            row = max(first[k], 0)
            hashes[k] = nodes[row, 0]
            nexts[k] = np.int64(nodes[row, 1])
        for k in range(size):
            row = first[k]
            if row < floor:
                continue
            want = wanted[i + k]
            if hashes[k] == want:
                if found == limit:
                    return found, i + k, row
                rows[found] = row
                asked[found] = i + k
                found += 1
            row = nexts[k]
            while row >= floor:
                if nodes[row, 0] == want:
                    if found == limit:
                        return found, i + k, row
                    rows[found] = row
                    asked[found] = i + k
                    found += 1
                row = np.int64(nodes[row, 1])
        i += size
    return found, i, -2


@njit(inline="always")
def _partition(hash_, partitions):
    return np.int64(((hash_ >> np.uint64(32)) * np.uint64(partitions)) >> np.uint64(32))


@njit(types.void(_NODES, types.int64, _I64, _OUT, _HEADS), cache=True, nogil=True)
def group_rows(nodes, count, places, cursor, grouped):
    """List the rows of chosen partitions, partition by partition, oldest row first.

    `cursor[p]` is where partition p's next row goes in `grouped`, and moves on up to `places[p]`;
    further rows of p are left out. So places[p] == cursor[p] leaves out the whole partition.
    """
    partitions = cursor.size
    for row in range(count):
        p = _partition(nodes[row, 0], partitions)
        if cursor[p] < places[p]:
            grouped[cursor[p]] = np.int32(row)
            cursor[p] += 1


@njit(types.void(_U64, _OUT), cache=True, nogil=True)
def count_partitions(hashes, counts):
    for i in range(hashes.size):
        counts[_partition(hashes[i], counts.size)] += 1


# ---- who has met whom (operators/progressive/history.py explains the entries) -------------------


NEITHER, LEFT, RIGHT = 0, 1, 2
_STILL_HERE = np.iinfo(np.int64).max


@njit(
    types.int64(
        _U64, _I64, _I64, _I64, _I64, types.int64,
        _HISTORY, _RANGES, _HISTORY, _RANGES, _HISTORY, _RANGES,
        _OUT, _OUT, types.int64,
    ),
    cache=True,
    nogil=True,
)  # fmt: skip
def drop_met(
    hashes, ats_l, dts_l, ats_r, dts_r, resident,
    scans_l, ranges_l, scans_r, ranges_r, merges, merge_ranges,
    rows_l, rows_r, count,
):  # fmt: skip
    """Of the first `count` pairs keep, in place, those that have not met; returns how many.

    `resident` is the side whose rows are all still in memory, if there is one: its departure stamps
    are not read, and `hashes` are those of the other side. Otherwise `hashes` are the left's.

    The three tests are written out here. As functions with arrays for parameters they took seven
    times as long, because numba counts references to arrays.
    """
    kept = 0
    for k in range(count):
        i, j = rows_l[k], rows_r[k]
        arrived_l, arrived_r = ats_l[i], ats_r[j]
        departed_l = _STILL_HERE if resident == LEFT else dts_l[i]
        departed_r = _STILL_HERE if resident == RIGHT else dts_r[j]
        if arrived_l < departed_r and arrived_r < departed_l:
            continue  # they were in memory together
        hash_ = hashes[j] if resident == LEFT else hashes[i]
        met = False

        # An md-task read one of them from disk while the other was in memory.
        if departed_r < departed_l:
            low, high = 0, scans_l.shape[0]
            while low < high:
                middle = (low + high) // 2
                if scans_l[middle, 0] > arrived_l:
                    high = middle
                else:
                    low = middle + 1
            while not met and low < scans_l.shape[0] and scans_l[low, 0] < departed_l:
                met = (
                    scans_l[low, 1] <= departed_r <= scans_l[low, 2]
                    and ranges_l[low, 0] <= hash_ <= ranges_l[low, 1]
                )
                low += 1
        else:
            low, high = 0, scans_r.shape[0]
            while low < high:
                middle = (low + high) // 2
                if scans_r[middle, 0] > arrived_r:
                    high = middle
                else:
                    low = middle + 1
            while not met and low < scans_r.shape[0] and scans_r[low, 0] < departed_r:
                met = (
                    scans_r[low, 1] <= departed_l <= scans_r[low, 2]
                    and ranges_r[low, 0] <= hash_ <= ranges_r[low, 1]
                )
                low += 1

        # A dd-task merged the runs that held them.
        n = 0
        while not met and n < merges.shape[0]:
            met = (
                merges[n, 0] <= departed_l <= merges[n, 1]
                and merges[n, 2] <= departed_r <= merges[n, 3]
                and merge_ranges[n, 0] <= hash_ <= merge_ranges[n, 1]
            )
            n += 1

        if not met:
            rows_l[kept] = i
            rows_r[kept] = j
            kept += 1
    return kept


# ---- rows that have found a partner -------------------------------------------------------------


@njit(types.void(_BITS, _I64), cache=True, nogil=True)
def mark(bits, stamps):
    for k in range(stamps.size):
        bits[stamps[k] >> 3] |= np.uint8(1 << (stamps[k] & 7))


@njit(types.void(_BITS, _I64, _MASK), cache=True, nogil=True)
def mark_new(bits, stamps, fresh):
    """Mark rows, and write to `fresh` which were unmarked; of a row that comes twice, the first."""
    for k in range(stamps.size):
        bit = np.uint8(1 << (stamps[k] & 7))
        fresh[k] = (bits[stamps[k] >> 3] & bit) == 0
        bits[stamps[k] >> 3] |= bit


@njit(types.void(_BITS, _I64, _MASK), cache=True, nogil=True)
def unmarked(bits, stamps, fresh):
    for k in range(stamps.size):
        fresh[k] = (bits[stamps[k] >> 3] & np.uint8(1 << (stamps[k] & 7))) == 0


# ---- distinct values ----------------------------------------------------------------------------


@njit(types.void(_BITS, _U64), cache=True, nogil=True)
def count_distinct(registers, hashes):
    """HyperLogLog (Flajolet et al., 2007): the most zeros in a row seen per register."""
    bits = np.uint64(0)
    while (np.uint64(1) << bits) < np.uint64(registers.size):
        bits += np.uint64(1)
    mask = np.uint64(registers.size - 1)
    for k in range(hashes.size):
        rest = hashes[k] >> bits
        register = hashes[k] & mask
        # Zeros are counted only if they are more than before, which is rare.
        if rest & ((np.uint64(1) << np.uint64(registers[register])) - np.uint64(1)):
            continue
        rank = np.uint8(1)
        while rank < 52 and (rest & np.uint64(1)) == 0:
            rest >>= np.uint64(1)
            rank += np.uint8(1)
        if rank > registers[register]:
            registers[register] = rank
