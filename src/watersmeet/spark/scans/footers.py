"""A file's footer by the names that a table has for its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from watersmeet.parquet.footers import Chunk, Footer, Range
from watersmeet.spark.scans.parquet import Reading, names_in


class FileFooter:
    """The columns of a table that are in a file, and what the file says of them."""

    def __init__(self, footer: Footer, found: Mapping[str, Reading]) -> None:
        """`found` says how each column of the table is read."""
        self._footer = footer
        self._names = {name: reading.name for name, reading in found.items()}
        self._read = names_in(list(found.values()))

    def row_groups(self) -> Sequence[tuple[int, int, int]]:
        """Number, rows and uncompressed bytes of all that have rows."""
        sizes = enumerate(self._footer.sizes(self._read))
        return [(n, rows, size) for n, size in sizes if (rows := self._footer.rows(n))]

    def range(self, group: int, column: str) -> Range | None:
        """What the values lie between; None where the file does not say, or has no such column."""
        name = self._names.get(column)
        return None if name is None else self._footer.range(group, name)

    def chunk(self, group: int, column: str) -> Chunk:
        name = self._names.get(column)
        return Chunk.unknown() if name is None else self._footer.chunk(group, name)
