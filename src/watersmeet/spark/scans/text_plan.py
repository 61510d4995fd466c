"""Is a scan of text files one whose lines can be read outside Spark? Options and settings are
asked, and a few lines of the files looked at."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path, PurePosixPath

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from watersmeet.delimited.layout import Layout
from watersmeet.delimited.ranges import lines_between
from watersmeet.spark.gateway import java_class
from watersmeet.spark.scans import csv_plan, json_plan
from watersmeet.spark.scans.files import DataFile
from watersmeet.spark.scans.plan import CSV, JSON, WHOLE_FILES, Branch, check_settings
from watersmeet.spark.scans.pruning import matching
from watersmeet.spark.scans.refusal import Refused
from watersmeet.spark.scans.selection import inside
from watersmeet.spark.scans.text import TextScan, plain_rows
from watersmeet.spark.scans.text_table import TextTable

_LONGEST_LINE = "mapreduce.input.linerecordreader.line.maxlength"
# By the class of their format, the options that are known, and who opens a table of such files.
_FORMATS = {CSV: (csv_plan.KNOWN, csv_plan.open_csv), JSON: (json_plan.KNOWN, json_plan.open_json)}
# What is looked at before all else: so many places, and so much text at each.
_LOOKED_AT, _LOOKED_BYTES = 3, 64 * 1024
# Of the lines that are looked at: with one in a thousand left to Spark, a join of 33 MB took 1.2
# times the processor time that it took with all of them, and with one in a hundred twice.
_MOST_REFUSED = 1 / 1000


def open_text(branch: Branch, dataframe: DataFrame) -> TextScan:
    """The scan that a branch of text files is; Refused if it is not certain."""
    session, relation = dataframe.sparkSession, branch.text
    assert relation is not None
    check_settings(session._jsparkSession.sessionState().conf(), WHOLE_FILES)
    known, opener = _FORMATS[relation.fileFormat().getClass().getName()]
    table = TextTable.of(branch, dataframe, known=known)
    opened, selection, files = opener(table), branch.selection, matching(branch)
    _check_hadoop(session, files)
    try:
        begins = tuple(map(opened.begin, files))
        line_bytes = _line_bytes(files, begins, opened.layout)
    except (OSError, EOFError) as error:
        raise Refused(f"its files cannot be read from here ({error})") from error
    order = list(table.asked)
    return TextScan(
        schema=selection.schema,
        files=files,
        begins=begins,
        selection=selection,
        layout=opened.layout,
        places=tuple(order.index(field.name) for field in inside(selection.columns)),
        reader=opened.reader,
        line_bytes=line_bytes,
    )


def _check_hadoop(session: SparkSession, files: Sequence[DataFile]) -> None:
    """Hadoop inflates files whose names end as one of its codecs says, and may leave out lines."""
    context = session.sparkContext
    conf = session._jsparkSession.sessionState().newHadoopConf()
    if conf.get(_LONGEST_LINE) is not None:
        raise Refused(f"{_LONGEST_LINE} is set")
    codecs = java_class(context, "org.apache.hadoop.io.compress.CompressionCodecFactory")(conf)
    path = java_class(context, "org.apache.hadoop.fs.Path")
    for ending in {PurePosixPath(file.path).suffix for file in files}:
        if ending and codecs.getCodec(path(f"file{ending}")) is not None:
            raise Refused(f"its files are compressed ({ending})")


def _line_bytes(files: Sequence[DataFile], begins: Sequence[int], layout: Layout) -> float:
    """About what a line has; Refused if too many of those that are looked at are not plain."""
    first: list[str] = []
    refused = rows = nbytes = 0

    def count(text: pa.Buffer, reason: str) -> None:
        nonlocal refused
        first.append(reason)
        refused += text.to_pybytes().count(b"\n")

    for file, start, stop in _places(files, begins):
        with Path(file.path).open("rb", buffering=0) as opened:
            text = lines_between(opened, start, stop, size=file.size)
        rows += sum(each for _, each in plain_rows(text, layout, count))
        nbytes += text.size
    if refused > _MOST_REFUSED * (rows + refused):
        raise Refused(f"many of its lines are not plain: {first[0]}")
    return nbytes / max(rows + refused, 1)


def _places(
    files: Sequence[DataFile], begins: Sequence[int]
) -> Iterator[tuple[DataFile, int, int]]:
    """Ranges of bytes, spread over all of them."""
    ends = list(accumulate(file.size - at for file, at in zip(files, begins, strict=True)))
    for part in range(_LOOKED_AT if ends and ends[-1] else 0):
        offset = ends[-1] * part // _LOOKED_AT
        place = bisect_right(ends, offset)
        file, behind = files[place], ends[place] - offset
        yield file, file.size - behind, min(file.size - behind + _LOOKED_BYTES, file.size)
