"""A DataFrame in blocks that can be read in any order: row groups, or Spark's own partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

import numpy as np
import pyarrow as pa

from watersmeet.aggregates.sampling.facts import ColumnFacts
from watersmeet.aggregates.sampling.plan import Block
from watersmeet.aggregates.sampling.planner import pieces
from watersmeet.errors import InputChanged
from watersmeet.spark.aggregates.cuts import Cut
from watersmeet.spark.frames import estimated_rows
from watersmeet.spark.jobs import Partitions, count_partitions
from watersmeet.spark.scans.paced import read_paced
from watersmeet.spark.scans.ranges import facts_of, ranges_of
from watersmeet.spark.scans.relation import StagedRows, TextRelation
from watersmeet.spark.scans.scan import PlainScan, Split
from watersmeet.spark.text_partitions import Place, TextPartitions, open_partitions

# Of a DataFrame that is no plain scan, while Spark does not say better.
_UNKNOWN_ROWS = 1 << 20
Result = TypeVar("Result")


@dataclass(frozen=True)
class PlainBlocks:
    """Row groups of a plain scan, cut where they are few. A value that can be sent to tasks."""

    scan: PlainScan
    splits: tuple[Split, ...]

    @classmethod
    def of(cls, scan: PlainScan) -> PlainBlocks:
        # By name: a directory lists its files in no order, and a seed should mean the same again.
        groups = sorted(
            scan.row_groups, key=lambda group: (scan.files[group.file].path, group.number)
        )
        splits = [
            Split(groups[part].file, groups[part].number, start, stop)
            for part, start, stop in pieces([group.rows for group in groups])
        ]
        return cls(scan, tuple(splits))

    def whole(self) -> tuple[PlainBlocks, list[int]]:
        """The same in whole row groups, and in which of those each block is."""
        groups = [(split.file, split.row_group) for split in self.splits]
        numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
        ends = dict(zip(groups, (split.stop for split in self.splits), strict=True))
        splits = tuple(Split(*group, 0, ends[group]) for group in numbers)
        return PlainBlocks(self.scan, splits), [numbers[group] for group in groups]

    def describe(self, key: str) -> tuple[Block, ...]:
        """All blocks, with what the key lies between in each where the footers say so."""
        ranges = ranges_of(self.scan, key)
        found = {
            (group.file, group.number): (group, keys)
            for group, keys in zip(self.scan.row_groups, ranges, strict=True)
        }
        blocks = []
        for split in self.splits:
            group, keys = found[split.file, split.row_group]
            rows = split.stop - split.start
            blocks.append(Block(rows, group.nbytes * rows // max(group.rows, 1), keys))
        return tuple(blocks)

    def facts(self, columns: Iterable[str]) -> dict[str, ColumnFacts]:
        """What the footers say about columns, in each block."""
        places = {
            (group.file, group.number): place for place, group in enumerate(self.scan.row_groups)
        }
        index = np.array([places[split.file, split.row_group] for split in self.splits], np.int64)
        return {column: facts_of(self.scan, column).taken(index) for column in columns}

    def rows_of(self, split: Split, batch_bytes: int) -> Iterator[pa.RecordBatch]:
        """Rows of a split in batches of about so many bytes."""
        return read_paced(self.scan, split, batch_bytes=batch_bytes)

    def bundles(self, blocks: Iterable[int]) -> Iterator[tuple[int, Split]]:
        """Blocks that lie side by side in a row group as one split, with the first one's number."""
        ordered = sorted(blocks)
        for _, group in groupby(enumerate(ordered), key=lambda item: self._run(*item)):
            members = [block for _, block in group]
            first, last = self.splits[members[0]], self.splits[members[-1]]
            yield members[0], Split(first.file, first.row_group, first.start, last.stop)

    def _run(self, place: int, block: int) -> tuple[int, int, int]:
        split = self.splits[block]
        return split.file, split.row_group, block - place


@dataclass(frozen=True)
class PartitionBlocks:
    """Partitions of any other DataFrame, which Spark computes one by one when asked for them, or of
    text, which tasks read.

    Each is computed as a whole and in a random order, and its total is one draw from the totals of
    all: what a block of a plain scan is. `cut` is asked for, `partitions` is what was made of it.
    """

    relation: TextRelation | StagedRows
    partitions: int
    cut: Cut
    rows: int

    @classmethod
    def of(cls, relation: TextRelation | StagedRows) -> PartitionBlocks:
        if not isinstance(relation, StagedRows):
            cut = Cut.of_text(relation.nbytes)
            return cls(relation, len(relation.cut(cut.many)), cut, relation.rows)
        dataframe = relation.dataframe
        cut = Cut.of(dataframe)
        partitions = count_partitions(dataframe, many=cut.many, nbytes=cut.nbytes)
        rows = estimated_rows(relation)
        return cls(relation, partitions, cut, _UNKNOWN_ROWS * partitions if rows is None else rows)

    def describe(self) -> tuple[Block, ...]:
        """How many rows a partition has is known once it has been computed; this is a guess."""
        each = max(self.rows // max(self.partitions, 1), 1)
        width = 8 * len(self.relation.schema)
        return tuple(Block(each, each * width) for _ in range(self.partitions))

    def open(
        self, work: Callable[[Iterator[pa.RecordBatch], int], Result], place: Place, *, what: str
    ) -> Partitions[Result] | TextPartitions[Result]:
        """The partitions that were counted, for `work` on some of them at a time."""
        cut = self.cut
        opened = open_partitions(
            self.relation, work, place, what=what, many=cut.many, nbytes=cut.nbytes
        )
        if opened.count != self.partitions:
            # Of those that nobody knew of when the order was drawn, none would ever be read.
            raise InputChanged(
                f"A DataFrame had {self.partitions:,} partitions when the aggregate was asked for, "
                f"and has {opened.count:,} now.",
                remedy="Run the aggregate again, with files and settings that stay as they are.",
            )
        return opened
