"""However a run is left, its threads stop and its files go."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import watersmeet as wm
from tests.local.inputs import PATIENCE_S, SPILLING, SPILLING_ROWS, Gate, batches, sides
from tests.local.leaving import close_while_it_waits, leave_with
from watersmeet.errors import RunClosed, SourceFailed
from watersmeet.store.claim import SpillClaim, sweep

LEFT, RIGHT = sides(SPILLING_ROWS)


def spilling(directory: Path) -> wm.local.LocalJoin:
    """A run that has spilled and has much left to do."""
    run = wm.local.join(LEFT, RIGHT, on="k", memory=SPILLING, spill_dir=directory)
    while not run.metrics.rows_spilled:
        next(run)
    assert list(directory.iterdir())
    return run


def threads_of(run: wm.local.LocalJoin) -> list[threading.Thread]:
    return [reader._thread for reader in run._driver._readers]


def close(run: wm.local.LocalJoin) -> None:
    run.close()
    run.close()
    with pytest.raises(RunClosed, match="was closed"):
        list(run)


def exhaust(run: wm.local.LocalJoin) -> None:
    for _ in run:
        pass


@pytest.mark.parametrize("leave", [close, leave_with, exhaust])
def test_nothing_is_left_after(leave: Any, tmp_path: Path) -> None:
    run = spilling(tmp_path)
    threads = threads_of(run)
    leave(run)
    assert not list(tmp_path.iterdir())
    assert not any(thread.is_alive() for thread in threads)
    assert run.metrics.rows_out


def test_nothing_is_left_after_the_last_reference_has_gone(tmp_path: Path) -> None:
    run = spilling(tmp_path)
    threads = threads_of(run)
    del run
    gc.collect()
    assert not list(tmp_path.iterdir())
    assert not any(thread.is_alive() for thread in threads)


def test_breaking_out_of_a_loop_is_enough(tmp_path: Path) -> None:
    for _ in wm.local.join(LEFT, RIGHT, on="k", memory=SPILLING, spill_dir=tmp_path):
        break
    assert not list(tmp_path.iterdir())


def test_a_run_that_was_never_started_leaves_nothing(tmp_path: Path) -> None:
    before = threading.active_count()
    run = wm.local.join(LEFT, RIGHT, on="k", spill_dir=tmp_path)
    assert threading.active_count() == before
    run.close()
    assert not list(tmp_path.iterdir())


def test_close_does_not_wait_for_a_source_that_hangs(tmp_path: Path) -> None:
    gate = Gate(batches(RIGHT)[:1], [])
    run = wm.local.join(LEFT, gate, on="k", spill_dir=tmp_path)
    next(run)
    gate.reached.wait(PATIENCE_S)
    run.close()
    assert not list(tmp_path.iterdir())
    gate.open()
    for thread in threads_of(run):
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_a_closed_run_has_no_rows_to_give_and_says_so(tmp_path: Path) -> None:
    with spilling(tmp_path) as run:
        columns = run.schema
    for ask in (list, wm.local.LocalJoin.read_all, next):
        with pytest.raises(RunClosed, match="was closed, and has no more rows"):
            ask(run)
    # What is known stays.
    assert run.schema == columns
    assert run.metrics.rows_out
    assert "rpj" in run.explain()
    assert "is closed" in repr(run)


def test_a_run_that_was_read_to_its_end_has_no_more_and_raises_once_closed() -> None:
    with wm.local.join(LEFT, RIGHT, on="k") as run:
        rows = run.read_all().num_rows
        assert rows > 0
        assert list(run) == []
        assert run.read_all().num_rows == 0
    with pytest.raises(RunClosed):
        run.read_all()


def test_a_run_that_failed_does_not_look_as_if_it_had_ended() -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches(RIGHT)[:1]
        raise ValueError("gone")

    run = wm.local.join(LEFT, failing(), on="k")
    with pytest.raises(SourceFailed):
        list(run)
    with pytest.raises(RunClosed, match=r"has failed \(SourceFailed\)"):
        list(run)


def test_the_columns_of_a_closed_run_that_never_knew_them() -> None:
    run = wm.local.join(LEFT, iter(batches(RIGHT)), on="k")
    run.close()
    with pytest.raises(RunClosed):
        _ = run.schema


def test_another_thread_may_close_a_run_that_waits(tmp_path: Path) -> None:
    gate = Gate(batches(RIGHT)[:1], [])
    run = wm.local.join(LEFT, gate, on="k", spill_dir=tmp_path)
    assert len(close_while_it_waits(run, gate)) == 1
    assert not list(tmp_path.iterdir())
    gate.open()


INTERRUPTED = """
import signal, sys, threading
# A terminal's Ctrl-C, even if the tests were started in the background, where it is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
import watersmeet as wm
from tests.local.inputs import batches, sides
from watersmeet.local import threaded

threaded.LEAST_EACH = 2**20
left, right = sides({rows})

def hanging():
    yield from batches(right)
    threading.Event().wait()

run = wm.local.join(left, hanging(), on="k", memory="{threads}MB", threads={threads},
                    spill_dir=sys.argv[1])
while sum(run.metrics.rows_in) < 2 * {rows} - 1000:
    next(run)
assert run.metrics.rows_spilled
print("ready", flush=True)
for batch in run:
    pass
"""


@contextlib.contextmanager
def interrupted(directory: Path, *, threads: int = 1) -> Iterator[subprocess.Popen[str]]:
    """Another process, in the middle of a run that has spilled and whose source hangs."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            INTERRUPTED.format(rows=SPILLING_ROWS, threads=threads),
            str(directory),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert list(directory.iterdir())
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_control_c_leaves_nothing_even_while_a_source_hangs(threads: int, tmp_path: Path) -> None:
    with interrupted(tmp_path, threads=threads) as process:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == -signal.SIGINT
    assert "KeyboardInterrupt" in errors
    assert not list(tmp_path.iterdir())


def test_what_a_killed_run_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    with interrupted(tmp_path) as process:
        process.kill()
        process.wait()
    (left_behind,) = tmp_path.iterdir()
    with wm.local.join(LEFT, RIGHT, on="k", spill_dir=tmp_path):
        assert not left_behind.exists()


@pytest.fixture
def gone() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_sweep_leaves_the_living_alone(tmp_path: Path, gone: int) -> None:
    claim = SpillClaim(tmp_path)
    other = claim.area.path.rename(tmp_path / f"watersmeet-{gone}-other1")
    sweep(tmp_path)  # Locked: its owner is alive, in some container whose numbers differ.
    assert other.exists()
    claim.close()
    sweep(tmp_path)
    assert not other.exists()


def test_a_sweep_touches_only_what_is_ours(tmp_path: Path, gone: int) -> None:
    def directory(name: str, *, marked: bool = True) -> Path:
        (tmp_path / name).mkdir()
        if marked:
            (tmp_path / name / "owner.lock").touch()
        return tmp_path / name

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "owner.lock").touch()
    link = tmp_path / f"watersmeet-{gone}-link"
    link.symlink_to(elsewhere)
    kept = [
        directory(f"watersmeet-{os.getpid()}-alive"),
        directory(f"watersmeet-{gone}-unmarked", marked=False),
        directory("watersmeet-notes-2024"),
        directory(f"other-{gone}-abc"),
        elsewhere,
        link,
    ]
    stale = directory(f"watersmeet-{gone}-stale")
    sweep(tmp_path)
    assert not stale.exists()
    assert all(each.exists() for each in kept)


def test_an_interrupt_inside_a_source_reaches_the_caller() -> None:
    def stopping() -> Iterator[pa.RecordBatch]:
        yield batches(LEFT)[0]
        raise SystemExit(3)

    with pytest.raises(wm.errors.SourceFailed, match="SystemExit"):
        wm.local.join(stopping(), RIGHT, on="k").read_all()
