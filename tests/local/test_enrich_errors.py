"""What is refused, what fails, and what is left behind when an enrichment ends early."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pytest

import watersmeet as wm
from tests.local.enriching import MASTER, STREAM, enriched, version
from tests.local.inputs import PATIENCE_S, SPILLING, Gate, batches
from tests.local.oracle import expected, rows_of
from tests.local.waiting import until
from watersmeet.errors import (
    InputChanged,
    InvalidArgument,
    MemoryTooSmall,
    RunClosed,
    SchemaError,
    SourceFailed,
    SpillError,
)
from watersmeet.store.master.laying import lay_down

WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"on": "b"}, SchemaError, "stream input has no column 'b'"),
    ({"on": {"k": "a"}}, SchemaError, "master input has no column 'a'"),
    ({"how": "right"}, InvalidArgument, "rows of the master that no row of the stream meets"),
    ({"how": "full"}, InvalidArgument, "have the others"),
    ({"how": "sideways"}, InvalidArgument, "no join type"),
    ({"on": wm.within("k", 5)}, InvalidArgument, "equal keys"),
    ({"algorithm": "rpj"}, InvalidArgument, "does not join a stream with a master"),
    ({"algorithm": 7}, InvalidArgument, "no text"),
    ({"memory": "1kB"}, MemoryTooSmall, "at least 1MB"),
    ({"refresh": 5}, InvalidArgument, "always the same"),
    ({"refresh": "soon", "master": "x.parquet"}, InvalidArgument, "no span of time"),
    ({"refresh": -1, "master": "x.parquet"}, InvalidArgument, "no length of time"),
    ({"deadline": 0}, InvalidArgument, "no length of time"),
    ({"version_column": "a"}, SchemaError, "column of the output already"),
    ({"version_column": 3}, InvalidArgument, "no text"),
    ({"master": "nowhere.parquet"}, InvalidArgument, "does not exist"),
    ({"master": 5}, InvalidArgument, "cannot be read as batches"),
    ({"master": iter([])}, SchemaError, "ended without a single batch"),
    ({"master": lambda: None}, InvalidArgument, "no table"),
    ({"master": pa.table({"k": ["text"]})}, SchemaError, "cannot be compared"),
    ({"spill_dir": "nowhere"}, SpillError, "Cannot write"),
]


@pytest.mark.parametrize(("arguments", "error", "says"), WRONG)
def test_errors_are_raised_at_the_call(
    arguments: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        wm.local.enrich(**{"stream": STREAM, "master": MASTER, "on": "k"} | arguments)


def test_a_row_that_does_not_fit_is_refused_with_the_memory_it_needs() -> None:
    master = pa.table({"k": [1, 2], "b": ["x" * 500_000, "y"]})
    with pytest.raises(MemoryTooSmall, match=r"row of 500,0.*at least memory=\"4MB\""):
        enriched(STREAM, master, memory="1MB")


def test_a_row_of_the_stream_that_does_not_fit_is_refused_too() -> None:
    stream = pa.table({"k": [1, 2], "a": ["x" * 500_000, "y"]})
    with pytest.raises(MemoryTooSmall, match=r"stream \(Table\) has a row of 500,0"):
        enriched(stream, MASTER, memory="1MB")


def test_memory_too_small_for_a_block_is_refused_with_what_it_needs() -> None:
    """A block has at least one row, and several must fit."""
    master = pa.table({"k": range(20), "b": ["x" * 100_000] * 20})
    with pytest.raises(MemoryTooSmall, match=r"at least [\d,]+ bytes") as caught:
        enriched(STREAM, master, memory="1MB")
    (needed,) = re.findall(r"at least ([\d,]+) bytes", caught.value.remedy)
    found = enriched(STREAM, master, memory=int(needed.replace(",", "")))
    assert found == expected(STREAM, master)


def test_a_failing_master_names_itself() -> None:
    def master() -> Iterator[pa.RecordBatch]:
        yield from batches(MASTER)
        raise ValueError("the line was cut")

    with pytest.raises(SourceFailed, match=r"master \(generator\) failed .* the line was cut"):
        enriched(STREAM, master())


def test_a_failing_stream_gets_its_rows_answered_first() -> None:
    def stream() -> Iterator[pa.RecordBatch]:
        yield from batches(STREAM)
        raise ValueError("the line was cut")

    run = wm.local.enrich(stream(), MASTER, "k", "left")
    found: list[pa.RecordBatch] = []
    with pytest.raises(SourceFailed, match="the line was cut"):
        found.extend(run)
    assert rows_of(pa.Table.from_batches(found)) == expected(STREAM, MASTER, "left")


def test_a_master_that_changes_while_it_is_laid_down_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "master.csv"
    csv.write_csv(version(0), path)
    calls: list[str] = []

    def changing(*arguments: Any, **more: Any) -> Any:
        described = lay_down(*arguments, **more)
        calls.append(more["version"])
        if len(calls) <= changes:
            csv.write_csv(version(len(calls), rows=1_000 + len(calls)), path)
        return described

    monkeypatch.setattr("watersmeet.local.keeping.lay_down", changing)
    monkeypatch.setattr("watersmeet.local.masters._FIRST_PAUSE_S", 0.001)
    changes = 2
    assert enriched(STREAM, path) == expected(STREAM, version(2, rows=1_002))
    calls, changes = [], 1_000
    with pytest.raises(InputChanged, match=r"changed each of the \d times"):
        enriched(STREAM, path)


def test_nothing_is_left_when_it_is_closed_early(tmp_path: Path) -> None:
    before = threading.active_count()
    gate = Gate(batches(STREAM), [])
    run = wm.local.enrich(gate, MASTER, "k", spill_dir=tmp_path, memory=SPILLING)
    next(run)
    run.close()
    assert not list(tmp_path.iterdir())
    gate.open()
    until(lambda: threading.active_count() <= before)
    with pytest.raises(RunClosed):
        next(run)


def test_it_can_be_closed_before_it_begins_and_while_the_master_hangs(tmp_path: Path) -> None:
    wm.local.enrich(STREAM, MASTER, "k", spill_dir=tmp_path).close()
    gate = Gate(batches(MASTER), batches(MASTER))
    run = wm.local.enrich(STREAM, iter(gate), "k", spill_dir=tmp_path)
    refused: list[RunClosed] = []

    def read() -> None:
        try:
            list(run)
        except RunClosed as error:
            refused.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    assert gate.reached.wait(PATIENCE_S)
    run.close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert refused
    assert not list(tmp_path.iterdir())
    gate.open()
