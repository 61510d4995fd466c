from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

import watersmeet as wm
from tests.local.inputs import SPILLING, SPILLING_ROWS, Gate, batches, sides
from tests.local.oracle import expected, rows_of
from watersmeet.local import LocalJoin
from watersmeet.model import Side
from watersmeet.operators.stage import Stage

LEFT, RIGHT = sides(SPILLING_ROWS)
HALF = SPILLING_ROWS // 2


def stalling() -> tuple[Gate, LocalJoin]:
    """All of the left side arrives; the right side stops half way."""
    gate = Gate(batches(RIGHT.slice(0, HALF), 500), batches(RIGHT.slice(HALF), 500))
    return gate, wm.local.join(iter(batches(LEFT, 500)), gate, on="k", memory=SPILLING)


def reactive(run: LocalJoin) -> int:
    return run.metrics.results[Stage.MD] + run.metrics.results[Stage.DD]


def until_reactive(run: LocalJoin, gate: Gate) -> list[pa.RecordBatch]:
    """Read until a row was found on disk; without one, the gate ends the wait by failing."""
    found = []
    while not reactive(run):
        found.append(next(run))
    assert not gate.is_open
    return found


def test_a_stall_is_used_to_join_what_was_spilled() -> None:
    gate, run = stalling()
    found = until_reactive(run, gate)
    assert run.metrics.rows_in == [SPILLING_ROWS, HALF]
    gate.open()
    found += run
    assert rows_of(pa.Table.from_batches(found)) == expected(LEFT, RIGHT)


@pytest.mark.parametrize("algorithm", ["xjoin", "hmj", "rpj-md", "rpj-dd"])
def test_every_reactive_algorithm_stays_exact_through_a_stall(algorithm: str) -> None:
    # So many rows that every partition has several runs on both sides, whichever came first.
    left, right = sides(40_000)
    gate = Gate(batches(right.slice(0, 30_000)), batches(right.slice(30_000)))
    run = wm.local.join(iter(batches(left)), gate, on="k", memory=SPILLING, algorithm=algorithm)
    found = until_reactive(run, gate)
    gate.open()
    found += run
    assert rows_of(pa.Table.from_batches(found)) == expected(left, right)


def test_arriving_data_ends_the_reactive_stage() -> None:
    gate, run = stalling()
    found = until_reactive(run, gate)
    owed = sum(expected(LEFT, RIGHT.slice(0, HALF)).values()) - sum(map(len, found))
    gate.open()
    run._driver._inbox.wait_until(run._driver._inbox.has_news)
    since = 0
    for batch in run:
        found.append(batch)
        if run.metrics.rows_in[Side.RIGHT] > HALF:
            break
        since += len(batch)
    # The rest of the stall's work was put off: what came after the news is a part of a block.
    assert since < owed / 4
    found += run
    assert rows_of(pa.Table.from_batches(found)) == expected(LEFT, RIGHT)


def test_one_silent_side_does_not_hold_up_the_other() -> None:
    gate = Gate(batches(RIGHT.slice(0, HALF)), batches(RIGHT.slice(HALF)))
    left = batches(LEFT, 500)
    run = wm.local.join(iter(left), gate, on="k")
    found = 0
    while run.metrics.rows_in[Side.LEFT] < SPILLING_ROWS:
        found += len(next(run))
    assert not gate.is_open
    gate.open()
    found += sum(map(len, run))
    assert found == sum(expected(LEFT, RIGHT).values())


def test_the_first_batch_of_one_side_may_be_long_in_coming() -> None:
    gate = Gate([], batches(RIGHT))
    run = wm.local.join(iter(batches(LEFT)), gate, on="k", memory=SPILLING)
    inbox = run._driver._inbox

    def open_when_left_is_full() -> None:
        inbox.wait_until(lambda: not inbox.has_room(Side.LEFT))
        gate.open()

    opener = threading.Thread(target=open_when_left_is_full)
    opener.start()
    assert rows_of(run.read_all()) == expected(LEFT, RIGHT)
    opener.join()


def test_a_caller_who_does_not_pull_stops_the_reading() -> None:
    pulled = []

    def left() -> Iterator[pa.RecordBatch]:
        for batch in batches(LEFT, 10):
            pulled.append(batch.nbytes)
            yield batch

    with wm.local.join(left(), RIGHT, on="k", memory=SPILLING) as run:
        next(run)
        driver = run._driver
        driver._inbox.wait_until(lambda: not driver._inbox.has_room(Side.LEFT))
        assert sum(pulled) < LEFT.nbytes / 4
        assert driver.memory.by_purpose()["input"] <= driver.shares.input
