"""XML streams as inputs of local joins."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

import pyarrow as pa
import pytest

import watersmeet as wm
from tests.local.enriching import SOON
from tests.xml.reading import ACCESSES, NEWS, RECORDS
from watersmeet.errors import InvalidArgument, MalformedInput, SourceFailed


def test_the_news_of_the_paper_meet_their_accesses(tmp_path: Path) -> None:
    (tmp_path / "news.xml").write_text(NEWS)
    with gzip.open(tmp_path / "accesses.xml.gz", "wt") as file:
        file.write(RECORDS)
    news = wm.local.xml(tmp_path / "news.xml", "info", {"sno": "int64", "keyword": "string"})
    accesses = wm.local.xml(tmp_path / "accesses.xml.gz", "record", ACCESSES, marker=None)
    joined = wm.local.join(news, accesses, on="sno").read_all()
    assert joined["keyword"].to_pylist() == ["Smart Card"] * 2
    assert sorted(joined["ipaddr"].to_pylist()) == ["202.112.39.8", "64.58.76.224"]


def test_a_row_is_answered_when_it_has_come() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as file, open(writing, "wb", buffering=0) as pipe:  # noqa: PTH123
        stream = wm.local.xml(file, "r", {"k": "int64"}, mode="FAILFAST", marker=None)
        run = wm.local.enrich(stream, pa.table({"k": [1, 2]}), "k", wait_threshold=SOON)
        pipe.write(b"<all><r><k>2</k></r><r><k>")
        assert next(run).to_pylist() == [{"k": 2}]
        pipe.write(b"1</k></r>")
        assert next(run).to_pylist() == [{"k": 1}]
        stream.stop()
        assert not list(run)


def test_a_stream_without_rows_has_columns() -> None:
    stream = wm.local.xml(io.BytesIO(b""), "r", {"k": "int64"}, mode="FAILFAST", marker=None)
    assert wm.local.join(stream, pa.table({"k": [1]}), on="k").read_all().num_rows == 0


def test_a_cut_stream_fails_after_the_rows_before_it() -> None:
    stream = wm.local.xml(io.BytesIO(RECORDS.encode()[:120]), "record", ACCESSES)
    run = wm.local.join(stream, pa.table({"sno": [79]}), on="sno")
    says = r"cut off inside <record> .* line 11, column 4"
    with pytest.raises(SourceFailed, match=says) as failure:
        list(run)
    assert failure.value.rows_read[0] == 1
    assert isinstance(failure.value.__cause__, MalformedInput)


def test_malformed_elements_are_counted_and_join_nothing() -> None:
    text = RECORDS.replace("<sno> 81", "<sno> none")
    stream = wm.local.xml(io.BytesIO(text.encode()), "record", ACCESSES, marker=None)
    run = wm.local.join(stream, pa.table({"sno": [79, 81]}), on="sno")
    assert run.read_all().num_rows == 2
    assert stream.malformed == 1


def test_a_text_file_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="binary"):
        wm.local.xml(io.StringIO("<a/>"), "record", ACCESSES)
