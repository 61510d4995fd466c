"""XML files as tables and streams of Spark, beside Spark's own reader of XML."""

from __future__ import annotations

import gzip
import os
import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import watersmeet as wm
from tests.spark.streams.running import Rows, Streams, counted
from watersmeet.errors import InputChanged, InvalidArgument, MalformedInput, SchemaError
from watersmeet.spark import xml_files
from watersmeet.spark.xml_files import rows_of_files
from watersmeet.xml.shape import Shape, make_shape

pytestmark = pytest.mark.spark

NEWS = {"row": "info", "columns": "sno BIGINT, title STRING"}
ACCESSES = {"row": "record", "columns": "sno BIGINT, ipaddr STRING, at TIMESTAMP"}
PROMISES = [
    wm.unique("left", "sno"),
    wm.punctuated("right", when="is_punctuation", pattern={"sno": "equal"}),
]
LIVE = 6
"""News that are read at one time."""
_EARLY = 1_700_000_000


class NewsStreams(Streams):
    """The paper's news and accesses to them, as files of XML (Figures 2 and 3)."""

    def put(self, side: str, name: str, elements: str) -> None:
        folder = self.path / side
        folder.mkdir(parents=True, exist_ok=True)
        draft = self.path / f"draft-{name}"
        draft.write_text(f"<stream:{side}>{elements}</stream:{side}>")
        # Spark takes files in the order of their times, and those of one moment in any order.
        os.utime(draft, (_EARLY + int(name), _EARLY + int(name)))
        draft.rename(folder / f"{name}.xml")

    def arrive(self, numbers: range, *, seed: int = 0) -> None:
        """A file of each in a batch. An item is live for three of them, and then there is a
        punctuation."""
        chance = random.Random(seed)
        for number in numbers:
            news = range(number * LIVE // 3, (number + 1) * LIVE // 3)
            live = range(max(0, (number - 2) * LIVE // 3), news.stop)
            self.put("left", f"{number:03}", "".join(
                f"<info><sno> {sno} </sno><title>News &amp; {sno}</title></info>\n" for sno in news
            ))  # fmt: skip
            accesses = [
                f"<record><sno>{chance.choice(live[1:] or live)}</sno><ipaddr>10.0.0.{n} é</ipaddr>"
                f"<at>2026-01-01T00:{number % 60:02}:{n:02}</at></record>"
                for n in range(20)
            ]
            done = [
                f"<punct:record><sno>{sno}</sno><ipaddr>*</ipaddr><at>*</at></punct:record>"
                for sno in range(max(0, (number - 2) * LIVE // 3), (number - 1) * LIVE // 3)
            ]
            self.put("right", f"{number:03}", "".join(accesses + done))

    def stream(self, side: str, files: int = 1) -> DataFrame:
        asked: dict[str, Any] = NEWS | {"marker": None} if side == "left" else dict(ACCESSES)
        options = {"maxFilesPerTrigger": files}
        return wm.xml_stream(
            self.spark, self.path / side, **asked, mode="FAILFAST", options=options
        )

    def joined(self, **changes: Any) -> DataFrame:
        options = {"on": "sno", "promises": PROMISES, "instances": 2}
        return super().joined(**options | changes).drop("is_punctuation")

    def expected(self, how: str = "inner") -> Rows:
        """Spark's own join of what Spark's own reader finds."""
        left, right = (
            self.spark.read.format("xml")
            .options(rowTag=said["row"], mode="FAILFAST")
            .schema(said["columns"])
            .load(str(self.path / side))
            for side, said in (("left", NEWS), ("right", ACCESSES))
        )
        return counted(left.join(right, "sno", how))


@dataclass(frozen=True)
class KilledOnce:
    """Reads files as our tasks do, in a worker that is killed when the first rows have gone out."""

    marker: Path

    def __call__(self, shape: Shape, files: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rows_of_files(shape, files):
            yield batch
            try:
                self.marker.touch(exist_ok=False)
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def news(spark: SparkSession, tmp_path: Path) -> NewsStreams:
    return NewsStreams(spark, tmp_path)


def test_each_element_is_joined_once_through_restarts_and_kills(
    news: NewsStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    news.arrive(range(1))
    news.run()
    news.arrive(range(1, 3))
    monkeypatch.setattr(xml_files, "rows_of_files", KilledOnce(news.path / "killed"))
    found = news.run()
    assert (news.path / "killed").exists()
    assert found == news.expected()
    assert sum(found.values()) == 60
    kept = [batch["promises"]["rows_kept"] for batch in wm.stream_metrics(news.path / "state")]
    # The accesses have all met their news. Of those, the live ones stay.
    assert max(kept) <= LIVE


@pytest.mark.slow  # the same way as above takes, for longer
def test_state_stays_small_in_a_long_query_that_is_stopped_again_and_again(
    news: NewsStreams,
) -> None:
    """Stopped at any moment, and not between micro-batches only."""
    batches = 60
    for number in range(batches):
        news.arrive(range(number, number + 1), seed=number)
    moments = random.Random(5)
    for _ in range(6):
        query = news.start(news.joined(how="left"), {"processingTime": "0 seconds"})
        query.awaitTermination(moments.randrange(2, 8))
        assert query.exception() is None
        query.stop()
    found = news.run(how="left")
    told = wm.stream_metrics(news.path / "state")
    assert max(batch["promises"]["rows_kept"] for batch in told) <= 2 * LIVE
    # News whose end nobody has told wait for accesses.
    waiting = range((batches - 2) * LIVE // 3, batches * LIVE // 3)
    expected = news.expected("left")
    early = {row: n for row, n in expected.items() if row[2] is None and row[0] in waiting}
    assert found == expected - type(expected)(early)
    assert sum(n for row, n in found.items() if row[2] is None) > 0


def table(spark: SparkSession, path: Path, columns: Any, **said: Any) -> list[tuple[Any, ...]]:
    rows = wm.xml_table(spark, path, "record", columns, **{"marker": None} | said).collect()
    return sorted(map(tuple, rows), key=repr)


GOOD = "<all><record><sno>1</sno></record><record><sno>2</sno></record></all>"
BAD = "<all><record><sno>3</sno></record>\n<record><sno>x</sno></record><record><sno>4</sno></rec"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """With names that Hadoop, URIs and patterns of names could take for something else."""
    folder = tmp_path / "a folder é%20"
    folder.mkdir()
    (folder / "50% b.xml").write_text(GOOD)
    (folder / "c.xml.gz").write_bytes(gzip.compress(BAD.encode("utf-16")))
    (folder / "_not.xml").write_text("not read")
    (folder / "d.xml").write_text(BAD)
    return folder


@pytest.mark.parametrize("readable", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_modes_decide_what_becomes_of_damaged_files(
    spark: SparkSession, files: Path, readable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of files that are not on this machine: Spark brings their contents then."""
    place = xml_files._place
    monkeypatch.setattr(xml_files, "_place", lambda *said: (place(*said)[0], readable))
    good: list[tuple[Any, ...]] = [(1, None), (2, None), (3, None), (3, None)]
    bad = ["<record><sno>x</sno></record>", "<record><sno>4</sno></rec"]
    found = table(spark, files, "sno INT", mode="permissive")
    assert found == sorted(good + 2 * [(None, text) for text in bad], key=repr)
    dropped = table(spark, files, "sno INT", mode="DROPMALFORMED")
    assert dropped == [(1,), (2,), (3,), (3,)]
    with pytest.raises(PythonException) as caught:
        table(spark, files / "d.xml", "sno INT", mode="FAILFAST")
    assert "Traceback" not in str(caught.value)
    error = wm.stream_error(caught.value)
    assert isinstance(error, MalformedInput)
    assert (error.line, error.column) == (2, 1)
    assert "d.xml has a malformed <record>: the text of 'sno' is no int32" in str(error)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"<all>&</all><", "was cut off inside a tag"),
        (b"<all><record/>", "was cut off inside <all>"),
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]><all/>", "DOCTYPE"),
        (b"<all>" + b"<b>" * 300, "nested more than 200 deep"),
        (b"<all><record>\xff", "not utf-8"),
    ],
)
def test_the_rest_of_a_damaged_file_is_a_corrupt_record(
    spark: SparkSession, tmp_path: Path, text: bytes, says: str
) -> None:
    (tmp_path / "a.xml").write_bytes(text)
    (tmp_path / "b.xml").write_text(GOOD)
    found = table(spark, tmp_path, "sno INT")
    assert {row[0] for row in found} == {1, 2, None}
    assert sum(row[1] is not None for row in found) >= 1
    with pytest.raises(PythonException) as caught:
        table(spark, tmp_path / "a.xml", "sno INT", mode="FAILFAST")
    assert isinstance(wm.stream_error(caught.value), MalformedInput)
    assert says in str(caught.value) or b"&" in text


@pytest.mark.slow
def test_a_stream_that_fails_says_where_and_goes_on_when_the_file_was_mended(
    spark: SparkSession, files: Path, tmp_path: Path
) -> None:
    streams = Streams(spark, tmp_path)

    def start() -> Any:
        elements = wm.xml_stream(
            spark, files, "record", "sno INT", mode="FAILFAST", marker=None,
            options={"maxFilesPerTrigger": 1, "pathGlobFilter": "*.xml"},
        )  # fmt: skip
        return streams.start(elements)

    query = start()
    with pytest.raises(StreamingQueryException):
        query.awaitTermination()
    error = wm.stream_error(query)
    assert isinstance(error, MalformedInput)
    assert "d.xml has a malformed <record>" in str(error)
    (files / "d.xml").write_text(GOOD.replace(">1<", ">3<").replace(">2<", ">4<"))
    start().awaitTermination()
    assert streams.output() == {(number,): 1 for number in (1, 2, 3, 4)}


def test_what_cannot_be_read_is_refused_at_the_call(spark: SparkSession, tmp_path: Path) -> None:
    for path in (tmp_path / "none", "", 5, "gopher://a/b"):
        with pytest.raises(InvalidArgument):
            wm.xml_stream(spark, path, "record", "sno INT")  # type: ignore[arg-type]
    for columns in ("sno CHAR(5)", "sno nothing", "sno BINARY", {"sno": "uint64"}):
        with pytest.raises(SchemaError):
            wm.xml_table(spark, tmp_path, "record", columns)
    for wrong in ({"mode": "LOOSE"}, {"marker": 7}, {"zone": "Moon/Sea"}, {"options": 7}):
        with pytest.raises(InvalidArgument):
            wm.xml_table(spark, tmp_path, "record", "sno INT", **wrong)
    with pytest.raises(InvalidArgument, match="no classic Spark session"):
        wm.xml_table(None, tmp_path, "record", "sno INT")  # type: ignore[arg-type]


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    shape = make_shape("record", {"sno": "int64"})
    path = pa.record_batch({"path": [f"file:{tmp_path}/gone.xml"]})
    with pytest.raises(InputChanged, match=r"gone\.xml cannot be read"):
        list(rows_of_files(shape, [path]))
