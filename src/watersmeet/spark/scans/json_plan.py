"""How the lines of a scan of JSON files are read outside Spark, if they can be."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.column import _to_seq
from pyspark.sql.types import StructType

from watersmeet.delimited.objects import ObjectLayout, can_name
from watersmeet.spark.scans.copies import read_copies
from watersmeet.spark.scans.files import DataFile, JavaObject
from watersmeet.spark.scans.plan import HARMLESS_OPTIONS, Place
from watersmeet.spark.scans.refusal import Refused
from watersmeet.spark.scans.text import SparkReader, column_name
from watersmeet.spark.scans.text_table import CORRUPT, Opened, TextTable

_DATE_FORMAT = "dateformat"
# Options that change no value of a plain line, whatever they say: they are about the schema, which
# is known by now, about types that we do not read, or about lines that are not plain, which Spark
# reads with them.
_WITHOUT_EFFECT = {
    "allowbackslashescapinganycharacter",
    "allowcomments",
    "allownonnumericnumbers",
    "allownumericleadingzeros",
    "allowsinglequotes",
    "allowunquotedcontrolchars",
    "allowunquotedfieldnames",
    "dropfieldifallnull",
    "enabledatetimeparsingfallback",
    "infertimestamp",
    "prefersdecimal",
    "primitivesasstring",
    "samplingratio",
    "timestampformat",
    "timestampntzformat",
    "timezone",
    _DATE_FORMAT,
    CORRUPT,
} | HARMLESS_OPTIONS
# Options that must say what they say by default.
_DEFAULTS = {
    "mode": "permissive",
    "encoding": "utf-8",
    "charset": "utf-8",
    "multiline": "false",
}
KNOWN = {*_WITHOUT_EFFECT, *_DEFAULTS}
# Of Spark's own, by which a copy tells its name.
_METADATA = "_metadata"
_ATTRIBUTE = "org.apache.spark.sql.catalyst.expressions.AttributeReference"
_PUSHED = "PushedFilters"


def open_json(table: TextTable) -> Opened:
    """Refused if it is not certain."""
    table.check_defaults(_DEFAULTS)
    if _DATE_FORMAT in table.options and pa.date32() in table.asked.values():
        raise Refused(f"it has dates, and is read with the option {_DATE_FORMAT!r}")
    if not table.asked:
        raise Refused("none of the columns in its files is asked for")
    for name in table.asked:
        if not can_name(name) or name.lower() == _METADATA:
            raise Refused(f"it has a column {name!r}")
    reader = SparkReader(
        format="json",
        # Without columns that are not asked for, which Spark's reader does not know of either.
        schema=StructType([field for field in table.fields if field.name in table.asked]).json(),
        columns=tuple((name, column_name(place)) for place, name in enumerate(table.asked)),
        options=table.options_but(HARMLESS_OPTIONS),
        # A blank line is no row.
        head=b"\n",
        where=_where(table),
    )
    if reader.where and table.branch.files:
        _check_pushed(table, reader)
    return Opened(ObjectLayout(tuple(table.asked), tuple(table.asked.values())), reader, _at_once)


def _at_once(file: DataFile) -> int:
    return 0


def _where(table: TextTable) -> str:
    """In SQL, the filters that Spark's reader is given.

    It leaves a line where a value has come that they drop, and so does not see what is wrong behind
    that, nor that a member comes again. Copies must be read so, too.
    """
    if table.branch.selection.filter is None:
        return ""
    scan = _scan(table.dataframe, table.branch.place)
    if _pushed(scan) == "[]":
        return ""
    filters = scan.dataFilters()
    nothing = _to_seq(table.session.sparkContext, [])
    texts = [
        _unqualified(filters.apply(place), table.session, nothing).sql()
        for place in range(filters.size())
    ]
    return " AND ".join(f"({text})" for text in texts)


def _unqualified(expression: JavaObject, session: SparkSession, nothing: JavaObject) -> JavaObject:
    """Without the names of tables before those of columns."""
    if expression.getClass().getName() == _ATTRIBUTE:
        return expression.withQualifier(nothing)
    children = expression.children()
    if not children.size():
        return expression
    found = [
        _unqualified(children.apply(place), session, nothing) for place in range(children.size())
    ]
    return expression.withNewChildren(_to_seq(session.sparkContext, found))


def _check_pushed(table: TextTable, reader: SparkReader) -> None:
    """Refused if the filters for copies are not those for the files."""
    frame = read_copies(table.session, reader, [table.branch.files[0].path], has_header=False)
    own = _pushed(_scan(table.dataframe, table.branch.place))
    copied = _pushed(_scan(frame, Place(1, 1)))
    if own != copied:
        raise Refused(f"Spark reads its files with the filters {own}, and would not read copies so")


def _scan(frame: DataFrame, place: Place) -> JavaObject:
    """What Spark plans for the branch of a DataFrame that is there."""
    scans = frame._jdf.queryExecution().sparkPlan().collectLeaves()
    if scans.size() != place.of:
        raise Refused("Spark's plan does not have a scan for each branch")
    return scans.apply(place.number - 1)


def _pushed(scan: JavaObject) -> str:
    return str(scan.metadata().apply(_PUSHED))
