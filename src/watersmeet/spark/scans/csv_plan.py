"""How the lines of a scan of CSV files are read outside Spark, if they can be."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql.types import StructField, StructType

from watersmeet.delimited.fields import MOST_FIELDS, FieldLayout, can_separate
from watersmeet.spark.scans.files import DataFile
from watersmeet.spark.scans.plan import HARMLESS_OPTIONS, check_settings
from watersmeet.spark.scans.refusal import Refused
from watersmeet.spark.scans.text import MARK, SparkReader, column_name
from watersmeet.spark.scans.text_table import CORRUPT, Opened, TextTable

# Only columns that are asked for are parsed, by Spark as by us.
_REQUIRED_SETTINGS = {"spark.sql.csv.parser.columnPruning.enabled": "true"}
_SEPARATOR, _HEADER = ("sep", "delimiter"), "header"
_NULL, _EMPTY = "nullvalue", "emptyvalue"
# Options that change no value, whatever they say: they are about the schema, which is known by now.
_WITHOUT_EFFECT = {"inferschema", "samplingratio", "prefersdate", CORRUPT} | HARMLESS_OPTIONS
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
KNOWN = {*_WITHOUT_EFFECT, *_DEFAULTS, *_SEPARATOR, _HEADER, _NULL, _EMPTY}
_HEADER_BYTES, _LONGEST_HEADER = 4096, 1 << 20


def open_csv(table: TextTable) -> Opened:
    """Refused if it is not certain."""
    check_settings(table.conf, _REQUIRED_SETTINGS)
    separator, has_header = _checked(table)
    if not 0 < len(table.fields) < MOST_FIELDS:
        raise Refused(f"its lines have {len(table.fields):,} fields")
    layout = FieldLayout(
        tuple(table.asked.get(field.name) for field in table.fields),
        separator,
        table.options.get(_NULL, ""),
        table.options.get(_EMPTY, ""),
    )
    return Opened(layout, _reader(table, layout), _begin if has_header else _at_once)


def _checked(table: TextTable) -> tuple[str, bool]:
    """The separator, and whether files have headers."""
    options = table.options
    table.check_defaults(_DEFAULTS)
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


def _at_once(file: DataFile) -> int:
    return 0


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


def _reader(table: TextTable, layout: FieldLayout) -> SparkReader:
    """For copies of lines. Columns are called by their places, as a name may be any text."""
    places = range(len(table.fields))
    asked = [place for place in places if layout.kinds[place] is not None]
    schema = StructType(
        [StructField(column_name(place), table.fields[place].dataType) for place in places]
    )
    return SparkReader(
        format="csv",
        schema=schema.json(),
        # Rows are counted by one.
        columns=tuple((column_name(place), column_name(place)) for place in asked or [0]),
        options=(
            *table.options_but({*HARMLESS_OPTIONS, _HEADER, "inferschema"}),
            ("inferschema", "false"),
        ),
        head=f"{layout.separator.join(map(column_name, places))}\n".encode(),
    )
