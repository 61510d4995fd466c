"""Streams that go on arriving: files in a directory, lines of JSON."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from tests.local.enriching import MASTER, SOON, STREAM, enriched
from tests.local.oracle import expected, rows_of
from tests.local.waiting import until
from watersmeet.errors import (
    InvalidArgument,
    SchemaError,
)


def test_files_that_appear_in_a_directory_are_a_stream(tmp_path: Path) -> None:
    pq.write_table(STREAM.slice(0, 500), tmp_path / "1.parquet")
    (tmp_path / ".hidden.parquet").write_text("not complete")
    (tmp_path / "notes.txt").write_text("of no format")
    stream = wm.local.watch(tmp_path, every=SOON)
    run = wm.local.enrich(stream, MASTER, "k", wait_threshold=SOON)
    found = [next(run)]
    pq.write_table(STREAM.slice(500), tmp_path / "_2.parquet")
    (tmp_path / "_2.parquet").rename(tmp_path / "2.parquet")
    until(lambda: stream.files_read == 2)
    stream.stop()
    found.extend(run)
    assert rows_of(pa.Table.from_batches(found)) == expected(STREAM, MASTER)


def test_only_a_directory_is_watched(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no directory"):
        wm.local.watch(tmp_path / "nowhere")


def test_lines_of_json_are_a_stream(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"k": 1, "a": 1}\n\n{"k": 2, "a": 2}\n{"a": 3}')
    master = pa.table({"k": [1, 2, 3], "b": [5, 6, 7]})
    assert enriched(wm.local.json_lines(path), master) == Counter([(1, 1, 5), (2, 2, 6)])


def test_a_line_is_answered_when_it_has_come() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as file, open(writing, "wb", buffering=0) as pipe:  # noqa: PTH123
        stream = wm.local.json_lines(file)
        run = wm.local.enrich(stream, pa.table({"k": [1, 2]}), "k", wait_threshold=SOON)
        pipe.write(b'{"k": 2, "a": "x"}\n{"k": 1,')
        assert next(run).to_pylist() == [{"k": 2, "a": "x"}]
        pipe.write(b' "a": "y"}\n')
        assert next(run).to_pylist() == [{"k": 1, "a": "y"}]
        stream.stop()
        assert not list(run)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"k": 1}\nno json\n', "cannot be read"),
        ('{"k": 1}\n', ""),
    ],
)
def test_lines_that_are_no_json_are_refused(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(text)
    stream = wm.local.json_lines(path)
    if not says:
        assert enriched(stream, pa.table({"k": [1]})) == Counter([(1,)])
        return
    with pytest.raises(SchemaError, match=says):
        enriched(stream, pa.table({"k": [1]}))
