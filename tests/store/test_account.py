"""Bytes in use are counted, at any time and from any thread."""

from __future__ import annotations

import sys
import threading

from watersmeet.store.account import MemoryAccount


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
