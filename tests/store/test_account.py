"""Bytes in use are counted, at any time and from any thread."""

from __future__ import annotations

import sys
import threading

import pytest

from watersmeet.errors import InvalidArgument, MemoryTooSmall
from watersmeet.store.account import MemoryAccount
from watersmeet.store.shares import SMALLEST_MEMORY, MemoryShares


def test_an_account_knows_its_peak_and_its_purposes() -> None:
    account = MemoryAccount(1000)
    account.take(300, "rows")
    account.take(200, "input")
    account.give(250, "rows")
    assert (account.used, account.peak) == (250, 500)
    assert account.by_purpose() == {"rows": 50, "input": 200}
    account.give(200, "input")
    assert account.by_purpose() == {"rows": 50}


def test_holding_sets_what_one_purpose_has() -> None:
    account = MemoryAccount(1000)
    account.take(100, "input")
    account.hold(700, "rows")
    account.hold(50, "rows")
    assert (account.used, account.peak) == (150, 800)
    assert account.by_purpose() == {"input": 100, "rows": 50}


def test_the_peak_shows_who_forgot_to_ask() -> None:
    account = MemoryAccount(10)
    account.take(11, "rows")
    assert account.peak > account.limit


def test_threads_do_not_lose_each_others_bytes() -> None:
    account, rounds = MemoryAccount(10**9), 20_000
    began = threading.Barrier(3)

    def work(what: str) -> None:
        began.wait()
        for _ in range(rounds):
            account.take(3, what)
            account.give(2, what)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(what,)) for what in ("a", "a", "b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert account.by_purpose() == {"a": 2 * rounds, "b": rounds}
    assert account.used == 3 * rounds


@pytest.mark.parametrize("limit", [SMALLEST_MEMORY, 2**26 + 7, 2**40])
def test_a_plan_shares_out_all_of_the_memory(limit: int) -> None:
    plan = MemoryShares.split(limit)
    assert plan.input + plan.store + plan.work == limit
    assert min(plan.input, plan.work) > 0
    assert plan.store >= limit * 3 // 4


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
