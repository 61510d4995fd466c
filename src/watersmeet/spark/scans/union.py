"""A union of text files with others, or with Parquet files: each branch is read in its own way.

Everything here can be sent to tasks, and loads in a worker without pyspark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from watersmeet.spark.scans.paced import read_paced
from watersmeet.spark.scans.scan import PlainScan, Split
from watersmeet.spark.scans.text import Refused, TextRange, TextScan

# Of Parquet files.
_BATCH_ROWS, _BATCH_BYTES = 1 << 14, 1 << 20
# So many branches are told.
_TOLD = 6


@dataclass(frozen=True)
class Piece:
    """Neighbouring rows of a file of one branch."""

    branch: int
    part: TextRange | Split

    @property
    def is_text(self) -> bool:
        return isinstance(self.part, TextRange)


@dataclass(frozen=True)
class UnionScan:
    """A DataFrame whose branches we read ourselves, one of them text. A value that can be sent to
    tasks."""

    branches: tuple[PlainScan | TextScan, ...]

    @classmethod
    def of(cls, scan: TextScan | UnionScan) -> UnionScan:
        """One scan is a union of itself alone."""
        return scan if isinstance(scan, UnionScan) else cls((scan,))

    @property
    def schema(self) -> pa.Schema:
        return self.branches[0].schema

    @property
    def nbytes(self) -> int:
        """Of text as it is, of Parquet what is read, uncompressed."""
        return sum(branch.nbytes for branch in self.branches)

    @property
    def rows(self) -> int:
        """About, before filters."""
        return sum(branch.rows for branch in self.branches)

    def describe(self) -> str:
        told = [branch.describe() for branch in self.branches[:_TOLD]]
        others = self.branches[_TOLD:]
        if others:
            more = [f"{len(others):,} more"]
            for branch in others:
                more += branch.tally.describe() if isinstance(branch, TextScan) else []
            told.append(f"and {', '.join(more)}")
        return f"a union of {len(self.branches):,} branches: {'; '.join(told)}"

    def cut(self, many: int) -> list[tuple[Piece, ...]]:
        """The pieces of each of at most so many partitions.

        A partition has a part of each branch, as far as that is cut so often, and is like the
        whole: the first partitions of a union with itself, say, have the same keys.
        """
        partitions: list[list[Piece]] = [[] for _ in range(many)]
        rows = [0.0] * many
        for number, branch in enumerate(self.branches):
            parts: Sequence[tuple[TextRange | Split, ...]] = branch.cut(many)
            lightest = sorted(range(many), key=rows.__getitem__)[: len(parts)]
            for place, part in zip(lightest, parts, strict=True):
                partitions[place] += [Piece(number, each) for each in part]
                rows[place] += branch.rows / len(parts)
        return [tuple(pieces) for pieces in partitions if pieces]

    def text(self, piece: Piece) -> tuple[TextScan, TextRange]:
        """The branch of a piece of text, and the range that it is there."""
        branch = self.branches[piece.branch]
        assert isinstance(branch, TextScan)
        assert isinstance(piece.part, TextRange)
        return branch, piece.part

    def read(self, piece: Piece, refused: Refused) -> Iterator[pa.RecordBatch]:
        """The rows of a piece that are kept, but for lines that are `refused`."""
        branch = self.branches[piece.branch]
        if isinstance(branch, PlainScan):
            assert isinstance(piece.part, Split)
            return read_paced(branch, piece.part, batch_bytes=_BATCH_BYTES, most_rows=_BATCH_ROWS)
        text, part = self.text(piece)
        return text.read(part, refused)

    def parsed(self, piece: Piece, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What is taken of lines of a piece that Spark has parsed into the `raw` columns."""
        text, part = self.text(piece)
        return text.parsed(part, batches)
