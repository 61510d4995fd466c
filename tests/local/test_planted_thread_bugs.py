"""Mistakes in dividing a join among threads, made on purpose: the checks must notice each."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from tests.contract.test_planted_bugs import Bug
from tests.local.enriching import SOON, STREAM, version
from tests.local.inputs import Gate, batches
from tests.local.oracle import expected, rows_of
from tests.local.test_enrich_versions import Versions, in_parts
from tests.local.test_join_many import RELATIONS, TREES, numbers
from tests.local.test_join_many import expected as expected_of_many
from tests.local.test_threaded_enrich import check_several_blocks
from tests.local.test_threaded_many import Schedule as Schedule_of_many
from tests.local.test_threads import MANY, JoinSchedule, check_spilling
from tests.local.waiting import until
from watersmeet.local import enriching
from watersmeet.local.dividing import Divider
from watersmeet.local.enriching import EnrichingInstances
from watersmeet.local.instances import Instances, InstanceShares
from watersmeet.local.threaded import ThreadedDriver
from watersmeet.local.worker import Worker
from watersmeet.store.master.blocks import BlockPlaces


def check_in_memory() -> None:
    JoinSchedule((300, 300), 40, [50], "full", "rpj", 2, 0.025, 1).check()


def check_sorted() -> None:
    """An algorithm that joins at the end what is in memory."""
    JoinSchedule((300, 300), 40, [50], "inner", "pmj", 2, 0.025, 1).check()


def check_many_rows() -> None:
    """More rows than may be divided and wait."""
    left, right = MANY
    run = wm.local.join(iter(batches(left)), iter(batches(right)), "k", memory="2MB", threads=2)
    assert rows_of(run.read_all()) == expected(left, right)


def check_ends() -> None:
    """When an input has ended, rows of the other that have met it all are not kept."""
    gate = Gate([], batches(MANY[1]))
    right = pa.RecordBatchReader.from_batches(MANY[1].schema, iter(gate))
    run = wm.local.join(MANY[0].slice(0, 10), right, "k", threads=2)

    def open_when_left_has_ended() -> None:
        until(lambda: run._driver.complete[0])
        gate.open()

    opening = threading.Thread(target=open_when_left_has_ended, daemon=True)
    opening.start()
    found = run.read_all()
    opening.join()
    assert rows_of(found) == expected(MANY[0].slice(0, 10), MANY[1])
    kept = len(MANY[1]) - MANY[1]["k"].null_count - run.metrics.dropped_on_arrival
    assert kept == 0


def check_chain() -> None:
    Schedule_of_many(60, "chain", [20], 4, 0.025, 1).check()
    on, where = TREES["chain"]
    assert numbers(wm.local.join_many(RELATIONS, on, threads=2)) == expected_of_many(
        where, RELATIONS
    )


def check_versions() -> None:
    """Rows that come when a new version is there meet that one."""
    versions, running = Versions(version(0), version(1)), list[wm.local.LocalEnrich]()
    stream = in_parts(STREAM, versions, running)
    run = wm.local.enrich(stream, versions, "k", refresh=SOON, wait_threshold=SOON, threads=2)
    running.append(run)
    half = len(STREAM) // 2
    wanted = expected(STREAM.slice(0, half), version(0)) + expected(STREAM.slice(half), version(1))
    assert rows_of(run.read_all()) == wanted


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
        "self._shift, share",
        "16 + 8 * input, share",
    ),
    "a row goes to two instances": Planted(
        check_in_memory,
        (Divider, "divide"),
        "order[first:last]",
        "order[first:min(last + 1, len(order))]",
    ),
    "a row goes to none": Planted(
        check_in_memory,
        (Divider, "divide"),
        "order[first:last]",
        "order[first + 1:last]",
    ),
    "the end of an input is told to one instance only": Planted(
        check_ends,
        (Instances, "_tell"),
        "self.tell([order] * self.threads)",
        "self.tell([order] + [lambda operator: iter(())] * (self.threads - 1))",
    ),
    "rows that are divided never count as joined": Planted(
        check_many_rows,
        (Instances, "joined"),
        "self._divided -= nbytes",
        "pass",
    ),
    "an instance does not say that it is done": Planted(
        check_in_memory,
        (Worker, "_next"),
        "if told.reports:",
        "if told.reports and self.number:",
    ),
    "a row of an input without the column goes to one instance of many": Planted(
        check_chain,
        (Divider, "divide"),
        "[each + stride * place for each in offsets for place in range(share)]",
        "offsets",
    ),
    "the parts of a master have their last block apart": Planted(
        check_several_blocks,
        (BlockPlaces, "between"),
        "slice(start, max(start, stop))",
        "slice(start, max(start, stop - 1))",
    ),
    "an instance reads the part of another": Planted(
        check_several_blocks,
        (enriching, "parts_of"),
        "return parts",
        "return parts[::-1]",
    ),
    "a new version is told to one instance only": Planted(
        check_versions,
        (EnrichingInstances, "take_over"),
        "for part in parts]",
        "for part in parts[:1]] + [lambda operator: iter(())] * (self.threads - 1)",
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
