"""Mistakes in reading XML, made on purpose: the random streams must show each of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.test_planted_bugs import Bug
from tests.xml.streams import follow
from watersmeet.xml import cells, convert
from watersmeet.xml.cells import RowFinder
from watersmeet.xml.convert import Convert
from watersmeet.xml.decoding import Decoder
from watersmeet.xml.elements import Elements


def bug(place: tuple[Any, str], right: str, wrong: str) -> Bug:
    return Bug("", place, right, wrong)


BUGS = {
    "a document type is let through": bug(
        (Elements, "_find_end"), "if not bad.is_row and head.startswith(_DECLARING):", "if False:"
    ),
    "depth has no limit": bug((RowFinder, "connect"), "if depth >= limits.depth:", "if False:"),
    "a row that is whole has no limit": bug(
        (RowFinder, "connect"), "if place - start > limits.row_bytes:", "if False:"
    ),
    "a row that has no end has no limit": bug(
        (Elements, "_check_size"), "if self.end - begin > self._limits.row_bytes:", "if False:"
    ),
    "the end is not looked at": bug(
        (Convert, "_check_end"), "if (unfinished := self._elements.unfinished()) is None:", "if 1:"
    ),
    "a row that was cut off is lost": bug(
        (Elements, "unfinished"), "if self._finder.row_begin is not None:", "if False:"
    ),
    "a tag that was cut off is lost": bug(
        (Elements, "unfinished"),
        'if self._buffer[self._event() - self._from :].lstrip().startswith(b"<"):',
        "if False:",
    ),
    "punctuations are rows": bug((RowFinder, "connect"), "name == rows[1]", "False"),
    "a malformed punctuation promises something": bug(
        (Convert, "_with_bad"), "np.array(found.markers) & ~is_bad", "np.array(found.markers)"
    ),
    "anything is a text": bug((convert, "is_special"), "text == ANYTHING or not", "not"),
    "what is malformed is swallowed in FAILFAST": bug(
        (Convert, "_with_bad"), 'if shape.mode == "FAILFAST":', "if False:"
    ),
    "rows behind what is malformed come in FAILFAST": bug(
        (Convert, "_with_bad"), "slice(0, first)", "slice(0)"
    ),
    "a character may not be cut": bug(
        (Decoder, "decode"),
        "self._decoder.decode(chunk, last)",
        "self._decoder.decode(chunk, True)",
    ),
    "half a character at the end is lost": bug(
        (Decoder, "decode"),
        "self._decoder.decode(chunk, last)",
        "self._decoder.decode(chunk, False)",
    ),
    "the end tag of a malformed row may not be cut": bug(
        (Elements, "_find_end"), "tag if tag >= 0 else len(self._buffer)", "len(self._buffer)"
    ),
    "bytes of a row that is open are forgotten": bug(
        (Elements, "forget"), "self._buffer[: self._open_at() - self._from]", "self._buffer[:]"
    ),
    "lines count from the last chunk": bug(
        (Elements, "forget"), "self._line, self._column = self._after(gone)", "pass"
    ),
    "after a malformed row the root is forgotten": bug(
        (Elements, "_note"), "self._go_on(self._finder.outside[1:], end)", "self._go_on([], end)"
    ),
    "another document is malformed": bug(
        (Elements, "_give_up"),
        "self._go_on(self._finder.outside[1:], self._from + declaration.end())\n        return",
        "pass",
    ),
    "malformed rows stand behind the next one": bug(
        (Convert, "_with_malformed"), "before <= number", "before < number"
    ),
    "a bad value of a list is that of another row": bug(
        (Convert, "_cast"),
        "np.repeat(np.arange(len(cells)), lengths)[flat.is_bad]",
        "np.flatnonzero(flat.is_bad) % len(cells)",
    ),
    "text before an element is lost": bug(
        (RowFinder, "connect"), 'held.get(node.cell, "") + "".join(parts)', '""'
    ),
    "values of an element before the last one stay": bug(
        (RowFinder, "connect"), "for cell in child.below:", "for cell in ():"
    ),
    "an attribute that is below an element stays": bug(
        (cells, "_note_below"), "return [*cells, node.cell]", "return []"
    ),
    "a struct is there although its element is not": bug(
        (convert, "_assembled"), ", mask=pc.is_null(arrays[name])", ""
    ),
    "elements inside of a text are passed over": bug(
        (RowFinder, "connect"),
        "if node.cell >= 0 and node is not top and not node.children:",
        "if False:",
    ),
    "values of unknown elements count": bug(
        (RowFinder, "connect"), "child = None if strange else", "child ="
    ),
}


def look() -> None:
    for seed in range(100):
        follow(seed)


@pytest.mark.slow  # the same way as test_streams.py takes, for each bug
@pytest.mark.parametrize("name", BUGS)
def test_the_streams_show(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[name].plant(monkeypatch)
    # A mistake may be an error of Arrow or Python, too.
    with pytest.raises(Exception):  # noqa: B017, PT011
        look()
