"""Finding pairs: hash chains, and which pairs have met before.

A node is two words, the row's hash and a link to the next row of its chain, side by side because a
probe always needs both. The head of a chain is a link, too. A link is 0 at the end of a chain;
otherwise its low half is the number of the next row, plus one, and its high half says what is to
be found from there on: of 32 bits, those are set that hashes of these rows choose. So a search
ends where the rest of a chain cannot have its hash, mostly at the head, and no row is fetched from
memory only to see that it is another's.

Buckets come from a hash's low bits, partitions from its high bits, and the bit in a link from
those above the lower half, so the rows of one partition still spread over every bucket, and those
of a bucket over all bits of a link. Only hashes are compared here; callers compare the keys where
equal hashes may belong to different keys.

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
_WORDS = types.Array(types.uint64, 1, "C")
_CHAINS = types.Array(types.uint64, 2, "C")
_HEADS = types.Array(types.int32, 1, "C")
_BITS = types.Array(types.uint8, 1, "C")
_MASK = types.Array(types.boolean, 1, "C")
_KEPT = types.Array(types.boolean, 1, "C", readonly=True)

GROUP = 512
"""How many chains are followed together."""

_ONE, _2, _HALF = np.uint64(1), np.uint64(2), np.uint64(32)
_ROW = np.uint64(0xFFFFFFFF)
_SIGNS = np.uint64(0xFFFFFFFF00000000)


@njit(inline="always")
def _sign(hash_):
    """The bit that a hash sets in the links of its chain."""
    return _ONE << (_HALF | ((hash_ >> _HALF) & np.uint64(31)))


@njit(inline="always")
def _leads_on(link, sign, floor):
    """1 if rows with a hash of this sign may be found by a link among rows from `floor` on."""
    return np.uint64(((link & sign) != 0) & ((link & _ROW) > floor))


@njit(types.void(_WORDS, _WORDS, _U64, types.uint64), cache=True, nogil=True)
def insert(heads, nodes, hashes, start):
    """Add rows, numbered from `start` on, to the chains; the newest becomes its chain's head."""
    mask = np.uint64(heads.size - 1)
    for k in range(np.uint64(hashes.size)):
        hash_, row = hashes[k], start + k
        bucket = hash_ & mask
        link = heads[bucket]
        nodes[_2 * row], nodes[_2 * row + _ONE] = hash_, link
        heads[bucket] = (link & _SIGNS) | _sign(hash_) | (row + _ONE)


@njit(types.void(_WORDS, _WORDS, types.uint64), cache=True, nogil=True)
def link(heads, nodes, count):
    """Build the chains of the first `count` nodes anew; all `heads` are empty."""
    mask = np.uint64(heads.size - 1)
    for row in range(count):
        hash_ = nodes[_2 * row]
        bucket = hash_ & mask
        link = heads[bucket]
        nodes[_2 * row + _ONE] = link
        heads[bucket] = (link & _SIGNS) | _sign(hash_) | (row + _ONE)


@njit(
    types.int64(_WORDS, _WORDS, _U64, types.uint64, _OUT, _CHAINS, _OUT, _OUT),
    cache=True,
    nogil=True,
)
def probe(heads, nodes, wanted, floor, state, chains, rows, asked):
    """Pair wanted rows with stored rows of equal hash until `rows` and `asked` are full; returns
    how many pairs were written.

    Rows numbered below `floor` are left out: chains go from new rows to old ones, so a search ends
    at the first such row. `state` has which wanted row begins the next group, and how many chains
    of the last one are not at their end; both are 0 in the first call, and all is done when the
    first is wanted.size and the second is 0. chains[0] has, for each of these, whom it is searched
    for, and in its low half the link where it goes on; the rest of `chains` is for work.

    A group goes along its chains together, a row of each at a time. All that is to be fetched from
    memory for a step is fetched first, by a loop that does nothing else: it writes to places that
    do not depend on what it reads, so the processor waits for many rows at once. With the
    comparison in the same loop a probe of a table of 2 M rows took twice as long. Nothing branches
    on what is found, which cannot be foreseen: each such branch would wait for its row.
    """
    mask = np.uint64(heads.size - 1)
    size, limit = np.uint64(wanted.size), np.uint64(rows.size)
    going_on, hashes, links = chains[0], chains[1], chains[2]
    group = np.uint64(going_on.size)
    found = np.uint64(0)
    following, going = np.uint64(state[0]), np.uint64(state[1])
    while True:
        if going == 0:
            if following >= size:
                break
            count = min(group, size - following)
            for k in range(count):
                links[k] = heads[wanted[following + k] & mask]
            for k in range(count):
                link, asking = links[k], following + k
                going_on[going] = (asking << _HALF) | (link & _ROW)
                going += _leads_on(link, _sign(wanted[asking]), floor)
            following += count
            continue
        count = min(going, limit - found)
        if count == 0:
            break
        for chain in range(count):
            at = _2 * ((going_on[chain] & _ROW) - _ONE)
            hashes[chain], links[chain] = nodes[at], nodes[at + _ONE]
        left = np.uint64(0)
        for chain in range(count):
            asking, link = going_on[chain] >> _HALF, links[chain]
            hash_ = wanted[asking]
            rows[found] = np.int64((going_on[chain] & _ROW) - _ONE)
            asked[found] = np.int64(asking)
            found += np.uint64(hashes[chain] == hash_)
            going_on[left] = (asking << _HALF) | (link & _ROW)
            left += _leads_on(link, _sign(hash_), floor)
        for chain in range(count, going):
            going_on[left] = going_on[chain]
            left += _ONE
        going = left
    state[0], state[1] = np.int64(following), np.int64(going)
    return np.int64(found)


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


@njit(types.void(_NODES, _KEPT, _OUT), cache=True, nogil=True)
def count_dropped(nodes, keep, counts):
    """Count the rows that are not kept, by partition."""
    for row in range(keep.size):
        if not keep[row]:
            counts[_partition(nodes[row, 0], counts.size)] += 1


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


@njit(types.UniTuple(types.int64, 2)(_I64), cache=True, nogil=True)
def extent(stamps):
    """The first and the last of some stamps; those of none are the last and the first possible."""
    first, last = np.int64(_STILL_HERE), np.int64(-1)
    for k in range(stamps.size):
        first, last = min(first, stamps[k]), max(last, stamps[k])
    return first, last


@njit(types.void(_BITS, types.int64, _I64), cache=True, nogil=True)
def mark(bits, base, stamps):
    """Mark rows. The first bit is that of the stamp `base`, and there is one for each row."""
    for k in range(stamps.size):
        place = stamps[k] - base
        bits[place >> 3] |= np.uint8(1 << (place & 7))


@njit(types.void(_BITS, types.int64, _I64, _MASK), cache=True, nogil=True)
def mark_new(bits, base, stamps, fresh):
    """Mark rows, and write to `fresh` which were unmarked; of a row that comes twice, the first."""
    for k in range(stamps.size):
        place = stamps[k] - base
        bit = np.uint8(1 << (place & 7))
        fresh[k] = (bits[place >> 3] & bit) == 0
        bits[place >> 3] |= bit


@njit(types.void(_BITS, types.int64, _I64, _MASK), cache=True, nogil=True)
def unmarked(bits, base, stamps, fresh):
    """Which rows have no mark: none of those before `base`, and all behind the last bit."""
    for k in range(stamps.size):
        place = stamps[k] - base
        if place < 0:
            fresh[k] = False
        else:
            at = place >> 3
            fresh[k] = at >= bits.size or (bits[at] & np.uint8(1 << (place & 7))) == 0


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
