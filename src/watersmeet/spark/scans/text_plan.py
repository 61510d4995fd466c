"""Is a scan of CSV files one whose lines can be read outside Spark? Options and settings are asked,
and a few lines of the files looked at."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path, PurePosixPath

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from watersmeet.delimited.layout import MOST_FIELDS, Layout, can_read, can_separate
from watersmeet.delimited.ranges import lines_between
from watersmeet.spark.gateway import java_class
from watersmeet.spark.scans.files import DataFile, JavaObject
from watersmeet.spark.scans.plan import (
    HARMLESS_OPTIONS,
    WHOLE_FILES,
    Branch,
    LogicalPlan,
    check_options,
    check_settings,
)
from watersmeet.spark.scans.pruning import matching
from watersmeet.spark.scans.refusal import Refused
from watersmeet.spark.scans.selection import TableColumn, inside
from watersmeet.spark.scans.text import MARK, SparkReader, TextScan, column_name, plain_rows

# Only columns that are asked for are parsed, by Spark as by us.
_REQUIRED_SETTINGS = WHOLE_FILES | {"spark.sql.csv.parser.columnPruning.enabled": "true"}
_SEPARATOR, _HEADER = ("sep", "delimiter"), "header"
_NULL, _EMPTY = "nullvalue", "emptyvalue"
_CORRUPT = "columnnameofcorruptrecord"
_CORRUPT_SETTING = "spark.sql.columnNameOfCorruptRecord"
# Options that change no value, whatever they say: they are about the schema, which is known by now.
_WITHOUT_EFFECT = {"inferschema", "samplingratio", "prefersdate", _CORRUPT} | HARMLESS_OPTIONS
# Options that must say what they say by default.
_DEFAULTS = {
    "mode": "permissive",
    "encoding": "utf-8",
    "charset": "utf-8",
    "multiline": "false",
    "enforceschema": "true",
    "quote": '"',
    "escape": "\\",
    "ignoreleadingwhitespace": "false",
    "ignoretrailingwhitespace": "false",
}
_NOT_FOR_COPIES = {*HARMLESS_OPTIONS, _HEADER}
_KNOWN = {*_WITHOUT_EFFECT, *_DEFAULTS, *_SEPARATOR, _HEADER, _NULL, _EMPTY}
_LEGACY_TIME = "spark.sql.legacy.timeParserPolicy"
_CHAR = "__CHAR_VARCHAR_TYPE_STRING"
_HEADER_BYTES, _LONGEST_HEADER = 4096, 1 << 20
# What is looked at before all else: so many places, and so much text at each.
_LOOKED_AT, _LOOKED_BYTES = 3, 64 * 1024
# Of the lines that are looked at: with one in a thousand left to Spark, a join of 33 MB took 1.2
# times the processor time that it took with all of them, and with one in a hundred twice.
_MOST_REFUSED = 1 / 1000


def open_text(plan: LogicalPlan, branch: Branch) -> TextScan:
    """The scan that a branch of CSV files is; Refused if it is not certain."""
    session, relation = plan.dataframe.sparkSession, branch.text
    conf = session._jsparkSession.sessionState().conf()
    check_settings(conf, _REQUIRED_SETTINGS)
    options = _options(relation)
    separator, has_header = _checked(options)
    fields = StructType.fromJson(json.loads(relation.dataSchema().json())).fields
    corrupt = options.get(_CORRUPT, conf.getConfString(_CORRUPT_SETTING))
    if any(field.name.lower() == corrupt.lower() for field in fields):
        raise Refused(f"it has a column {corrupt!r} of lines that are not as they should be")
    selection = branch.selection
    kinds = _kinds(selection.columns, fields)
    if any(map(pa.types.is_date, filter(None, kinds))) and conf.getConfString(_LEGACY_TIME) == (
        "LEGACY"
    ):
        raise Refused(f"it has dates, and {_LEGACY_TIME} is LEGACY")
    layout = Layout(tuple(kinds), separator, options.get(_NULL, ""), options.get(_EMPTY, ""))
    files = matching(branch)
    _check_compression(session, files)
    try:
        begins = tuple(_begin(file) if has_header else 0 for file in files)
        line_bytes = _line_bytes(files, begins, layout)
    except (OSError, EOFError) as error:
        raise Refused(f"its files cannot be read from here ({error})") from error
    names = [field.name for field in fields]
    positions = [names.index(field.name) for field in inside(selection.columns)]
    return TextScan(
        schema=selection.schema,
        files=files,
        begins=begins,
        selection=selection,
        layout=layout,
        places=tuple(sorted(positions).index(position) for position in positions),
        reader=_reader(fields, options),
        line_bytes=line_bytes,
    )


def _options(relation: JavaObject) -> dict[str, str]:
    options = relation.options()
    names = options.keys().mkString("\n").split("\n")
    check_options(names, _KNOWN)
    found = {name.lower(): str(options.apply(name)) for name in names if name}
    if len(found) < sum(map(bool, names)):
        raise Refused("it is read with an option twice")
    return found


def _checked(options: dict[str, str]) -> tuple[str, bool]:
    """The separator, and whether files have headers."""
    for name, value in _DEFAULTS.items():
        if name in options and options[name].lower() != value:
            raise Refused(f"it is read with the option {name}={options[name]!r}")
    if all(name in options for name in _SEPARATOR):
        raise Refused("it is read with the options 'sep' and 'delimiter'")
    separator = next((options[name] for name in _SEPARATOR if name in options), ",")
    if not can_separate(separator) or separator.isalnum() or separator in "+-.":
        raise Refused(f"its fields are separated by {separator!r}")
    for name in (_NULL, _EMPTY):
        text = options.get(name, "")
        if any(each in text for each in (separator, '"', "\\", "\r", "\n", "\0")):
            raise Refused(f"it is read with the option {name}={text!r}")
    header = options.get(_HEADER, "false").lower()
    if header not in ("true", "false"):
        raise Refused(f"it is read with the option {_HEADER}={header!r}")
    return separator, header == "true"


def _kinds(
    columns: Sequence[TableColumn], fields: Sequence[StructField]
) -> list[pa.DataType | None]:
    """Of all fields of a line; None of those that are not asked for."""
    if not 0 < len(fields) < MOST_FIELDS:
        raise Refused(f"its lines have {len(fields):,} fields")
    asked = {field.name: field.type for field in inside(columns)}
    for field in fields:
        if field.name in asked:
            kind = asked[field.name]
            if not can_read(kind) or _CHAR in field.metadata:
                raise Refused(
                    f"column {field.name!r} is {field.metadata.get(_CHAR, kind)}, whose texts are "
                    "left to Spark"
                )
    return [asked.get(field.name) for field in fields]


def _check_compression(session: SparkSession, files: Sequence[DataFile]) -> None:
    """Hadoop inflates files whose names end as one of its codecs says."""
    context = session.sparkContext
    conf = session._jsparkSession.sessionState().newHadoopConf()
    codecs = java_class(context, "org.apache.hadoop.io.compress.CompressionCodecFactory")(conf)
    path = java_class(context, "org.apache.hadoop.fs.Path")
    for ending in {PurePosixPath(file.path).suffix for file in files}:
        if ending and codecs.getCodec(path(f"file{ending}")) is not None:
            raise Refused(f"its files are compressed ({ending})")


def _begin(file: DataFile) -> int:
    """Where lines begin behind the header: the first line that is not blank, as Spark has it."""
    with Path(file.path).open("rb", buffering=0) as opened:
        text, more = b"", opened.read(_HEADER_BYTES)
        while more and len(text) < _LONGEST_HEADER:
            text += more
            at = len(MARK) if text.startswith(MARK) else 0
            while (end := text.find(b"\n", at)) >= 0:
                line = text[at:end]
                if b"\r" in line.removesuffix(b"\r"):
                    raise Refused(f"the header of {file.path} has a carriage return inside of it")
                at = end + 1
                # Java's trim() takes all characters up to the blank.
                if any(each > ord(" ") for each in line):
                    return at
            more = opened.read(len(text))
    if not more and b"\r" not in text:
        return file.size
    raise Refused(f"the header of {file.path} does not end with a line feed")


def _reader(fields: Sequence[StructField], options: dict[str, str]) -> SparkReader:
    """For copies of lines. Columns are called by their places, as a name may be any text."""
    schema = StructType(
        [StructField(column_name(place), field.dataType) for place, field in enumerate(fields)]
    )
    kept = {name: text for name, text in options.items() if name not in _NOT_FOR_COPIES}
    kept |= {"inferschema": "false"}
    return SparkReader(schema.json(), tuple(kept.items()))


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
