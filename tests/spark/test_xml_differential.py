"""Elements of XML as our reader and as Spark's own reads them: where both agree, and where not.

docs/local.md names the differences and their reasons; those that are listed here must be there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import watersmeet as wm
from watersmeet.spark.xml_files import xml_table

pytestmark = pytest.mark.spark

Rows = list[tuple[Any, ...]]
ERROR: Rows = [("error",)]

TEXTS = {
    "BOOLEAN": ["true", "TRUE", "1", "0", "false", "False", "yes", "t", "2", " true ", "", "y"],
    "TINYINT": [
        "1", "-1", "+1", "127", "128", "-128", "1.0", "1e1", " 5 ", "", "x", "0x1", "1_0", "٣",
        "007", "--1", "1,000",
    ],
    "SMALLINT": ["32767", "32768", "+5", "-0", "-32768"],
    "INT": ["2147483647", "2147483648", "+5", "1.5", "12abc", "1,5"],
    "BIGINT": ["9223372036854775807", "9223372036854775808", "-9223372036854775808", "1L", "-5"],
    "FLOAT": [
        "1.5", "1e39", "NaN", "nan", "Infinity", "-Infinity", "inf", "+Inf", "1f", "0.1", "1e-50",
        "abc", "1,5", "16777217",
    ],
    "DOUBLE": [
        "1.5", "1.", "  .5", "1e5", "1E+5", "NaN", "nan", "Infinity", "+Infinity", "-Inf", "Inf",
        "1d", "0x1p3", "1e400", "1,234.5", "1..2", "", "-0.0", "1 2", "4.9e-324",
    ],
    "DECIMAL(5,2)": [
        "1.25", "1.255", "1.245", "999.99", "999.995", "1000", "1e2", "-1.1", "+1", "1,234",
        "abc", "0.001", "99999", ".5", "-0.005", "",
    ],
    "DECIMAL(38,10)": [
        "12345678901234567890.1234567890123", "1e-20", "9999999999999999999999999999", "1e60",
    ],
    "DATE": [
        "2020-01-31", "2020-1-3", "2020-02-30", "2020", "2020-05", "20200131", "2020-01-31 10",
        "2020-01-31T10:00:00", "0001-01-01", "9999-12-31", "10000-01-01", "31/01/2020",
        "2020-01-31Z", "abc", "", "1582-10-10", " 2020-02-29 ",
    ],
    "TIMESTAMP": [
        "2020-01-31T10:11:12", "2020-01-31 10:11:12", "2020-01-31T10:11:12.123456",
        "2020-01-31T10:11:12.123456789", "2020-01-31T10:11:12Z", "2020-01-31T10:11:12+02:00",
        "2020-01-31T10:11:12 Europe/Berlin", "2020-01-31", "2020", "2020-01-31T10",
        "2020-01-31T10:11", "2020-01-31T24:00:00", "2020-02-30T00:00:00", "10:11:12",
        "2020-01-31T10:11:12+2", "2020-01-31T10:11:12UTC", "abc", "", "1970-01-01T00:00:00.5",
        "1960-02-03T04:05:06.7", "2020-03-29T02:30:00", "2020-10-25T02:30:00",
        "2020-07-01T12:00:00",
    ],
    "TIMESTAMP_NTZ": [
        "2020-01-31T10:11:12", "2020-01-31 10:11:12", "2020-01-31T10:11:12.123456",
        "2020-01-31T10:11:12Z", "2020-01-31", "2020", "2020-01-31T10:11", "abc",
        "2020-01-31T10:11:12+01:00", "",
    ],
    "STRING": ["a", " a b ", "", "   ", "*", "&lt;", "<![CDATA[ x ]]>", "null", "a<b>c</b>d"],
}  # fmt: skip
OUR_WAY = {
    # Spark reads numbers of Java's, and what stands before the first text that is no number.
    ("TINYINT", "٣"), ("FLOAT", "1f"), ("FLOAT", "1,5"), ("DOUBLE", "1d"), ("DOUBLE", "0x1p3"),
    ("DOUBLE", "1,234.5"), ("DOUBLE", "1..2"), ("DOUBLE", "1 2"),
    # Spark has no way to write this number.
    ("BIGINT", "-9223372036854775808"),
    # Spark takes it for a time of today.
    ("TIMESTAMP", "10:11:12"),
    # Spark makes a text of elements.
    ("STRING", "a<b>c</b>d"),
}  # fmt: skip


@pytest.fixture
def in_zone(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    zone = str(request.param)
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", zone)
    yield zone
    spark.conf.set("spark.sql.session.timeZone", before)


def read(spark: SparkSession, path: Path, schema: str, mode: str, paths: Any) -> tuple[Rows, Rows]:
    """What we and Spark find."""
    if mode == "PERMISSIVE":
        schema += ", _corrupt_record STRING"
    asked: dict[str, Any] = {"mode": mode, "marker": None, "paths": paths}
    reader = spark.read.format("xml").options(rowTag="r", mode=mode).schema(schema)
    try:
        theirs = [tuple(row) for row in reader.load(str(path)).collect()]
    except (PySparkException, Py4JJavaError):
        theirs = ERROR
    try:
        ours = xml_table(spark, path, "r", schema, **asked).collect()
    except PySparkException as error:
        if wm.stream_error(error) is None:
            raise
        return ERROR, theirs
    return [tuple(row) for row in ours], theirs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "in_zone"),
    [*((kind, "UTC") for kind in TEXTS), ("TIMESTAMP", "Europe/Berlin")],
    indirect=["in_zone"],
)
def test_texts_are_the_values_that_spark_makes_of_them(
    spark: SparkSession, tmp_path: Path, kind: str, in_zone: str
) -> None:
    """And malformed where Spark says so, in all modes."""
    texts = TEXTS[kind]

    def lines(numbers: Any) -> str:
        return "".join(f"<r><n>{n}</n><v>{texts[n]}</v></r>\n" for n in numbers)

    def written(numbers: Any) -> Path:
        path = tmp_path / "a.xml"
        path.write_text(f"<all>{lines(numbers)}</all>")
        return path

    def by_text(rows: Rows) -> dict[str, tuple[str, bool]]:
        """Values, or that they are malformed."""
        made = {}
        for n, value, corrupt in rows:
            number = int(re.findall("<n>(.*)</n>", corrupt)[0]) if n is None else n
            made[texts[number]] = (repr(value), corrupt is not None)
        return made

    schema = f"n INT, v {kind}"
    ours, theirs = map(by_text, read(spark, written(range(len(texts))), schema, "PERMISSIVE", {}))
    assert set(ours) == set(theirs) == set(texts)
    assert {text for text in texts if ours[text] != theirs[text]} == {
        text for each, text in OUR_WAY if each == kind
    }
    alike = [n for n, text in enumerate(texts) if (kind, text) not in OUR_WAY]
    mine, dropped = read(spark, written(alike), schema, "DROPMALFORMED", {})
    assert repr(mine) == repr(dropped)
    assert [row[0] for row in mine] == [n for n in alike if not ours[texts[n]][1]]
    good = [n for n in alike if not ours[texts[n]][1]]
    mine, all_good = read(spark, written(good), schema, "FAILFAST", {})
    assert repr(mine) == repr(all_good)
    assert len(mine) == len(good)
    for bad in sorted(set(alike) - set(good))[:2]:
        assert read(spark, written([*good, bad]), schema, "FAILFAST", {}) == (ERROR, ERROR)


ELEMENTS = {
    "nothing is there": (
        "<a><r><n>1</n><v>x</v></r><r><v>y</v></r><r/><r></r><r> <n/> </r></a>",
        "n INT, v STRING",
    ),
    "texts are empty": (
        "<a><r><n>1</n><v></v></r><r><v/></r><r><v>  </v></r><r><n>4</n></r></a>",
        "n INT, v STRING",
    ),
    "attributes": ("<a><r id='7' x='q'><n u='k'>1</n></r><r><n>2</n></r></a>", "_id INT, n INT"),
    "a text beside attributes": ("<a><r id='7'> t </r><r>x</r></a>", "_id INT, _VALUE STRING"),
    "elements that repeat": (
        "<a><r><n>1</n><v>1</v><v>2</v></r><r><n>2</n><v>3</v></r><r><n>3</n></r>"
        "<r><n>4</n><v/></r><r><n>5</n><v>1</v><v/><v>2</v></r></a>",
        "n INT, v ARRAY<INT>",
    ),
    "texts that repeat": ("<a><r><v>a</v><v/><v> </v></r></a>", "v ARRAY<STRING>"),
    "the last of several": ("<a><r><n>1</n><n>2</n></r></a>", "n INT"),
    "structs": (
        "<a><r><n>1</n><p><c>B</c><d>1</d></p></r><r><n>2</n><p/></r><r><n>3</n></r>"
        "<r><p><c>Q</c></p><p><d>4</d><d>5</d></p></r></a>",
        "n INT, p STRUCT<c: STRING, d: ARRAY<INT>>",
    ),
    "structs in structs": (
        "<a><r><p><q><c>2020-01-02</c></q></p></r><r><p><q/></p></r><r><p/><c>x</c></r></a>",
        "p STRUCT<q: STRUCT<c: DATE>, z: INT>",
    ),
    "unknown elements": ("<a><r><z><n>9</n></z><n>1</n><q>1<w/></q></r></a>", "n INT"),
    "comments": (
        "<a><!-- <r><n>5</n></r> --><r><n>1<!-- x --></n><v>a<!-- b -->c</v></r></a>",
        "n INT, v STRING",
    ),
    "sections": (
        "<a><![CDATA[<r><n>5</n></r>]]><r><n><![CDATA[1]]></n><v><![CDATA[<x>]]></v></r></a>",
        "n INT, v STRING",
    ),
    "entities": ("<a><r><n>1</n><v>&amp;&#65;&quot;</v></r></a>", "n INT, v STRING"),
    "ends of lines": ("<a><r><v>a\r\nb\tc</v></r></a>", "v STRING"),
    "prefixes": (
        "<a xmlns:k='u'><k:r><n>0</n></k:r><r><k:n>1</k:n></r><r><n>2</n></r></a>", "n INT",
    ),
    "punctuations": ("<s:a><r><n>1</n></r><punct:r><n>1</n></punct:r></s:a>", "n INT"),
    "a bad value": ("<a><r><n>1</n></r><r><n>x</n></r><r><n>3</n></r></a>", "n INT"),
    "a bad value in a struct": ("<a><r><p><n>x</n></p></r><r/></a>", "p STRUCT<n: INT>"),
    "the end is cut off": ("<a><r><n>1</n></r><r><n>2</n>", "n INT"),
    "a document type": ("<!DOCTYPE a [<!ENTITY x 'y'>]><a><r><v>&x;</v></r></a>", "v STRING"),
}  # fmt: skip
PATHS = {"_id": "@id", "_VALUE": "."}


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED", "FAILFAST"])
@pytest.mark.parametrize("name", ELEMENTS)
def test_elements_are_the_rows_that_spark_makes_of_them(
    spark: SparkSession, tmp_path: Path, name: str, mode: str
) -> None:
    text, schema = ELEMENTS[name]
    path = tmp_path / "a.xml"
    path.write_bytes(text.encode())
    paths = {column: steps for column, steps in PATHS.items() if column in schema}
    ours, theirs = read(spark, path, schema, mode, paths)
    if mode == "PERMISSIVE":
        # Spark's corrupt records are whole files, and keep what was read before the bad field.
        ours = [row if row[-1] is None else ("bad",) for row in ours]
        theirs = [row if row[-1] is None else ("bad",) for row in theirs]
    assert ours == theirs
    assert ours or (name, mode) == ("a document type", "DROPMALFORMED")


DIFFERENT = {
    "elements behind a malformed one": (
        "<a><r><n>1</n></r><r><n>2</r><r><n>3</n></r></a>", "n INT", [(1,), (3,)], [(1,)],
    ),
    "names of another case": ("<a><r><N>2</N></r></a>", "n INT", [(None,)], [(2,)]),
    "a row in a row": ("<a><r><n>1</n><r><n>2</n></r></r></a>", "n INT", [(2,)], [(1,)]),
    "no root": ("<r><n>1</n></r><r><n>2</n></r>", "n INT", [(1,), (2,)], [(1,)]),
    "text around elements": (
        "<a><r>t1<n>1</n>t2</r></a>", "n INT, _VALUE STRING", [(1, "t1t2")], [(1, "t2")],
    ),
    "an empty attribute": ("<a><r id=''/></a>", "_id INT", [(None,)], ERROR),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", DIFFERENT)
def test_what_differs_from_spark(spark: SparkSession, tmp_path: Path, name: str) -> None:
    text, schema, mine, others = DIFFERENT[name]
    path = tmp_path / "a.xml"
    path.write_text(text)
    paths = {column: steps for column, steps in PATHS.items() if column in schema}
    assert read(spark, path, schema, "DROPMALFORMED", paths) == (mine, others)


def test_a_row_of_all_types(spark: SparkSession, tmp_path: Path) -> None:
    values = {
        "BOOLEAN": "true", "TINYINT": "-8", "SMALLINT": "300", "INT": " 5 ", "BIGINT": "8589934592",
        "FLOAT": "0.1", "DOUBLE": "-1.5e3", "DECIMAL(9,3)": "12.3456", "DATE": "2020-02-29",
        "TIMESTAMP": "2020-01-31T10:11:12.5+02:00", "TIMESTAMP_NTZ": "2020-01-31T10:11:12",
        "STRING": "é &lt; 2", "ARRAY<INT>": "1</c12><c12>2",
        "STRUCT<x: INT, y: STRING>": "<x>1</x>",
    }  # fmt: skip
    cells = "".join(f"<c{n}>{text}</c{n}>" for n, text in enumerate(values.values()))
    path = tmp_path / "a.xml"
    path.write_text(f"<all><r>{cells}</r><r/><r><c1>x</c1></r></all>")
    schema = ", ".join(f"c{n} {kind}" for n, kind in enumerate(values))
    ours, theirs = read(spark, path, schema, "DROPMALFORMED", {})
    assert ours == theirs
    assert len(ours) == 2
    assert None not in ours[0]
