"""Homes do what they are asked once, whoever asks, and nothing depends on them."""

from __future__ import annotations

import os
import signal
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from watersmeet.errors import StateError
from watersmeet.spark import cache, homes
from watersmeet.spark.homes import HomeLost, at_home


class Counted:
    """What a home keeps: how many rows have come to it."""

    def __init__(self) -> None:
        self.rows = 0


def count(key: str, batches: Iterator[pa.RecordBatch]) -> tuple[int, int]:
    """The process, and the rows that have come to it so far."""
    kept = cache.kept((key, 0, 0), Counted)
    for batch in batches:
        kept.rows += len(batch)
    return os.getpid(), kept.rows


def fail(batches: Iterator[pa.RecordBatch]) -> None:
    raise StateError("It cannot be.", remedy="Try again.")


def fail_strangely(batches: Iterator[pa.RecordBatch]) -> None:
    class Strange(Exception):
        def __init__(self, one: int, other: int) -> None:
            super().__init__("strange")

    raise Strange(1, 2)


def die(batches: Iterator[pa.RecordBatch]) -> None:
    next(batches)
    os.kill(os.getpid(), signal.SIGKILL)


def rows(*counts: int) -> Iterator[pa.RecordBatch]:
    for number in counts:
        columns = [pa.array(range(number), pa.int64()), pa.array(["x" * 100] * number, pa.string())]
        yield pa.record_batch(columns, names=["a", "text"])


@pytest.fixture
def name(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A name of a home that nobody has, in a process that may have homes."""
    monkeypatch.setattr(homes, "_can_have_homes", lambda: True)
    monkeypatch.setattr(homes, "IDLE_S", 1.0)
    before = list(homes._forked)
    yield uuid.uuid4().hex
    for process in set(homes._forked) - set(before):
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        homes._forked.remove(process)


def test_what_a_home_keeps_is_there_for_the_next_who_asks(name: str) -> None:
    first = at_home(name, count, name, batches=rows(3, 0, 100_000))
    second = at_home(name, count, name, batches=rows())
    third = at_home(name, count, name, batches=rows(2))
    assert first[0] == second[0] == third[0] != os.getpid()
    assert [n for _, n in (first, second, third)] == [100_003, 100_003, 100_005]


def test_every_instance_has_a_home_of_its_own(name: str) -> None:
    one = at_home(name, count, name, batches=rows(1))
    other = at_home(f"{name} other", count, name, batches=rows(2))
    assert one[0] != other[0]
    assert (one[1], other[1]) == (1, 2)


def test_errors_are_raised_where_the_work_was_asked_for(name: str) -> None:
    with pytest.raises(StateError, match=r"It cannot be\. Try again\.") as raised:
        at_home(name, fail, batches=rows(1_000, 1_000_000))
    assert raised.value.remedy == "Try again."
    with pytest.raises(RuntimeError, match="Strange: strange"):
        at_home(name, fail_strangely, batches=rows(5))
    assert at_home(name, count, name, batches=rows(2))[1] == 2


def test_a_home_that_died_is_named_and_followed_by_another(name: str) -> None:
    with pytest.raises(HomeLost, match="was killed"):
        at_home(name, die, batches=rows(5, 5))
    assert at_home(name, count, name, batches=rows(2))[1] == 2


def test_a_limit_that_a_function_has_set_for_all_sockets_is_not_for_homes(name: str) -> None:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(1e-9)
    try:
        home, _ = at_home(name, count, name, batches=rows(1))
    finally:
        socket.setdefaulttimeout(before)
    assert home != os.getpid()


def test_rows_of_a_worker_that_ended_too_early_are_not_all_rows(name: str) -> None:
    """Between two batches, where a stream of Arrow's might end as well."""

    def broken() -> Iterator[pa.RecordBatch]:
        yield from rows(5)
        raise KeyboardInterrupt

    assert at_home(name, count, name, batches=rows(1))[1] == 1
    with pytest.raises(KeyboardInterrupt):
        at_home(name, count, name, batches=broken())
    # The five came, and then an error instead of an answer: the work did not end as if done.
    assert at_home(name, told, name, batches=rows())[1:] == (6, ["ended"])


def told(key: str, batches: Iterator[pa.RecordBatch]) -> tuple[int, int, list[str]]:
    process, seen = count(key, batches)
    return process, seen, list(_errors)


_errors: list[str] = []


@pytest.fixture(autouse=True)
def _noting(monkeypatch: pytest.MonkeyPatch) -> None:
    pickled = homes._pickled

    def noted(answer: tuple[bool, Any]) -> bytes:
        if isinstance(answer[1], ConnectionError):
            _errors.append("ended")
        return pickled(answer)

    _errors.clear()
    monkeypatch.setattr(homes, "_pickled", noted)


def test_a_home_ends_when_nobody_comes(name: str) -> None:
    process, _ = at_home(name, count, name, batches=rows(1))
    assert process in homes._forked
    deadline = time.monotonic() + 30
    while process in homes._forked and time.monotonic() < deadline:
        time.sleep(0.05)
        homes._reap()
    assert process not in homes._forked
    assert at_home(name, count, name, batches=rows(2))[1] == 2


def test_a_home_ends_when_it_is_told_to(name: str) -> None:
    homes.end(name)  # There is none yet.
    process, _ = at_home(name, count, name, batches=rows(1))
    homes.end(name)
    assert _reaped(process)
    assert at_home(name, count, name, batches=rows(2))[1] == 2


def test_a_home_ends_after_work_that_is_its_last(name: str) -> None:
    process, seen = at_home(name, count_and_leave, name, batches=rows(3))
    assert seen == 3
    assert _reaped(process)


def count_and_leave(key: str, batches: Iterator[pa.RecordBatch]) -> tuple[int, int]:
    homes.leave()
    return count(key, batches)


def _reaped(process: int) -> bool:
    deadline = time.monotonic() + 30
    while process in homes._forked and time.monotonic() < deadline:
        time.sleep(0.01)
        homes._reap()
    return process not in homes._forked


def test_work_that_nobody_waits_for_is_given_up(name: str, tmp_path: Path) -> None:
    """The worker is killed while its home works on; whoever comes next need not wait."""
    flag = tmp_path / "working"
    worker = os.fork()
    if worker == 0:
        with suppress(BaseException):
            at_home(name, endless, flag, batches=rows(1))
        os._exit(0)
    deadline = time.monotonic() + 30
    while not flag.exists():
        assert time.monotonic() < deadline, "the home did not begin"
        time.sleep(0.01)
    os.kill(worker, signal.SIGKILL)
    os.waitpid(worker, 0)
    assert at_home(name, count, name, batches=rows(2))[1] == 2


def endless(flag: Path, batches: Iterator[pa.RecordBatch]) -> None:
    for _ in batches:
        pass
    flag.touch()
    while True:
        homes.check_wanted()


def test_who_is_somebody_else_is_told_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work is done here instead."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
        stranger.bind(f"\0watersmeet {os.getuid()} {name}")
        stranger.listen()
        monkeypatch.setattr(homes, "_is_mine", lambda connection: False)
        assert at_home(name, count, name, batches=rows(2)) == (os.getpid(), 2)
    cache.clear()


def test_outside_of_a_worker_there_is_none() -> None:
    assert at_home("a name", count, "a name", batches=rows(2)) == (os.getpid(), 2)
    cache.clear()
