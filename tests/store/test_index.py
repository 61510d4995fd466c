"""Each pair of equal hashes is found once, however buckets collide and however small the room."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.kernels import matching
from watersmeet.store.index import HashIndex, PairBuffer

# Equal in their low bits, so that all share a bucket, and different above.
COLLIDING = [np.uint64(n << 40 | 5).item() for n in range(6)]
HASHES = st.lists(st.sampled_from([*COLLIDING, 0, 1, 2**64 - 1]), max_size=80)


def pairs_found(index: HashIndex, wanted: np.ndarray, room: PairBuffer) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for rows, asked in index.find(wanted, room):
        assert 0 < len(rows) == len(asked) <= len(room)
        found.update(zip(rows.tolist(), asked.tolist(), strict=True))
    return found


def pairs_by_definition(stored: np.ndarray, wanted: np.ndarray) -> Counter[tuple[int, int]]:
    rows, asked = np.nonzero(stored[:, None] == wanted[None, :])
    return Counter(zip(rows.tolist(), asked.tolist(), strict=True))


@given(stored=HASHES, wanted=HASHES, room=st.sampled_from([1, 2, 3, 64, 1000]))
def test_every_pair_is_found_once(stored: list[int], wanted: list[int], room: int) -> None:
    have, want = np.array(stored, np.uint64), np.array(wanted, np.uint64)
    index = HashIndex.over(have)
    assert pairs_found(index, want, PairBuffer(room)) == pairs_by_definition(have, want)


@pytest.mark.parametrize("group", [1, 2, 7])
@pytest.mark.parametrize("room", [1, 5, 1000])
def test_chains_are_followed_to_their_ends_in_groups_of_any_size(
    group: int, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matching, "GROUP", group)
    have = np.array([*COLLIDING, *COLLIDING[:3], 7], np.uint64)
    want = np.array([COLLIDING[0], 7, 3, *COLLIDING, COLLIDING[0]], np.uint64)
    index = HashIndex.over(have)
    assert pairs_found(index, want, PairBuffer(room)) == pairs_by_definition(have, want)
    late = [(rows >= 4).all() for rows, _ in index.find(want, PairBuffer(room), floor=4)]
    assert late
    assert all(late)


@pytest.mark.parametrize("sizes", [[1023, 1, 1], [1024, 1], [700, 700, 2000, 1], [5000]], ids=str)
def test_rows_stay_findable_while_the_buckets_grow(sizes: list[int]) -> None:
    codes = np.random.default_rng(0).integers(0, 2**63, sum(sizes), np.uint64)
    codes[1::2] &= ~np.uint64(0xFFF)  # half of them share one bucket out of 4,096
    index, start = HashIndex(sum(sizes)), 0
    for size in sizes:
        index.add(codes[start : start + size])
        start += size
        assert len(index) == start
        want = codes[: start + 1]
        assert pairs_found(index, want, PairBuffer(100)) == pairs_by_definition(codes[:start], want)


def test_rows_that_were_dropped_are_not_found_and_others_take_their_place() -> None:
    codes = np.arange(2000, dtype=np.uint64)
    index = HashIndex.over(codes)
    index.drop(codes < 3)
    assert pairs_found(index, codes, PairBuffer(10)) == {(0, 0): 1, (1, 1): 1, (2, 2): 1}
    index.add(np.array([1999], np.uint64))
    assert pairs_found(index, codes, PairBuffer(10))[3, 1999] == 1


def test_an_index_without_rows_finds_nothing() -> None:
    assert not pairs_found(HashIndex(0), np.array([0, 5], np.uint64), PairBuffer(1))


def test_a_bound_makes_chunks_smaller_and_can_be_lifted_again() -> None:
    index, want = HashIndex.over(np.zeros(10, np.uint64)), np.zeros(2, np.uint64)
    room = PairBuffer(8)
    for bound, size in [(3, 3), (0, 1), (-5, 1), (8, 8), (99, 8)]:
        room.bound(bound)
        assert len(room) == size
        chunks = [len(rows) for rows, _ in index.find(want, room)]
        assert sum(chunks) == 20
        assert set(chunks[:-1]) <= {size}


def test_a_search_goes_on_when_the_room_changes_meanwhile() -> None:
    index, room = HashIndex.over(np.zeros(10, np.uint64)), PairBuffer(8)
    found = []
    for rows, _ in index.find(np.zeros(1, np.uint64), room):
        found += rows.tolist()
        room.bound(2)
    assert sorted(found) == list(range(10))
