"""XML element streams become rows and punctuations."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape, quoteattr

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.xml.reading import ACCESSES, NEWS, RECORDS, Read, read
from watersmeet.errors import InvalidArgument, SchemaError
from watersmeet.xml.shape import make_shape


def test_the_news_of_figure_2() -> None:
    columns = {"sno": "int64", "title": "string", "keyword": "string"}
    news = read(NEWS, columns, row="info", mode="FAILFAST")
    assert news.error is None
    assert news.values == [(79, "Cashless society gets mixed reviews", "Smart Card")]


def test_the_accesses_of_figure_3_with_their_punctuation() -> None:
    accesses = read(RECORDS, mode="FAILFAST", marker="is_punctuation")
    assert accesses.error is None
    assert accesses.values == [
        (79, "64.58.76.224", False),
        (81, "207.68.172.234", False),
        (79, "202.112.39.8", False),
        (79, None, True),
    ]


def test_punctuations_are_passed_over_if_nobody_asks_for_them() -> None:
    text = RECORDS.replace("<sno> 81", "<sno> x81").replace(
        "\n\n...", "<record><sno>y</sno></record>"
    )
    assert [row[0] for row in read(text).values] == [79, 79]
    corrupt = read(text, mode="PERMISSIVE").rows
    assert [row["sno"] for row in corrupt] == [79, None, 79, None]
    assert corrupt[3]["_corrupt_record"] == "<record><sno>y</sno></record>"


def test_paths() -> None:
    text = """<all><record id="7" other="x">own <place kind="a>b"><city>Bern</city> west
        <city>Rome</city></place><tag>1</tag>text<tag>2</tag><deep><city>no</city></deep></record>
        <record id='8'/><record><place/></record></all>"""
    columns = pa.schema(
        [("@id", pa.int32()), (".", pa.string()), ("place/@kind", pa.string()),
         ("place", pa.string()), ("city", pa.string()), ("tag", pa.list_(pa.int8()))]
    )  # fmt: skip
    found = read(text, columns, paths={"city": "place/city"})
    assert found.values == [
        (7, "own text", "a>b", "west", "Rome", [1, 2]),
        (8, "", None, None, None, None),
        (None, "", None, "", None, None),
    ]


def test_entities_of_xml_and_sections_are_text() -> None:
    text = "<a><record><ipaddr>&lt;&#65;&amp;<![CDATA[<b>&]]><!-- no -->c</ipaddr></record></a>"
    assert read(text).values == [(None, "<A&<b>&c")]


PATTERNS = {"sno": "snos", "at": ("first", "last"), "ipaddr": "equal"}


@pytest.mark.parametrize(
    ("sno", "at", "expected"),
    [
        ("{1, 2}", "*", ([1, 2], None, None)),
        ("3", "[1.5,5]", ([3], 1.5, 5.0)),
        ("*", "[,5]", (None, None, 5.0)),
        ("*", "[ 5 , * ]", (None, 5.0, None)),
        ("*", "7", (None, 7.0, 7.0)),
    ],
)
def test_sets_and_ranges_of_punctuations(sno: str, at: str, expected: tuple[Any, ...]) -> None:
    text = (
        "<a><record><sno>9</sno><at>8</at></record>"
        f"<punct:record><sno> {sno} </sno><at>{at}</at></punct:record></a>"
    )
    columns = {"sno": "int64", "at": "float64", "ipaddr": "string"}
    found = read(text, columns, patterns=PATTERNS, marker="m", mode="FAILFAST")
    assert found.error is None
    assert found.values == [
        (9, 8.0, None, None, None, None, False),
        (None, None, None, *expected, True),
    ]


@pytest.mark.parametrize("sno", ["{1,x}", "{1,2", "[1,2]", "{}", "{1,,2}", "", "x", "1,2"])
@pytest.mark.parametrize("patterns", [PATTERNS, None])
def test_a_malformed_punctuation_promises_nothing(sno: str, patterns: Any) -> None:
    """Nulls stand for anything: the rest of a malformed one would promise too much."""
    text = f"<a><punct:record><sno>{sno}</sno><ipaddr>1</ipaddr></punct:record></a>"
    columns = {"sno": "int64", "at": "float64", "ipaddr": "string"}
    found = read(text, columns, patterns=patterns, marker="m", mode="PERMISSIVE")
    (row,) = found.rows
    assert row.pop("_corrupt_record") == text[3:-4]
    assert row.pop("m") is False
    assert set(row.values()) == {None}
    dropped = read(text, columns, patterns=patterns, marker="m")
    assert not dropped.rows
    assert dropped.malformed == 1
    failed = read(text, columns, patterns=patterns, marker="m", mode="FAILFAST")
    assert failed.error is not None
    assert "'sno'" in failed.error.cause


TEXTS = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=8
).map(lambda text: text.strip(" "))
ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-(2**63), 2**63 - 1),
        st.none() | TEXTS,
        st.none() | st.floats(allow_nan=False),
        st.lists(TEXTS, min_size=1, max_size=3) | st.none(),
        st.booleans(),
    ),
    max_size=4,
)
COLUMNS = pa.schema(
    [("sno", pa.int64()), ("@name", pa.string()), ("x", pa.float64()),
     ("tag", pa.list_(pa.string())), ("is_punctuation", pa.bool_())]
)  # fmt: skip


def _written(row: tuple[Any, ...]) -> str:
    sno, name, x, tags, is_marker = row
    prefix = "punct:" if is_marker else ""
    number = "" if x is None else repr(x).replace("inf", "Infinity")
    body = "" if sno is None else f"<sno>{sno}</sno>"
    body += "<strange a='1'><b>text</b></strange>" + ("" if x is None else f"<x> {number}\n</x>")
    body += "".join(f"<tag>{escape(tag)}</tag>" for tag in tags or ())
    attribute = "" if name is None else f" name={quoteattr(name)}"
    return f"<{prefix}record{attribute}>{body}</{prefix}record>\n"


@settings(max_examples=30)
@given(ROWS, st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-be"]))
def test_rows_come_back_wherever_the_stream_is_cut(rows: list[Any], encoding: str) -> None:
    declared = encoding.replace("-sig", "").replace("-be", "")
    text = f'<?xml version="1.0" encoding="{declared}"?>\n<s:all>' + "".join(map(_written, rows))
    stream = (text + "</s:all>").encode(encoding)
    expected = [
        tuple(None if cell in ("*", ["*"]) and row[4] else cell for cell in row) for row in rows
    ]
    asked: dict[str, Any] = {"marker": "is_punctuation", "mode": "FAILFAST"}
    whole = Read([stream], COLUMNS, **asked)
    assert (whole.error, whole.values) == (None, expected)
    for size in (1, 5):
        cut = [stream[at : at + size] for at in range(0, len(stream), size)]
        assert Read(cut, COLUMNS, **asked).values == expected
    for at in range(0, len(stream), 1 + len(stream) // 12):
        assert Read([stream[:at], stream[at:]], COLUMNS, **asked).values == expected


def test_a_row_comes_with_its_last_tag() -> None:
    seen = []

    def chunks() -> Any:
        for number in range(3):
            yield f"<record><sno>{number}</sno></rec".encode()
            seen.append(number)
            yield b"ord>"

    assert Read(chunks()).batches == 3


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"row": "a b"}, "no name of an element"),
        ({"row": "watersmeet:stream"}, "no name of an element"),
        ({"mode": "LOOSE"}, "mode='LOOSE'"),
        ({"columns": ["sno"]}, "no columns with their types"),
        ({"columns": {"sno": "number"}}, "no columns with their types"),
        ({"columns": {}}, "nothing"),
        ({"columns": pa.schema([("a", pa.int8()), ("a", pa.int8())])}, "'a' twice"),
        ({"columns": {"a//b": "int64"}}, "cannot be found under"),
        ({"paths": {"other": "a"}}, "'other', which is no column"),
        ({"paths": {"sno": "ipaddr"}}, "are both 'ipaddr'"),
        ({"patterns": {"other": "a"}}, "'other' is no column"),
        ({"patterns": {"sno": ("a", "b", "c")}}, "said to be"),
        ({"patterns": {"sno": "a", "ipaddr": "a"}}, "two things into the column 'a'"),
        ({"marker": ""}, "no name of a column"),
        ({"row_bytes": 0}, "no size"),
        ({"zone": "Moon/Sea"}, "no time zone"),
    ],
)
def test_what_cannot_be_meant_is_refused(asked: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        make_shape(**({"row": "record", "columns": ACCESSES} | asked))


@pytest.mark.parametrize(
    "columns",
    [
        {"sno": "binary"},
        pa.schema([("sno", pa.list_(pa.struct([("a", pa.int8())])))]),
        pa.schema([("@sno", pa.struct([("a", pa.int8())]))]),
        {"sno": "int64", "is_punctuation": "int64"},
        {"sno": "int64", "_corrupt_record": "int64"},
    ],
)
def test_types_that_no_text_can_have_are_refused(columns: Any) -> None:
    with pytest.raises(SchemaError, match="Declare it as"):
        make_shape("record", columns)
