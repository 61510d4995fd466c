"""Random XML streams, with the rows and the error that every mode must make of them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import pyarrow as pa

from tests.xml.reading import Read

COLUMNS = pa.schema(
    {
        "sno": pa.int64(),
        "@id": pa.string(),
        "name": pa.string(),
        "tag": pa.list_(pa.int32()),
        "place": pa.struct({"city": pa.string(), "zip": pa.int64()}),
        ".": pa.string(),
    }
)
NOTHING = dict.fromkeys(COLUMNS.names)
ROW_BYTES = 2_000
LETTERS = "ab é€😀&<>\"'*{"
MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")


@dataclass
class Segment:
    """Some text of a stream, and what it is: a row, a punctuation, something bad, nothing."""

    text: str
    row: dict[str, Any] | None = None
    is_marker: bool = False
    is_bad: bool = False


@dataclass
class Stream:
    seed: int
    segments: list[Segment] = field(default_factory=list)
    error: str = ""
    """What an error behind all rows says; none if this is empty."""

    def __post_init__(self) -> None:
        self._random = chance = random.Random(self.seed)
        self._encoding = chance.choice(["utf-8", "utf-8", "utf-16", "gb18030"])
        self._ending = chance.choice(["whole", "whole", "cut", "hostile"])
        self._root = chance.choice(["", "s:all"])
        head = ""
        if self._encoding != "utf-8":
            head = f'<?xml version="1.0" encoding="{self._encoding}"?>\n'
        self.segments.append(Segment(head + (f"<{self._root}>" if self._root else "")))
        for _ in range(chance.randrange(1, 8)):
            self._add()
        if self._ending == "hostile":
            self._add_hostile()
        else:
            self.segments.append(Segment(f"</{self._root}>" if self._root else ""))
        self.bytes = "".join(segment.text for segment in self.segments).encode(self._encoding)
        if self._ending == "cut":
            self._cut()

    # -- What it is made of.

    def _text(self) -> str:
        if self._random.random() < 0.2:
            return "*"
        count = self._random.randrange(6)
        return "".join(self._random.choice(LETTERS) for _ in range(count)).strip(" ")

    def _number(self) -> int:
        return self._random.choice([0, -1, 7, 2**63 - 1, self._random.randrange(1000)])

    def _add(self) -> None:
        kinds = [self._good, self._punctuation, self._noise, self._good, self._bad_value]
        if self._ending != "cut":
            # Where these end is known from what follows.
            kinds += [self._malformed, self._documents]
        self._random.choice(kinds)()
        if self._random.random() < 0.4:
            self.segments.append(Segment("\n"))

    def _element(self, *, is_marker: bool = False, bad: str = "") -> Segment:
        chance = self._random
        name = "punct:record" if is_marker else "record"
        row: dict[str, Any] = NOTHING | {".": ""}
        body, attribute = "", ""
        if not bad and chance.random() < 0.8:
            row["sno"] = self._number()
            body += f"<sno> {row['sno']}\n</sno>"
        if chance.random() < 0.5:
            text = self._text()
            attribute = f" id={quoteattr(text)}"
            row["@id"] = None if is_marker and text == "*" else text
        if chance.random() < 0.5:
            text = self._text()
            body += "<name>" + escape(text[:1]) + "<!-- > -->" + escape(text[1:]) + "</name>"
            row["name"] = None if is_marker and text == "*" else text
        if chance.random() < 0.3:
            body += "<strange x='>'>7<sno>8</sno></strange>"
        if chance.random() < 0.4 and not is_marker:
            row["tag"] = [chance.randrange(9) for _ in range(chance.randrange(1, 4))]
            body += "".join(f"<tag>{number}</tag>" for number in row["tag"])
        for _ in range(chance.choice([0, 0, 1, 2]) * (not is_marker)):
            # The last one counts.
            row["place"] = {"city": None, "zip": None}
            inside = ""
            if chance.random() < 0.6:
                row["place"]["city"] = self._text()
                inside += f"<city>{escape(row['place']['city'])}</city>"
            if chance.random() < 0.6:
                row["place"]["zip"] = self._number()
                inside += f"<zip>{row['place']['zip']}</zip>"
            body += f"<place>{inside}</place>"
        # Behind a good one, because the last one counts.
        body += bad
        if chance.random() < 0.3 and not is_marker:
            row["."] = "own text"
            body = f" own{body or '<!-- -->'} text "
        if not body and chance.random() < 0.5:
            return Segment(f"<{name}{attribute}/>", row, is_marker)
        return Segment(f"<{name}{attribute}>{body}</{name}>", row, is_marker, bool(bad))

    def _good(self) -> None:
        self.segments.append(self._element())

    def _punctuation(self) -> None:
        self.segments.append(self._element(is_marker=True))

    def _bad_value(self) -> None:
        bad = self._random.choice(
            ["<sno>x1</sno>", "<tag>1</tag><tag>q</tag>", "<name>a<b/></name>",
             "<place><zip>z</zip></place>"]
        )  # fmt: skip
        self.segments.append(self._element(is_marker=self._random.random() < 0.3, bad=bad))

    def _malformed(self) -> None:
        text = self._random.choice(
            ["<record><sno>1</record>", "<record a='1' a='2'/>", "<record><sno>1</sno>",
             "<record>\n<sno>&other;</sno></record>", "<punct:record><sno>1</punct:record>"]
        )  # fmt: skip
        bad = self._random.choice(["", "<name>a<b/></name>"])
        self.segments += [Segment(text, dict(NOTHING), is_bad=True), self._element(bad=bad)]

    def _noise(self) -> None:
        self.segments.append(
            Segment(
                self._random.choice(
                    [
                        "<!-- <record><sno>5</sno></record> -->",
                        "text é ",
                        "<other a='>'><b/>1</other>",
                        "<![CDATA[<record/>]]>",
                        "<recorder><sno>3</sno></recorder>",
                        "<?do <record> ?>",
                    ]
                )
            )
        )

    def _documents(self) -> None:
        if self._root:
            text = f"</{self._root}><?xml version='1.0'?><{self._root}>"
            self.segments.append(Segment(text))

    def _add_hostile(self) -> None:
        long = "x" * (ROW_BYTES + 1)
        text, self.error = self._random.choice(
            [
                ("<!DOCTYPE a [<!ENTITY b 'c'>]>", "DOCTYPE"),
                ("<b>" * 201, "nested more than 200 deep"),
                ("<record>" + "<b>" * 201, "nested more than 200 deep"),
                (f"<record><name>{long}</name></record>", "of more than 2,000 bytes"),
                (f"<record><name>{long}", "of more than 2,000 bytes"),
                (f"<!-- {long}", "of more than 2,000 bytes"),
            ]
        )
        self.segments.append(Segment(text))

    def _cut(self) -> None:
        """Leave the segments that are whole, and bytes of one that is not."""
        last = self._random.randrange(1, len(self.segments))
        while last < len(self.segments) and self.segments[last].row is None:
            last += 1
        if last == len(self.segments):
            return
        before = "".join(segment.text for segment in self.segments[:last]).encode(self._encoding)
        # The byte order mark is written once.
        size = len((" " + self.segments[last].text).encode(self._encoding))
        size -= len(" ".encode(self._encoding))
        at = len(before) + self._random.randrange(1, self._random.choice([8, size]))
        self.bytes, self.segments, self.error = self.bytes[:at], self.segments[:last], "cut off"
        try:
            self.bytes.decode(self._encoding)
        except UnicodeDecodeError:
            self.error = " bytes ("

    # -- What must come of it.

    def expected(self, mode: str) -> tuple[list[dict[str, Any]], str]:
        """The rows, and what the error says."""
        rows = []
        for segment in self.segments:
            if segment.row is None:
                continue
            if not segment.is_bad:
                row = {**segment.row, "m": segment.is_marker}
                rows.append(row | ({"_corrupt_record": None} if mode == MODES[0] else {}))
            elif mode == "PERMISSIVE":
                rows.append({**NOTHING, "m": False, "_corrupt_record": segment.text})
            elif mode == "FAILFAST":
                return rows, "malformed"
        return rows, self.error

    def place_of_the_first_bad(self) -> tuple[int, int]:
        first = next(n for n, segment in enumerate(self.segments) if segment.is_bad)
        lines = "".join(segment.text for segment in self.segments[:first]).split("\n")
        return len(lines), len(lines[-1]) + 1

    def check(self, mode: str, most: int) -> None:
        """Read it in chunks of at most so many bytes, and compare."""
        chunks, at = [], 0
        while at < len(self.bytes):
            size = self._random.randrange(1, most + 1)
            chunks.append(self.bytes[at : at + size])
            at += size
        found = Read(chunks, COLUMNS, mode=mode, marker="m", row_bytes=ROW_BYTES)
        rows, error = self.expected(mode)
        assert found.rows == rows
        if not error:
            assert found.error is None
            assert found.malformed == sum(segment.is_bad for segment in self.segments)
            return
        assert found.error is not None
        assert error in found.error.cause
        if error == "malformed":
            place = (found.error.line, found.error.column)
            assert place == self.place_of_the_first_bad()


def follow(seed: int) -> None:
    stream = Stream(seed)
    for mode in MODES:
        for most in (1, 7, 100_000):
            stream.check(mode, most)
