"""What single lines and texts are read as, and which ones are not read. Each was looked up in Spark
(tests/spark/test_delimited.py compares random ones)."""

from __future__ import annotations

import datetime
import struct
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.delimited.nasty import Nasty
from tests.delimited.reading import read_plain
from watersmeet.delimited.fields import FieldLayout, can_separate
from watersmeet.delimited.layout import can_read
from watersmeet.delimited.reading import NotPlain, columns_of

TWO = (pa.string(), pa.string())
REFUSED = object()


def rows_of(text: bytes, kinds: tuple[pa.DataType | None, ...] = TWO, **options: str) -> list[Any]:
    """Rows as tuples, in the order of lines; raises if one is refused."""
    found: list[Any] = []
    for columns, _ in columns_of(pa.py_buffer(text), FieldLayout(kinds, **options), batch_rows=2):
        found += zip(*(column.to_pylist() for column in columns), strict=True)
    return found


def value_of(text: str, kind: pa.DataType) -> Any:
    """What a text is as this type, or that it is refused."""
    try:
        ((value,),) = rows_of(f"{text}\n".encode(), (kind,), separator="|")
    except NotPlain:
        return REFUSED
    return value


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (b"", []),
        (b"\n \n\t\r\n\x01\n", []),
        (b"a,b", [("a", "b")]),
        (b"a,b\r\nc,d\n", [("a", "b"), ("c", "d")]),
        (b"a,b\r", [("a", "b")]),
        (b"\n\na,b\n\n", [("a", "b")]),
        (b"a,\n,b\n,\na,", [("a", None), (None, "b"), (None, None), ("a", None)]),
        (b'"a,b","c"\n', [("a,b", "c")]),
        (b'"a","c"', [("a", "c")]),
        (b' a, b \n" a "," "\n', [(" a", " b "), (" a ", " ")]),
        (b'a"b,c"\na\\,\\"b\n', [('a"b', 'c"'), ("a\\", '\\"b')]),
        (b"#a,b\n", [("#a", "b")]),
        (b'"",""\n', [(None, None)]),
        ("ä,漢😀\n".encode(), [("ä", "漢😀")]),
    ],
)
def test_a_line_is_a_row(text: bytes, rows: list[Any]) -> None:
    assert rows_of(text) == rows


@pytest.mark.parametrize(
    "line",
    [
        *(b"a\n", b"a,b,c\n", b"a,b,\n"),
        *(b'"a""b",c\n', b'"a\\"b",c\n', b'"a\\b",c\n', b'"a" ,b\n', b'"a,b\n', b'a,"b'),
        *(b'"a"b,c\n', b'""",b\n', b'"a\rb",c\n'),
        *(b"a\rb,c\n", b"a,b\r\r\n", b"a\0,b\n", b'"\0",b\n'),
        *(b"\xef\xbb\xbfa,b\n", b"\xff,b\n", b"a,\xc3\n", b"\xed\xa0\x80,b\n"),
        b"a," + b"b" * 1_000_000 + b"\n",
    ],
)
def test_a_line_that_is_not_plain_is_refused_and_the_others_are_read(line: bytes) -> None:
    text = b"first,1\nsecond,2\n\n" + line
    with pytest.raises(NotPlain) as caught:
        rows_of(text)
    assert text[caught.value.start : caught.value.stop] == line
    read = read_plain(text + (b"last,3\n" if line.endswith(b"\n") else b""), FieldLayout(TWO))
    assert read.rows["0"].to_pylist() == ["first", "second", "last"][: 2 + line.endswith(b"\n")]
    assert [refused for _, refused in read.refused] == [line]


def test_fields_that_are_not_read_need_only_be_there() -> None:
    assert rows_of(b'x,1,"y,z"\n"",2,\n', (None, pa.int8(), None)) == [(1,), (2,)]
    assert list(
        columns_of(pa.py_buffer(b"a,b\n\nc,d\n"), FieldLayout((None, None)), batch_rows=9)
    ) == [([], 2)]
    with pytest.raises(NotPlain, match="more or fewer fields"):
        rows_of(b"1,2,3\n", (None, pa.int8()))


@pytest.mark.parametrize(
    ("null_value", "empty_value", "rows"),
    [
        ("", "", [None, None, "NA", "NA"]),
        ("NA", "", [None, "", None, None]),
        ("NA", "EE", [None, "EE", None, None]),
        ("NA", "NA", [None, None, None, None]),
        ("", "longer than the field", [None, "longer than the field", "NA", "NA"]),
    ],
)
def test_what_is_null_and_what_is_empty(
    null_value: str, empty_value: str, rows: list[str | None]
) -> None:
    text = b'x,\nx,""\nx,NA\nx,"NA"\n'
    options = {"null_value": null_value, "empty_value": empty_value}
    assert [value for _, value in rows_of(text, TWO, **options)] == rows
    nulls = rows_of(b"x,NA\nx,\n", (pa.string(), pa.int32()), null_value="NA")
    assert nulls == [("x", None), ("x", None)]
    # Spark would read what an empty value is as a number.
    with pytest.raises(NotPlain):
        rows_of(b'x,""\n', (pa.string(), pa.int32()), null_value="NA", empty_value="5")


DAY, TRUTH = pa.date32(), pa.bool_()


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        *((text, pa.int8(), int(text)) for text in ("0", "-0", "+5", "007", "127", "-128")),
        *((text, pa.int8(), REFUSED) for text in ("128", "-129", " 1", "1 ", "-", "+", "1.0")),
        *((text, pa.int8(), REFUSED) for text in ("1e1", "--1", "٣", "0x1", "1_0", "1000000")),
        ('"12"', pa.int8(), 12),
        ("32767", pa.int16(), 32767),
        ("32768", pa.int16(), REFUSED),
        ("-2147483648", pa.int32(), -(2**31)),
        ("2147483648", pa.int32(), REFUSED),
        ("9223372036854775807", pa.int64(), 2**63 - 1),
        ("-9223372036854775808", pa.int64(), -(2**63)),
        ("9223372036854775808", pa.int64(), REFUSED),
        ("18446744073709551617", pa.int64(), REFUSED),
        ("0000000000000000000000000000001", pa.int64(), 1),
        *((text, TRUTH, True) for text in ("true", "TRUE", "tRuE", '"true"')),
        *((text, TRUTH, False) for text in ("false", "False")),
        *((text, TRUTH, REFUSED) for text in ("t", "1", "yes", "true ", "\x14rue", "truee")),
        ("1583-01-01", DAY, datetime.date(1583, 1, 1)),
        ("2000-02-29", DAY, datetime.date(2000, 2, 29)),
        ("9999-12-31", DAY, datetime.date(9999, 12, 31)),
        *(
            (text, DAY, REFUSED)
            for text in ("1800-02-29", "1900-02-29", "2023-02-29", "2020-04-31")
        ),
        *((text, DAY, REFUSED) for text in ("2020-13-01", "2020-00-01", "2020-01-00")),
        *((text, DAY, REFUSED) for text in ("1582-12-31", "2020-1-1", "2020/01/01", "20200101")),
        *((text, DAY, REFUSED) for text in ("2020-01-01 ", "10000-01-01", "+202-01-01")),
    ],
)
def test_a_text_is_a_value_or_is_refused(text: str, kind: pa.DataType, value: Any) -> None:
    assert value_of(text, kind) == value


def test_all_days_of_four_centuries_and_no_others() -> None:
    first, end = (np.datetime64(f"{year}-01-01").astype(int) for year in (1583, 2005))
    numbers = np.arange(first, end)
    days = numbers.astype("M8[D]").astype(str).tolist()
    read = read_plain("\n".join(days).encode(), FieldLayout((DAY,)), batch_rows=200_000)
    assert not read.refused
    assert (read.rows["0"].cast(pa.int32()).to_numpy() == numbers).all()
    ends = [f"{year}-02-29" for year in range(1583, 2005)]
    ends += [f"2003-{month:02}-{day:02}" for month in range(14) for day in (0, 29, 30, 31, 32)]
    wrong = sorted(set(ends) - set(days))
    read = read_plain("\n".join(wrong).encode(), FieldLayout((DAY,)))
    assert len(read.rows) == 0
    assert len(read.refused) == len(wrong)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("1.005", "1.01"), ("1.0049", "1.00"), ("-1.005", "-1.01"), ("0.004", "0")),
        *(("-.5", "-0.5"), ("5.", "5"), ("+5", "5"), ("999.994", "999.99"), ("999.995", None)),
        *(("1000", None), ("000999", "999"), ("1e2", "100"), ("1e3", None), ("995e-5", "0.01")),
        *(("0e999", "0"), ("-0E-18", "0"), ("1E-7", "0"), ("5e-3", "0.01"), ("5e-4", "0")),
        *((".", None), ("1,000", None), ("1e", None), ("1e9999", None), ("1.2.3", None)),
        *(("1" * 60, None), ("0." + "9" * 60, "1"), ("0." + "0" * 60 + "1", "0"), ("1d", None)),
    ],
)
def test_decimals_are_rounded_half_up(text: str, value: str | None) -> None:
    expected = REFUSED if value is None else Decimal(value)
    assert value_of(text, pa.decimal128(5, 2)) == expected


@given(
    st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p))),
    st.integers(-(10**38), 10**38),
    st.integers(0, 45),
    st.integers(-20, 20),
)
def test_decimals_of_all_widths(
    sizes: tuple[int, int], digits: int, behind: int, power: int
) -> None:
    precision, scale = sizes
    exact = Fraction(digits) * Fraction(10) ** (power - behind)
    scaled = abs(exact) * 10**scale
    whole = int(scaled + Fraction(1, 2))
    point = str(abs(digits)).rjust(behind + 1, "0")
    text = "-" * (digits < 0) + point[: len(point) - behind] + "." + point[len(point) - behind :]
    text += f"e{power}" if power else ""
    value = value_of(text, pa.decimal128(precision, scale))
    if whole >= 10**precision:
        assert value is REFUSED
    else:
        assert Fraction(value) == Fraction(whole if exact > 0 else -whole, 10**scale)


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["", ".19e", ".35e"]))
def test_doubles_are_the_nearest(number: float, form: str) -> None:
    text = format(number, form)
    value = value_of(text, pa.float64())
    if number and not 1e-290 < abs(number) < 1e300:
        assert value in (REFUSED, float(text))
    else:
        assert struct.pack("<d", value) == struct.pack("<d", float(text))


@given(st.integers(0x03000000, 0x7E000000))
def test_floats_are_the_nearest_of_the_text_and_not_of_a_double(word: int) -> None:
    (low,) = struct.unpack("<f", struct.pack("<I", word))
    (high,) = struct.unpack("<f", struct.pack("<I", word + 1))
    # Just above the middle of two floats, and so little that a double is the middle.
    middle = (Fraction(low) + Fraction(high)) / 2
    text = format(Decimal(middle.numerator) / Decimal(middle.denominator), ".26e")
    above = Fraction(text) > middle
    value = value_of(text, pa.float32())
    assert value in (low, high)
    assert value == (high if above else low) or Fraction(text) == middle


@pytest.mark.parametrize(
    "text",
    [
        *("NaN", "Inf", "-Inf", "Infinity", "1d", "1f", "0x1p3", "1e", "1e+", ".", "-", "1e400"),
        *("1e-400", " 1", "1 ", "1_0", "1.1.1", "1e5.0", "1" * 41),
    ],
)
def test_what_is_no_plain_float(text: str) -> None:
    assert value_of(text, pa.float32()) is REFUSED
    assert value_of(text, pa.float64()) is REFUSED


def test_zeros_keep_their_sign() -> None:
    for kind in (pa.float32(), pa.float64()):
        assert [str(value_of(text, kind)) for text in ("-0", "-0.0e99", "0", "+.0")] == [
            *("-0.0", "-0.0", "0.0", "0.0")
        ]


@pytest.mark.parametrize("batch_rows", [1, 3, 64, 1000])
def test_batches_of_any_size_have_the_same_rows(batch_rows: int) -> None:
    made = Nasty(3)
    text = made.text(300)
    read = read_plain(text, made.layout, batch_rows=batch_rows)
    assert read == read_plain(text, made.layout, batch_rows=77)
    lines = [line for line in text.split(b"\n") if line.strip(bytes(range(33)))]
    assert len(read.rows) + len(read.refused) == len(lines)


def test_a_value_that_is_refused_comes_behind_all_rows_before_it() -> None:
    text = b"1\n2\n3\nx\n5\n"
    read = columns_of(pa.py_buffer(text), FieldLayout((pa.int64(),)), batch_rows=100)
    (column,), rows = next(read)
    assert (column.to_pylist(), rows) == ([1, 2, 3], 3)
    with pytest.raises(NotPlain, match="'x' is not a plain int64") as caught:
        next(read)
    assert text[caught.value.start : caught.value.stop] == b"x\n"


def test_what_cannot_be_read_or_separate() -> None:
    assert not any(
        can_read(kind)
        for kind in (pa.binary(), pa.timestamp("us"), pa.list_(pa.int8()), pa.uint8(), pa.float16())
    )
    assert not any(map(can_separate, ["", ",,", '"', "\\", "\n", "\r", "\0", "é"]))
    for wrong in ({"kinds": (pa.binary(),)}, {"kinds": ()}, {"kinds": TWO, "separator": '"'}):
        with pytest.raises(ValueError, match="field"):
            FieldLayout(**wrong)
