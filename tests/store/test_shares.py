"""The shares of a memory limit add up to it, whatever the limit and whoever has given way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.errors import InvalidArgument, MemoryTooSmall
from watersmeet.store.shares import SMALLEST_MEMORY, MemoryShares


@given(limit=st.integers(SMALLEST_MEMORY, 2**40))
def test_the_shares_are_all_of_the_memory(limit: int) -> None:
    shares = MemoryShares.split(limit)
    for each in (shares, shares.without_input(), shares.without_rows()):
        parts = (each.input, each.store, each.loaded, each.copied, each.results)
        assert min(parts) >= 0
        assert sum(parts) == each.limit == limit
        # What a step holds at a time fits the share that it is counted in.
        assert 16 * each.block(16) <= each.loaded <= each.copied + 2
        assert 0 < each.chunk <= each.results
    assert min(shares.input, shares.work) > 0
    assert shares.store >= limit * 3 // 4
    assert shares.without_input().work == shares.work + shares.input
    assert shares.without_rows().work == limit


@pytest.mark.parametrize(
    ("memory", "limit"), [("64MB", 2**26), ("1.5 g", 3 * 2**29), (SMALLEST_MEMORY, 2**20)]
)
def test_a_memory_setting_is_read(memory: int | str, limit: int) -> None:
    assert MemoryShares.parse(memory) == (limit, MemoryShares.split(limit))


@pytest.mark.parametrize("memory", ["", "much", "-1MB", "1MBB", -1, True, 1.5, None])
def test_a_memory_setting_that_means_nothing_is_refused(memory: object) -> None:
    with pytest.raises(InvalidArgument, match="is no size in bytes") as caught:
        MemoryShares.parse(memory)  # type: ignore[arg-type]
    assert "256MB" in caught.value.remedy


@pytest.mark.parametrize("memory", [0, "1023k", SMALLEST_MEMORY - 1])
def test_too_little_memory_is_refused_with_the_minimum(memory: int | str) -> None:
    with pytest.raises(MemoryTooSmall, match="at least 1MB"):
        MemoryShares.parse(memory)
