"""An arena's memory is there when touched and gone when released."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest

from watersmeet.errors import MemoryTooSmall
from watersmeet.store.arena import HUGE_PAGE, Arena

SIZE = 64 * 2**20


def resident_bytes() -> int:
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no Rss in smaps_rollup")


def test_resident_memory_follows_what_is_touched_and_released() -> None:
    empty = resident_bytes()
    arena = Arena(SIZE, np.uint8)
    assert resident_bytes() - empty < SIZE / 4
    arena.array[:] = 1
    full = resident_bytes()
    assert full - empty > SIZE * 3 / 4
    arena.release(SIZE // 2)
    assert full - resident_bytes() > SIZE / 4


def test_what_is_released_reads_as_zero_and_the_rest_stays() -> None:
    items = 2**20 // 8
    arena = Arena(items, np.int64)
    arena.array[:] = 7
    start = 10  # in the middle of a page, which must not be lost
    arena.release(start)
    assert (arena.array[:start] == 7).all()
    assert (arena.array[items // 8 :] == 0).all()  # a little behind the last item is kept
    arena.array[-1] = 9
    assert arena.array[-1] == 9


def test_little_is_kept_of_a_small_arena() -> None:
    pages = 32
    arena = Arena(pages * mmap.PAGESIZE, np.uint8)
    arena.array[:] = 7
    arena.release(1)
    assert np.count_nonzero(arena.array) <= 3 * mmap.PAGESIZE


def test_large_pages_are_released_as_a_whole() -> None:
    arena = Arena(8 * HUGE_PAGE, np.uint8, huge=True)
    arena.array[:] = 7
    for start in (3 * HUGE_PAGE + 5, 3 * HUGE_PAGE, 5, 0):
        arena.release(start)
        left = np.count_nonzero(arena.array)
        assert max(start, 1) <= left <= start + HUGE_PAGE
        assert left == arena.array.size or (arena.array.ctypes.data + left) % HUGE_PAGE == 0


@pytest.mark.parametrize("huge", [True, False])
def test_what_was_touched_once_goes_although_fewer_items_came_since(huge: bool) -> None:
    """The system is not asked for memory that nobody has touched; what has been touched since it
    was last asked must not be forgotten over that."""
    page = HUGE_PAGE if huge else 2**16
    arena = Arena(8 * page, np.uint8, huge=huge)
    used = 4 * page - 1
    arena.array[:used] = 7
    for start, came in ((3 * page + 1, 0), (5, 3 * page), (5, 10)):
        arena.release(start, used=used)
        arena.array[start : start + came] = 7
        used = start + came
    assert np.count_nonzero(arena.array) <= 10 + 2 * page


def test_releasing_from_the_end_or_beyond_does_nothing() -> None:
    arena = Arena(mmap.PAGESIZE, np.uint8)
    arena.array[:] = 7
    arena.release(mmap.PAGESIZE)
    arena.release(mmap.PAGESIZE - 1)
    assert (arena.array == 7).all()


@pytest.mark.parametrize("dtype", [np.bool_, np.uint16, np.int64, "V21"], ids=str)
def test_an_arena_has_room_for_the_items_it_was_made_for(dtype: str) -> None:
    for size in (0, 1, 1000):
        assert Arena(size, dtype).array.shape == (size,)


def test_a_refused_reservation_is_an_error_with_a_remedy() -> None:
    with pytest.raises(MemoryTooSmall, match="address space") as caught:
        Arena(2**60, np.uint8)
    assert "ulimit" in caught.value.remedy
