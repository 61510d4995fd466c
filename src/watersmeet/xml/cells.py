"""Fills the cells of rows from what expat says about tags and texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from watersmeet.xml.limits import Limits, Refused

PUNCTUATION = "punct:"
"""What stands before the name of a row's element if it is a punctuation (Figure 3 of the paper)."""


class Path(NamedTuple):
    """Where a cell is found: the text of an element (`sno`, `place/city`), an attribute (`@id`,
    `place/@id`), or the text of the row itself (`.`).

    With `repeats` a cell is the list of all texts that are found; otherwise it is the last one, as
    in Spark.
    """

    steps: str
    repeats: bool = False


class Malformed(NamedTuple):
    """A row's element that is not well-formed, or text between rows that is not."""

    text: str
    place: int
    reason: str


class Unclosed(Exception):
    """A row's element begins inside of another one."""


@dataclass
class Found:
    """Rows that were found: number `i` has the cells `rows[i]`."""

    rows: list[list[Any]] = field(default_factory=list)
    markers: list[bool] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    """The places of their first tags, in bytes of UTF-8."""
    ends: list[int] = field(default_factory=list)
    """The places of their last tags."""
    wrong: dict[int, str] = field(default_factory=dict)
    """Numbers of rows that are well-formed and still wrong, with the reasons."""
    malformed: list[tuple[int, Malformed]] = field(default_factory=list)
    """Each with the number of rows before it."""


class _Node:
    """An element below a row that has a cell, or has elements or attributes that have one."""

    __slots__ = ("attributes", "below", "cell", "children", "parent", "repeats")

    def __init__(self, parent: _Node | None) -> None:
        self.parent = parent
        self.children: dict[str, _Node] = {}
        self.attributes: dict[str, tuple[int, bool]] = {}
        self.cell = -1
        self.repeats = False
        self.below: tuple[int, ...] = ()
        """If it has a cell itself: all cells below it, which are those of the last such element."""


def _tree(paths: Sequence[Path]) -> _Node:
    top = _Node(None)
    for cell, (steps, repeats) in enumerate(paths):
        node, (*above, last) = top, steps.split("/")
        for name in above:
            node = node.children.setdefault(name, _Node(node))
        if last.startswith("@"):
            node.attributes[last[1:]] = (cell, repeats)
        else:
            leaf = node if last == "." else node.children.setdefault(last, _Node(node))
            leaf.cell, leaf.repeats = cell, repeats
    for child in top.children.values():
        _note_below(child)
    return top


def _note_below(node: _Node) -> list[int]:
    """All cells of an element and below it."""
    cells = [cell for cell, _ in node.attributes.values()]
    for child in node.children.values():
        cells += _note_below(child)
    if node.cell < 0:
        return cells
    node.below = tuple(cells)
    return [*cells, node.cell]


class RowFinder:
    """Is told of tags and texts by one parser, and keeps the rows among them in `found`.

    Prefixes are part of names: the streams of the paper declare none of theirs.
    """

    def __init__(self, row: str, paths: Sequence[Path], limits: Limits) -> None:
        self._names = (row, PUNCTUATION + row)
        self._top = _tree(paths)
        self._width = len(paths)
        self._limits = limits
        self.found = Found()
        self.outside: list[str] = []
        """The elements that are open outside of rows."""
        self.row_begin: int | None = None
        """The place of the row that is open."""

    def connect(self, parser: Any, base: int) -> None:
        """Listen to a parser whose byte 0 is at the place `base`.

        Functions are called for every tag. So what they use is in variables and not in attributes.
        """
        rows, top, width, limits = self._names, self._top, self._width, self._limits
        found, outside = self.found, self.outside
        outside.clear()
        self.row_begin = None
        parts: list[str] = []
        held: dict[int, str] = {}
        cells: list[Any] = []
        node: _Node | None = None
        strange = 0  # How many elements without a cell are open inside each other in a row.
        wrong = ""

        def begin(name: str, attributes: list[str]) -> None:
            nonlocal cells, node, strange, wrong
            if node is None:
                if name in rows:
                    cells, node, wrong = [None] * width, top, ""
                    held.clear()
                    self.row_begin = base + parser.CurrentByteIndex
                    if attributes:
                        note_attributes(top, attributes)
                else:
                    check(name, attributes, len(outside))
                    outside.append(name)
            else:
                if node.cell >= 0 and not strange:
                    held[node.cell] = held.get(node.cell, "") + "".join(parts)
                child = None if strange else node.children.get(name)
                if child is not None:
                    node = child
                    for cell in child.below:
                        cells[cell] = None
                    if attributes:
                        note_attributes(child, attributes)
                else:
                    if name in rows:
                        raise Unclosed(f"another <{name}> begins inside of it")
                    check(name, attributes, len(outside) + strange)
                    if node.cell >= 0 and node is not top and not node.children:
                        wrong = f"there is a <{name[:40]}> in an element that should be text"
                    strange += 1
            parts.clear()

        def end(name: str) -> None:
            nonlocal node, strange
            if node is None:
                outside.pop()
            elif strange:
                strange -= 1
            else:
                cell = node.cell
                if cell >= 0:
                    text = "".join(parts)
                    if held:
                        text = held.pop(cell, "") + text
                    if not node.repeats:
                        cells[cell] = text
                    elif cells[cell] is None:
                        cells[cell] = [text]
                    else:
                        cells[cell].append(text)
                if node is top:
                    close(name)
                node = node.parent
            parts.clear()

        def close(name: str) -> None:
            start, place = self.row_begin or 0, base + parser.CurrentByteIndex
            if place - start > limits.row_bytes:
                raise Refused(f"has a <{name}> of more than {limits.row_bytes:,} bytes", start)
            if wrong:
                found.wrong[len(found.rows)] = wrong
            found.rows.append(cells)
            found.markers.append(name == rows[1])
            found.begins.append(start)
            found.ends.append(place)
            self.row_begin = None

        def note_attributes(node: _Node, attributes: list[str]) -> None:
            check("", attributes, 0)
            for name, value in zip(attributes[::2], attributes[1::2], strict=True):
                known = node.attributes.get(name)
                if known is not None:
                    cell, repeats = known
                    cells[cell] = [*(cells[cell] or ()), value] if repeats else value

        def check(name: str, attributes: list[str], depth: int) -> None:
            what = ""
            if depth >= limits.depth:
                what = f"has elements nested more than {limits.depth:,} deep"
            elif len(attributes) > 2 * limits.attributes:
                what = f"has an element of more than {limits.attributes:,} attributes"
            elif len(name) > limits.name or max(map(len, attributes[::2]), default=0) > limits.name:
                what = f"has a name of more than {limits.name:,} characters"
            if what:
                raise Refused(what, base + parser.CurrentByteIndex)

        parser.StartElementHandler = begin
        parser.EndElementHandler = end
        parser.CharacterDataHandler = parts.append
        self._parts = parts

    def after_piece(self) -> None:
        """Forget text that belongs to no row, however long it is."""
        if self.row_begin is None:
            self._parts.clear()

    def take(self) -> Found:
        """The rows that were found since the last call."""
        found = Found(**{name: value.copy() for name, value in vars(self.found).items()})
        for kept in vars(self.found).values():
            kept.clear()
        return found
