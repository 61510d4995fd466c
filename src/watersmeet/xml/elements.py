"""Finds the rows of an XML element stream as chunks of bytes come, and goes on after bad ones.

The parser is expat, which builds no tree; it is given UTF-8 only (`decoding`), and told of an
element around all that comes. So streams without a root element and streams of several documents
are read, too, and there is no place for a document type declaration: no entity can be declared,
and none is expanded.

After an element that is not well-formed a new parser goes on behind it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple
from xml.parsers import expat

from watersmeet.xml.cells import PUNCTUATION, Found, Malformed, Path, RowFinder, Unclosed
from watersmeet.xml.limits import Limits, Refused

ROOT = "watersmeet:stream"
"""The element around all that comes."""

_TEXT_BYTES = 2**16
# A tag or a comment that is not complete is parsed from its beginning with every chunk. From this
# size on that waits until there is a quarter more of it: the limits allow 16 MB, and chunks of a
# pipe may be small.
_LONG_TOKEN = 2**20
# After a malformed element this much is parsed, then twice as much, and so on: a parser that stops
# has taken a copy of all that it was given, and there may be a malformed element every few bytes.
_FIRST_PIECE = 2**12
_DECLARING = (b"<!DOCTYPE", b"<!ENTITY")
_DECLARATION = re.compile(rb"<\?xml\s[^>]*\?>")


class _Bad(NamedTuple):
    """What is malformed, while its end is looked for."""

    begin: int
    look: int
    """From where on there may be an end."""
    reason: str
    is_row: bool


class Elements:
    """The rows of the elements called `row`, and the punctuations among them."""

    def __init__(
        self, row: str, paths: Sequence[Path], limits: Limits, *, stops: bool = False
    ) -> None:
        """With `stops` nothing is read behind what is malformed first."""
        self._finder = RowFinder(row, paths, limits)
        self._stops = stops
        self._row = row
        self._limits = limits
        names = b"|".join(re.escape(name.encode()) for name in (row, PUNCTUATION + row))
        begin = rb"<(?:%s)(?=[\s/>])" % names
        self._begins = re.compile(begin)
        self._ends = re.compile(rb"</(?:%s)\s*>|%s" % (names, begin))
        self._buffer = bytearray()
        self._from = 0  # The place of the buffer's first byte in the stream.
        self._parsed = 0  # Up to here the parser has been given bytes.
        self._line, self._column = 1, 1  # Of the buffer's first byte.
        self._bad: _Bad | None = None
        self._parser: Any = None
        self._piece = 0  # How much is parsed next.
        self._go_on([], 0)

    # -- What comes.

    def feed(self, chunk: bytes, *, last: bool = False) -> None:
        """Parse some more bytes of UTF-8; the rows that they complete can be taken then."""
        self._buffer += chunk
        while self._parsed < self.end or self._bad is not None:
            if self._bad is not None:
                if not self._find_end(self._bad, last=last):
                    break
            elif last or self._is_worth_it():
                self._parse(min(self.end, self._parsed + self._piece))
            else:
                break
        self._check_size()

    def _parse(self, until: int) -> None:
        piece = self._buffer[self._parsed - self._from : until - self._from]
        if self._parsed == 0 and (declaration := _DECLARATION.match(piece)):
            # It may not stand inside of an element. What it says is known (`decoding`).
            piece[: declaration.end()] = b" " * declaration.end()
        self._parsed = until
        try:
            self._parser.Parse(piece, False)
        except Unclosed as error:
            self._give_up(str(error), self._event())
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code) or "it is not well-formed"
            self._give_up(reason, self._base + self._parser.ErrorByteIndex)
        else:
            self._piece = min(2 * self._piece, 2**30)
            self._finder.after_piece()

    def _is_worth_it(self) -> bool:
        waiting = self._parsed - self._event()
        return waiting < _LONG_TOKEN or self.end - self._parsed > waiting // 4

    def _check_size(self) -> None:
        begin, what = self._open_at(), "tag or comment"
        if self._bad is not None and not self._bad.is_row:
            what = "text between rows that is not well-formed and"
        elif self._bad is not None or self._finder.row_begin is not None:
            what = f"<{self._row}>"
        if self.end - begin > self._limits.row_bytes:
            raise Refused(f"has a {what} of more than {self._limits.row_bytes:,} bytes", begin)

    # -- What was found.

    @property
    def end(self) -> int:
        """The place behind all that has come."""
        return self._from + len(self._buffer)

    def take(self) -> Found:
        """What was found since the last call. Texts and lines of it can be asked for until
        `forget` is called."""
        return self._finder.take()

    def forget(self) -> None:
        """Drop the bytes of what was found."""
        gone = self._buffer[: self._open_at() - self._from]
        self._line, self._column = self._after(gone)
        del self._buffer[: len(gone)]
        self._from += len(gone)

    def unfinished(self) -> tuple[str, int] | None:
        """What is open, and the place where it begins, or where the stream ends if that place was
        forgotten; None if a stream may end here."""
        if self._bad is not None:
            return (f"<{self._row}>", self._bad.begin) if self._bad.is_row else None
        if self._finder.row_begin is not None:
            return f"<{self._row}>", self._finder.row_begin
        if self._buffer[self._event() - self._from :].lstrip().startswith(b"<"):
            return "a tag", self._event()
        names = self._finder.outside[1:]
        return (f"<{names[-1]}>", self.end) if names else None

    def line_and_column(self, place: int) -> tuple[int, int]:
        """Of a place that has not been forgotten; both count from 1."""
        return self._after(self._buffer[: max(place - self._from, 0)])

    def _after(self, text: bytearray) -> tuple[int, int]:
        lines = text.count(b"\n")
        width = len(text[text.rfind(b"\n") + 1 :].decode(errors="replace"))
        return self._line + lines, width + (1 if lines else self._column)

    def text_of(self, begin: int, end: int) -> str:
        """The text of a row's element, by the places of its first and last tags."""
        text = self._buffer[begin - self._from :]
        if begin == end:  # <row id="a>b"/>
            whole = re.match(rb"""(?:[^>"']|"[^"]*"|'[^']*')*>""", text)
            return text[: whole.end() if whole else None].decode()
        return text[: text.find(b">", end - begin) + 1].decode()

    def rest(self) -> str:
        """The text that is part of no row that was found, as far as a row's may be long."""
        return self._buffer[: self._limits.row_bytes].decode(errors="replace")

    # -- What is malformed.

    def _give_up(self, reason: str, place: int) -> None:
        """The parser has stopped here."""
        begin = self._finder.row_begin
        if begin is not None:
            self._bad = _Bad(begin, begin + 1, reason, is_row=True)
            return
        place = self._tag_before(place)
        if declaration := _DECLARATION.match(self._buffer, place - self._from):
            # Another document begins.
            self._go_on(self._finder.outside[1:], self._from + declaration.end())
            return
        # A row whose first tag is malformed has not begun for the parser.
        is_row = self._begins.match(self._buffer, place - self._from) is not None
        self._bad = _Bad(place, place + 1, reason, is_row)

    def _tag_before(self, place: int) -> int:
        """The place of the tag in which an error was found, or of the error if it is in none."""
        index = place - self._from
        begin = max(self._buffer.rfind(b"<", 0, index + 1), self._buffer.rfind(b"&", 0, index + 1))
        inside = begin >= 0 and not re.search(rb"[>;]", self._buffer[begin:index])
        return self._from + begin if inside else place

    def _find_end(self, bad: _Bad, *, last: bool) -> bool:
        """Go on behind what is malformed, at its end tag or before the next row; False if that
        has not come."""
        head = bytes(self._buffer[bad.begin - self._from :][:9].upper())
        if not bad.is_row and head.startswith(_DECLARING):
            raise Refused("declares a document type (DOCTYPE) or entities", bad.begin)
        if not (bad.is_row or last) and any(each.startswith(head) for each in _DECLARING):
            return False
        pattern = self._ends if bad.is_row else self._begins
        hit = pattern.search(self._buffer, bad.look - self._from)
        if self._stops or (hit is None and last and not bad.is_row):
            self._note(bad, self.end)
            return True
        if hit is None:
            tag = self._buffer.rfind(b"<")  # A tag may have come in part.
            look = self._from + (tag if tag >= 0 else len(self._buffer))
            self._bad = bad._replace(look=max(bad.look, look))
            return False
        end = self._from + (hit.end() if hit[0].startswith(b"</") else hit.start())
        self._note(bad, end)
        return True

    def _note(self, bad: _Bad, end: int) -> None:
        """What is malformed ends here."""
        text = self._buffer[bad.begin - self._from : end - self._from].decode(errors="replace")
        found = self._finder.found
        found.malformed.append((len(found.rows), Malformed(text, bad.begin, bad.reason)))
        self._bad = None
        self._go_on(self._finder.outside[1:], end)

    # -- The parser.

    def _go_on(self, names: list[str], place: int) -> None:
        """Parse from a place on that is inside of these elements and in no row."""
        around = "".join(f"<{name}>" for name in (ROOT, *names)).encode()
        self._parser = parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.buffer_size = _TEXT_BYTES
        parser.ordered_attributes = True
        if hasattr(parser, "SetReparseDeferralEnabled"):
            # It would keep a row that has come until more does. `_is_worth_it` is instead of it.
            parser.SetReparseDeferralEnabled(False)
        self._base = place - len(around)
        self._parsed = place
        self._piece = _FIRST_PIECE
        self._finder.connect(parser, self._base)
        parser.Parse(around, False)

    def _event(self) -> int:
        """The place of a tag or comment that is not complete, or where the parser stopped."""
        return max(self._base + int(self._parser.CurrentByteIndex), self._from)

    def _open_at(self) -> int:
        """The place from which on bytes are needed."""
        if self._bad is not None:
            return self._bad.begin
        begin = self._finder.row_begin
        return min(self._event(), self._parsed) if begin is None else begin
