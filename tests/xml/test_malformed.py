"""Malformed, hostile and cut XML streams."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from tests.xml.reading import RECORDS, Read, read

BAD = [
    # The text of the bad element, and what follows it is still read.
    ("<record><sno>1</record>", "mismatched tag"),
    ("<record><sno>1</sno>", "another <record> begins inside of it"),
    ("<record><sno>&other;</sno></record>", "undefined entity"),
    ("<record><sno a=1>1</sno></record>", "not well-formed"),
    ("<record a='1' a='2'/>", "duplicate attribute"),
    ("<record><sno>x</sno></record>", "'sno' is no int64"),
    ("<record><sno>1<b/></sno></record>", "should be text"),
    ("<record><!DOCTYPE a><sno>1</sno></record>", "not well-formed"),
    ("</other>", "mismatched tag"),
    ("a & b", "not well-formed"),
]


@pytest.mark.parametrize(("bad", "reason"), BAD)
@pytest.mark.parametrize("size", [1, 10_000])
def test_reading_goes_on_behind_a_malformed_element(bad: str, reason: str, size: int) -> None:
    good = "<record><sno>{}</sno></record>"
    text = f"<a>{good.format(1)}{bad}{good.format(2)}{good.format(3)}</a>".encode()
    chunks = [text[at : at + size] for at in range(0, len(text), size)]
    found = Read(chunks, mode="PERMISSIVE")
    assert (found.error, found.malformed) == (None, 1)
    assert [row["sno"] for row in found.rows] == [1, None, 2, 3]
    assert found.rows[1]["ipaddr"] is None
    assert found.rows[1]["_corrupt_record"] == bad.removeprefix("a ")
    dropped = Read(chunks)
    assert (dropped.error, dropped.malformed) == (None, 1)
    assert [row["sno"] for row in dropped.rows] == [1, 2, 3]
    failed = Read(chunks, mode="FAILFAST")
    assert [row["sno"] for row in failed.rows] == [1]
    assert failed.error is not None
    assert reason in failed.error.cause
    place = 4 + len(good.format(1)) + bad.find("&" if bad == "a & b" else "<")
    assert (failed.error.line, failed.error.column) == (1, place)


def test_a_stream_of_malformed_elements_takes_no_longer_than_its_length() -> None:
    """Each of them begins a parser. None is given more than a few times what it reads."""
    text = "<record><sno>1</sno>" * 3_000
    found = read(f"<a>{text}<record/></a>")
    assert found.malformed == 3_000
    assert found.values == [(None, None)]


def test_malformed_elements_stand_where_they_were() -> None:
    text = (
        "<a><record><sno>1</sno></record><record><sno>x</sno></record><record><sno></record>"
        "<record><sno>y</sno></record><record><sno></b></record><record><sno>2</sno></record></a>"
    )
    rows = read(text, mode="PERMISSIVE").rows
    assert [row["sno"] for row in rows] == [1, None, None, None, None, 2]
    assert "".join(row["_corrupt_record"] or "" for row in rows) in text


BILLION_LAUGHS = (
    '<?xml version="1.0"?>\n<!DOCTYPE lolz [\n <!ENTITY lol "lol">\n'
    + "".join(
        f' <!ENTITY lol{n} "{f"&lol{n - 1 if n > 1 else str()};" * 10}">\n' for n in range(1, 10)
    )
    + "]>\n<a><record><ipaddr>&lol9;</ipaddr></record></a>"
)
QUADRATIC = (
    f'<!DOCTYPE a [<!ENTITY x "{"x" * 50_000}">]>\n'
    f"<a><record><ipaddr>{'&x;' * 50_000}</ipaddr></record></a>"
)
EXTERNAL = (
    '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
    "<a><record><ipaddr>&x;</ipaddr></record></a>"
)


@pytest.mark.parametrize(
    "bomb", [BILLION_LAUGHS, QUADRATIC, EXTERNAL, '<!DOCTYPE a SYSTEM "b"><a/>']
)
@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED", "FAILFAST"])
@pytest.mark.parametrize("size", [3, 10**7])
def test_document_types_and_entities_are_refused_by_name(bomb: str, mode: str, size: int) -> None:
    text = bomb.encode()[:50_000]
    found = Read((text[at : at + size] for at in range(0, len(text), size)), mode=mode)
    assert found.rows == []
    assert found.error is not None
    assert "DOCTYPE" in found.error.cause
    assert "entities" in found.error.remedy


def _endless(begin: bytes, more: bytes) -> Iterator[bytes]:
    yield b"<a><record><sno>1</sno></record>" + begin
    for _ in range(200):
        yield more * (2**16 // len(more))


@pytest.mark.parametrize(
    ("begin", "more", "says"),
    [
        (b"", b"<b>", "nested more than 200 deep"),
        (b"<record>", b"<b>", "nested more than 200 deep"),
        (b"<record><ipaddr>", b"x", "a <record> of more than 1,000,000 bytes"),
        (b"<record><other>", b"<b>x</b>", "a <record> of more than 1,000,000 bytes"),
        (b'<record><sno id="', b"x", "a <record> of more than 1,000,000 bytes"),
        (b'<b id="', b"x", "a tag or comment of more than 1,000,000 bytes"),
        (b"<!--", b"x", "a tag or comment of more than 1,000,000 bytes"),
        (b"<record><sno>", b"</b>", "a <record> of more than 1,000,000 bytes"),
        (b"&&", b"x", "not well-formed and of more than 1,000,000 bytes"),
    ],
)
def test_what_has_no_end_is_refused(begin: bytes, more: bytes, says: str) -> None:
    tracemalloc.start()
    try:
        found = Read(_endless(begin, more), row_bytes=10**6)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.values == [(1, None)]
    assert found.error is not None
    assert says in found.error.cause
    assert peak < 2 * 10**7


@pytest.mark.parametrize("where", ["<{}/>", "<record><{}/></record>", "<record><sno {}/></record>"])
def test_names_and_attributes_have_limits(where: str) -> None:
    name = "x" * 1001 + ("='1'" if "sno" in where else "")
    long = read(f"<a>{where.format(name)}</a>")
    assert long.error is not None
    assert "a name of more than 1,000 characters" in long.error.cause
    many = " ".join(f"a{number}=''" for number in range(1001))
    found = read(f"<a>{where.format(many if 'sno' in where else f'b {many}')}</a>")
    assert found.error is not None
    assert "more than 1,000 attributes" in found.error.cause


def test_endless_text_between_rows_takes_no_memory() -> None:
    def chunks() -> Iterator[bytes]:
        yield b"<a>"
        for _ in range(300):
            yield b"x" * 2**16
        yield b"<record><sno>1</sno></record></a>"

    tracemalloc.start()
    try:
        found = Read(chunks(), row_bytes=10**6)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (found.error, found.values) == (None, [(1, None)])
    assert peak < 10**7


def test_a_stream_that_is_cut_off_says_where() -> None:
    """Wherever it is: the rows before it, then the place."""
    text = RECORDS.encode()
    for at in range(1, len(text.rstrip())):
        found = Read([text[:at]], mode="FAILFAST")
        assert len(found.rows) == text[:at].count(b"</record>")
        assert found.error is not None
        assert "cut off" in found.error.cause
        before = text[:at].decode().split("\n")
        assert (found.error.line, found.error.column) == (len(before), len(before[-1]) + 1)
    assert Read([text]).error is None


DECLARED = '<?xml version="1.0" encoding="{}"?><a><record><ipaddr>é€</ipaddr></record></a>'


@pytest.mark.parametrize(
    ("declared", "encoding"),
    [
        ("UTF-8", "utf-8"), ("utf-8", "utf-8-sig"), ("utf-16", "utf-16"), ("UTF-16LE", "utf-16-le"),
        ("UTF-16", "utf-16-be"), ("windows-1252", "cp1252"), ("iso-8859-15", "iso8859-15"),
        ("GB18030", "gb18030"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 1000])
def test_the_encoding_is_the_one_that_is_declared(declared: str, encoding: str, size: int) -> None:
    text = DECLARED.format(declared).encode(encoding)
    found = Read([text[at : at + size] for at in range(0, len(text), size)])
    assert (found.error, found.values) == (None, [(None, "é€")])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"<a><record><sno>1</sno></record>\n <record>\xe9", "bytes (e9) that are not utf-8"),
        (DECLARED.format("utf-16").encode(), "its first bytes are not utf-16"),
        (DECLARED.format("latin-1").encode("utf-8-sig"), "has the byte order mark of utf-8"),
        (DECLARED.format("utf-8").encode("utf-16"), "has the byte order mark of utf-16-le"),
        (DECLARED.format("klingon").encode(), "'klingon', which is not known"),
        (DECLARED.format("rot13").encode(), "'rot13', which is not known"),
        (DECLARED.format("utf-7").encode(), "'utf-7', which is not known"),
        (DECLARED.format("ascii").encode(), "bytes (c3) that are not ascii"),
        ("<?xml version='1.0'?>".encode("cp037"), "is in EBCDIC"),
        (b"<a><record><sno>1</sno></record>\n <record>\xc3", "bytes (c3) that are not utf-8"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("mode", ["PERMISSIVE", "FAILFAST"])
def test_bytes_that_do_not_decode_are_an_error(text: bytes, says: str, mode: str) -> None:
    found: Any = read(text, mode=mode)
    assert [row["sno"] for row in found.rows] == ([1] if b"<sno>1" in text else [])
    assert says in found.error.cause
    if found.rows:
        assert (found.error.line, found.error.column) == (2, 10)
