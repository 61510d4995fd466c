"""What single lines of objects are read as, and which ones are not read. Each was looked up in
Spark (tests/spark/test_objects.py compares random ones)."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.delimited.nasty_objects import NastyObjects
from tests.delimited.reading import read_plain
from watersmeet.delimited.objects import ObjectLayout, can_name
from watersmeet.delimited.reading import NotPlain, columns_of

TWO = ObjectLayout(("a", "b"), (pa.string(), pa.int32()))
REFUSED = object()


def rows_of(text: bytes, layout: ObjectLayout = TWO) -> list[Any]:
    """Rows as tuples, in the order of lines; raises if one is refused."""
    found: list[Any] = []
    for columns, _ in columns_of(pa.py_buffer(text), layout, batch_rows=2):
        found += zip(*(column.to_pylist() for column in columns), strict=True)
    return found


def value_of(text: str, kind: pa.DataType) -> Any:
    """What a member's value is as this type, or that it is refused."""
    try:
        ((value,),) = rows_of(f'{{"v":{text}}}\n'.encode(), ObjectLayout(("v",), (kind,)))
    except NotPlain:
        return REFUSED
    return value


def fault_of(text: bytes) -> str:
    """What is wrong with the one line that is refused, between two that are not."""
    line = text if text.endswith(b"\n") else text + b"\n"
    read = read_plain(b'{"a":"first"}\n' + line + b'{"a":"last"}', TWO)
    assert read.rows["0"].to_pylist() == ["first", "last"]
    ((reason, refused),) = read.refused
    assert refused == line
    return reason


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        *((b"", []), (b"\n \n\t\r\n \r", []), (b"{}", [(None, None)]), (b"{ }\r", [(None, None)])),
        (b'{"a":"x","b":1}\r\n{"b":2,"a":"y"}\n', [("x", 1), ("y", 2)]),
        (b'\t{ "a"\t: "x" , "b" : 1 }\t \n', [("x", 1)]),
        (b'{"b":3}\n{"a":"z"}', [(None, 3), ("z", None)]),
        (b'{"a":null,"b":null}\n{"a":""}', [(None, None), ("", None)]),
        ('{"a":"ä漢😀\u2028\x7f","ö":1}'.encode(), [("ä漢😀\u2028\x7f", None)]),
        (b'{"A":1,"":2,"aa":"x","b ":5,"a":"y"}', [("y", None)]),
        (b'{"a":"{\'],:#"}', [("{'],:#", None)]),
    ],
)
def test_a_line_is_a_row(text: bytes, rows: list[Any]) -> None:
    assert rows_of(text) == rows


SHAPE = "a line is not one object of plain members"
ESCAPED = "a line has a backslash in a name, or before what is no plain character"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        *(
            (line, SHAPE)
            for line in (b"[]", b"null", b"1", b"{", b"}", b'{"a"}', b'{"a":}', b"{a:1}")
        ),
        *((line, SHAPE) for line in (b'{"a":"x",}', b'{,"b":1}', b'{"b":1 "a":"x"}', b'{"b":1;}')),
        *((line, SHAPE) for line in (b"{'a':'x'}", b'{"a":"x', b'{"a":"x"', b'{"a:"x"}', b'{"a"')),
        *((line, SHAPE) for line in (b'{"a":"x\ty"}', b'{"a\0":1}', b"\0", b"\x01", b'{"b":1\0}')),
        *((line, SHAPE) for line in (b'"b":1}', b'{"b":/**/1}', b'{"b":"1}', b"{]")),
        *((line, ESCAPED) for line in (b'{"a":"\\x"}', b'{"\\u0061":"x"}', b'{"c\\n":1,"a":"x"}')),
        *((line, "a line has a member twice") for line in (b'{"b":1,"b":1}', b'{"b":null,"b":1}')),
        *((line, "a line has something behind its object") for line in (b"{}{}", b"{},", b"{} x")),
        *((b"{}\xc2\xa0", "a line has something behind its object"), (b"[" * 99, SHAPE)),
        *((b'{"b":1}\r{"b":2}', "a line has a carriage return that does not end it"),),
        *((b"{}\r\r", "a line has a carriage return that does not end it"),),
        (b"\xef\xbb\xbf{}", "a line begins with a byte order mark"),
        (b'{"a":"' + b"x" * 1_000_000 + b'"}', "a line has more than 1,000,000 bytes"),
        *((line, "a line is not UTF-8") for line in (b'{"a":"\xff"}', b'{"\xed\xa0\x80":1}')),
        (b'{"c":["\xc3"]}', "a line is not UTF-8"),
        *((b'{"b":99999999999}', "'99999999999' is not a plain int32"),),
    ],
)
def test_a_line_that_is_not_plain_is_refused_and_the_others_are_read(
    line: bytes, reason: str
) -> None:
    assert fault_of(line) == reason


KIND = "a line has a value that is of another kind than its column"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("a", value) for value in ("1", "true", "{}", "[]", '{"a":"x"}')),
        *(("b", value) for value in ('"1"', "true", "1.0", "1e3", "-0", "{}", "[]")),
        *(("t", value) for value in ('"true"', "1", "{}", "[]")),
    ],
)
def test_values_of_other_kinds_are_refused(name: str, value: str) -> None:
    layout = ObjectLayout(("a", "b", "t"), (pa.string(), pa.int32(), pa.bool_()))
    with pytest.raises(NotPlain) as caught:
        rows_of(f'{{"{name}":{value}}}'.encode(), layout)
    assert caught.value.reason == KIND


@pytest.mark.parametrize(
    "value",
    [
        *("1", "-0", "-1.5E+7", "true", "false", "null", '"x"', '""', "{}", "[]", "[ ]", "{ }"),
        *('"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4"', '[1, [2 ,{"a":"}"}], null]', '{"a" :{"b":[{}]}}'),
        *("[" * 60 + "]" * 60, '{"x":' * 60 + "0" + "}" * 60, "9" * 300),
    ],
)
def test_members_that_are_not_read_are_passed_over(value: str) -> None:
    json.loads(value)
    line = f'{{"c":{value},"a":"x","d":{value} , "b":1}}\n'.encode()
    assert rows_of(line * 3) == [("x", 1)] * 3


@pytest.mark.parametrize(
    "value",
    [
        *("01", "-", "+1", "1.", ".5", "1e", "1e+", "1.e5", "0x1", "--1", "1_0", "NaN", "Infinity"),
        *(
            "True",
            "nul",
            "nulll",
            "tru",
            "fals",
            "falsey",
            "undefined",
            "",
            "'x'",
            '"\\x"',
            '"\\u00g0"',
        ),
        *(
            '"\\u12"',
            '"',
            "[1,]",
            "[,1]",
            "[1 2]",
            "[1",
            "[}",
            '{"a"}',
            '{"a":}',
            '{"a":1,}',
            "{1:2}",
        ),
        *(
            '{"a\\n":1}',
            '["\t"]',
            "{]",
            '{"a":1]',
            "[" * 61 + "]" * 61,
            "9" * 301,
            '["\\',
            "[[",
            "/**/1",
        ),
    ],
)
def test_faults_in_members_that_are_not_read_are_seen(value: str) -> None:
    assert fault_of(f'{{"c":{value},"a":"x"}}'.encode()).startswith("a line ")


DAY, TRUTH, MONEY = pa.date32(), pa.bool_(), pa.decimal128(5, 2)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        *((text, pa.int8(), int(text)) for text in ("0", "-1", "127", "-128")),
        # Jackson takes numbers up to 255 for bytes.
        *((text, pa.int8(), REFUSED) for text in ("128", "200", "-129", "-0", "1.0", "1e1", '"1"')),
        ("9223372036854775807", pa.int64(), 2**63 - 1),
        ("-9223372036854775808", pa.int64(), -(2**63)),
        ("9223372036854775808", pa.int64(), REFUSED),
        *((text, TRUTH, text == "true") for text in ("true", "false")),
        *((text, TRUTH, REFUSED) for text in ("TRUE", '"true"', "1", "0")),
        ('"2000-02-29"', DAY, datetime.date(2000, 2, 29)),
        *((text, DAY, REFUSED) for text in ('"2000-2-29"', '"1582-01-01"', '""', "10957")),
        *((text, pa.float64(), float(text)) for text in ("1.5", "-0.0", "1E5", "7", "1e-7")),
        # These are whole numbers first, of which there is no -0, and floats by way of doubles.
        *(
            (text, pa.float32(), REFUSED)
            for text in ("-0", "1234567890123456789", '"1.5"', '"NaN"')
        ),
        *((text, pa.float64(), REFUSED) for text in ("1e400", '"Infinity"', "NaN")),
        ("123456789012345678", pa.float64(), 123456789012345678.0),
        *((text, MONEY, Decimal(value)) for text, value in (("1.005", "1.01"), ("1e2", "100.00"))),
        *((text, MONEY, REFUSED) for text in ("-0", "1000", '"1.5"', "999.995")),
        ("12345678901234567890", pa.decimal128(38, 0), Decimal("12345678901234567890")),
        ('"x"', pa.string(), "x"),
        *((text, pa.string(), REFUSED) for text in ("1", "true", "[]", '"\\\\')),
        *((f'"{text}"', DAY, REFUSED) for text in ("2000-02-2\\u0039", "2000-02-29\\n")),
    ],
)
def test_a_text_is_a_value_or_is_refused(text: str, kind: pa.DataType, value: Any) -> None:
    found = value_of(text, kind)
    assert (found, str(found)) == (value, str(value))


@given(st.text(max_size=12), st.booleans())
def test_texts_with_backslashes_are_what_these_stand_for(text: str, is_ascii: bool) -> None:
    written = json.dumps(text, ensure_ascii=is_ascii)
    lines = f'{{"v":{written}}}\n{{"v":"behind"}}\n{{"v":{written}}}'.encode()
    layout = ObjectLayout(("v",), (pa.string(),))
    assert rows_of(lines, layout) == [(text,), ("behind",), (text,)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(('\\"\\\\\\/\\b\\f\\n\\r\\t', '"\\/\b\f\n\r\t'), ("\\u0000\\u007f\\u0080", "\0\x7f\x80")),
        *(("\\u07FF\\u0800\\uffff", "\u07ff\u0800\uffff"), ("\\ud7ff\\uE000", "\ud7ff\ue000")),
        *(("\\ud800\\udc00", "\U00010000"), ("\\uDBFF\\uDFFF", "\U0010ffff"), ("x\\u00e9", "xé")),
        *(
            (text, REFUSED)
            for text in ("\\ud83d", "\\ude00", "\\ude00\\ud83d", "\\ud83d\\ud83d\\ude00")
        ),
        *(
            (text, REFUSED)
            for text in ("\\ud83d\\n", "\\ud83d\\u0041", "\\ud83dx", "\\ud83d\\ude0")
        ),
        *(
            (text, REFUSED)
            for text in ("\\x", "\\'", "\\u12", "\\u12g4", "\\U0041", "\\", "\\\\\\")
        ),
    ],
)
def test_what_is_behind_a_backslash(text: str, value: Any) -> None:
    assert value_of(f'"{text}"', pa.string()) == value


@given(
    st.lists(st.text("ab", max_size=4), min_size=1, max_size=30, unique=True),
    st.lists(st.lists(st.tuples(st.text("ab", max_size=5), st.integers(0, 99))), max_size=6),
)
def test_members_are_found_by_their_names_in_any_order(
    names: list[str], lines: list[list[tuple[str, int]]]
) -> None:
    layout = ObjectLayout(tuple(names), (pa.int64(),) * len(names))
    objects = [dict(line) for line in lines]
    text = "\n".join(json.dumps(each) for each in objects).encode()
    expected = [tuple(each.get(name) for name in names) for each in objects]
    assert rows_of(text, layout) == expected


def test_a_line_that_is_cut_anywhere_is_refused() -> None:
    line = b'{"a":"\xc3\xa4","c":[1.5e7,{"x":null,"y":[true]}],"b":-12}'
    for end in range(1, len(line)):
        with pytest.raises(NotPlain):
            rows_of(line[:end])
        with pytest.raises(NotPlain):
            rows_of(b'{"a":"first"}\n' + line[:end] + b"\n{}")
    assert rows_of(line) == [("ä", -12)]


@pytest.mark.parametrize("batch_rows", [1, 3, 64, 1000])
def test_batches_of_any_size_have_the_same_rows(batch_rows: int) -> None:
    made = NastyObjects(3)
    text = made.text(300)
    read = read_plain(text, made.layout, batch_rows=batch_rows)
    assert read == read_plain(text, made.layout, batch_rows=77)
    lines = [line for line in text.split(b"\n") if line.strip(b" \t\r") or line.count(b"\r") > 1]
    assert len(read.rows) + len(read.refused) == len(lines)


def test_what_is_no_layout() -> None:
    assert not any(map(can_name, ['"', "\\", "\n", "\0", "\ud800", "x" * 1_001]))
    assert all(map(can_name, ["", "a b", "ä", "`", "'", "x" * 1_000]))
    one = (pa.int8(),)
    for names, kinds in (((), ()), (("a", "a"), one * 2), (("a",), one * 2), (('"',), one)):
        with pytest.raises(ValueError, match="no member"):
            ObjectLayout(names, kinds)
    with pytest.raises(ValueError, match="no member can be read as binary"):
        ObjectLayout(("a",), (pa.binary(),))
