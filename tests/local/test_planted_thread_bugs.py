"""Mistakes in dividing a join among threads, made on purpose: the checks must notice each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.contract.test_planted_bugs import Bug
from tests.local.test_threads import Schedule, check_spilling
from watersmeet.local.dividing import Divider
from watersmeet.local.instances import Instances, InstanceShares
from watersmeet.local.threaded import ThreadedDriver
from watersmeet.local.worker import Worker


def check_in_memory() -> None:
    Schedule((300, 300), 40, [50], "full", "rpj", 2, 0.025, 1).check()


def check_sorted() -> None:
    """An algorithm that joins at the end what is in memory."""
    Schedule((300, 300), 40, [50], "inner", "pmj", 2, 0.025, 1).check()


@dataclass(frozen=True)
class Planted:
    check: Callable[[], Any]
    place: tuple[Any, str]
    right: str
    wrong: str


BUGS = {
    "rows of one side go to another instance than their partners": Planted(
        check_in_memory,
        (Divider, "divide"),
        "codes << _MIDDLE",
        "codes << np.uint64(16 + 8 * input)",
    ),
    "an instance is forgotten at the end": Planted(
        check_sorted,
        (Instances, "finishing"),
        "for worker in self.workers]",
        "for worker in self.workers[:1]] + [lambda operator: iter(())]",
    ),
    "every thread has all of the memory": Planted(
        check_spilling,
        (InstanceShares, "__init__"),
        "self.rows = limit - whole.input",
        "self.rows = 2 * limit - whole.input",
    ),
    "the end is waited for in one instance only": Planted(
        check_sorted,
        (Instances, "done"),
        "if self._undone:",
        "if False:",
    ),
    "rows of an input that wait are pushed as another's": Planted(
        check_in_memory,
        (Worker, "_pushes"),
        "if each.input == first.input:",
        "if True:",
    ),
    "rows that wait behind others are dropped": Planted(
        check_in_memory,
        (Worker, "_pushes"),
        "self._told.extendleft(reversed(kept))",
        "pass",
    ),
    "only the first of the batches that came together is joined": Planted(
        check_in_memory,
        (ThreadedDriver, "_divide"),
        "for batch in batches:",
        "for batch in batches[:0]:",
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = BUGS[name]
    bug.check()
    Bug("rpj", bug.place, bug.right, bug.wrong).plant(monkeypatch)
    with pytest.raises(Exception):  # noqa: B017, PT011 - however it is noticed
        again_and_again(bug.check)


def again_and_again(check: Callable[[], Any]) -> None:
    """What depends on which thread is first need not fail at once."""
    for _ in range(20):
        check()
