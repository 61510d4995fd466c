"""Each pair of equal hashes is found once, however buckets collide and however small the room."""

from __future__ import annotations

import inspect
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from watersmeet.kernels import matching
from watersmeet.store.index import INDEX_BYTES, HashIndex, PairBuffer

# Equal in their low bits, so that all share a bucket, and different above: some in bits of which
# links know nothing, others in those that they tell apart.
COLLIDING = [np.uint64(n << 40 | 5).item() for n in range(6)]
TOLD_APART = [np.uint64(n << 32 | 5).item() for n in (0, 1, 2, 30, 31, 32)]
HASHES = st.lists(st.sampled_from([*COLLIDING, *TOLD_APART, 0, 1, 2**64 - 1]), max_size=80)


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
    have = np.array([*COLLIDING, *TOLD_APART, *COLLIDING[:3], 7, *TOLD_APART[2:]], np.uint64)
    want = np.array([COLLIDING[0], 7, 3, *TOLD_APART, *COLLIDING, COLLIDING[0]], np.uint64)
    index = HashIndex.over(have)
    assert pairs_found(index, want, PairBuffer(room)) == pairs_by_definition(have, want)
    late = [(rows >= 4).all() for rows, _ in index.find(want, PairBuffer(room), floor=4)]
    assert late
    assert all(late)


@pytest.mark.parametrize(
    "sizes", [[2047, 1, 1], [2048, 1], [700, 700, 2000, 6000, 1], [9000]], ids=str
)
def test_rows_stay_findable_while_the_buckets_grow(sizes: list[int]) -> None:
    codes = np.random.default_rng(0).integers(0, 2**63, sum(sizes), np.uint64)
    codes[1::2] &= ~np.uint64(0x3FFF)  # half of them share one bucket out of 16,384
    index, start = HashIndex(sum(sizes)), 0
    for size in sizes:
        index.add(codes[start : start + size])
        start += size
        assert len(index) == start
        want = codes[max(start - 50, 0) : start + 1]
        assert pairs_found(index, want, PairBuffer(100)) == pairs_by_definition(codes[:start], want)


@pytest.mark.parametrize("told", [0, 1, 3000, 10_000, 10**7])
def test_rows_that_were_told_to_come_are_found_like_others(told: int) -> None:
    codes = np.random.default_rng(3).integers(0, 5000, 10_000).astype(np.uint64)
    index, untold = HashIndex(10_000), HashIndex(10_000)
    index.expect(told)
    for part in np.array_split(codes, 7):
        index.add(part)
        untold.add(part)
    wanted, room = codes[:300], PairBuffer(1000)
    assert pairs_found(index, wanted, room) == pairs_found(untold, wanted, room)


def test_chains_are_not_built_anew_if_as_many_rows_come_as_were_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    anew = 0

    def counted(heads: np.ndarray, nodes: np.ndarray, rows: int) -> None:
        nonlocal anew
        anew += 1
        matching_link(heads, nodes, rows)

    matching_link = matching.link
    monkeypatch.setattr(matching, "link", counted)
    codes = np.arange(50_000, dtype=np.uint64)
    for told in (0, 50_000):
        index, anew = HashIndex(50_000), 0
        index.expect(told)
        for part in np.array_split(codes, 9):
            index.add(part)
        assert (anew > 0) is (told == 0)
    assert index.spare_bytes == 0


def test_all_bytes_of_an_index_are_counted() -> None:
    index, codes = HashIndex(100_000), np.arange(1_000, dtype=np.uint64)
    for _ in range(60):
        index.add(codes)
        held = 16 * len(index) + index.buckets * 8
        counted = INDEX_BYTES * len(index) + index.spare_bytes
        assert held <= counted or index.buckets == 1024
        assert counted <= 32 * len(index)
    index.drop(np.ones(10, np.bool_))
    assert 16 * len(index) + index.buckets * 8 <= INDEX_BYTES * len(index) + index.spare_bytes


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


SIGNS = "(link & _SIGNS) | _sign(hash_)"
BUGS = {
    "a new row hides what was in its chain": ("insert", SIGNS, "_sign(hash_)"),
    "chains that are built anew forget what is in them": ("link", SIGNS, "_sign(hash_)"),
    "a search ends with the first row": (
        "probe",
        "left += _leads_on(link, _sign(hash_), floor)",
        "left += np.uint64(0)",
    ),
    "chains that found no room are forgotten": (
        "probe",
        "for chain in range(count, going):",
        "for chain in range(going, going):",
    ),
    "other rows of the bucket count as partners": (
        "probe",
        "np.uint64(hashes[chain] == hash_)",
        "_ONE",
    ),
    "only chains of one sign are followed": (
        "probe",
        "_leads_on(link, _sign(wanted[asking]), floor)",
        "np.uint64((link & _SIGNS) == _sign(wanted[asking]))",
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_bugs_that_are_planted_in_the_kernels_are_noticed(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, right, wrong = BUGS[name]
    good = getattr(matching, kernel)
    source = inspect.getsource(good.py_func)
    source = source[source.index("def ") :]
    assert source.count(right) == 1, f"not in the code (once): {right}"
    planted: dict[str, Any] = {}
    exec(source.replace(right, wrong), good.py_func.__globals__, planted)
    monkeypatch.setattr(matching, kernel, njit(good.signatures)(planted[kernel]))

    have = np.array([*COLLIDING, *TOLD_APART, COLLIDING[1]], np.uint64)
    index, want = HashIndex(3000), np.array([*COLLIDING, *TOLD_APART], np.uint64)
    index.add(have)
    if kernel == "link":  # as it is when buckets are added
        have = np.append(have, np.full(2100, 7, np.uint64))
        index.add(have[13:])
    assert pairs_found(index, want, PairBuffer(4)) != pairs_by_definition(have, want)
