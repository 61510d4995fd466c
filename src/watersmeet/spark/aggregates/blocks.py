"""A DataFrame in blocks that can be read in any order: row groups, or Spark's own partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pyarrow as pa

from watersmeet.aggregates.facts import ColumnFacts
from watersmeet.aggregates.planner import Block, pieces
from watersmeet.spark.scans.ranges import Footers
from watersmeet.spark.scans.relation import StagedRows
from watersmeet.spark.scans.scan import PlainScan, Split

_BATCH_ROWS = 131_072


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

    def describe(self, key: str, footers: Footers) -> tuple[Block, ...]:
        """All blocks, with what the key lies between in each where the footers say so."""
        ranges = footers.ranges(key)
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

    def facts(self, columns: Iterable[str], footers: Footers) -> dict[str, ColumnFacts]:
        """What the footers say about columns, in each block."""
        places = {
            (group.file, group.number): place for place, group in enumerate(self.scan.row_groups)
        }
        index = np.array([places[split.file, split.row_group] for split in self.splits], np.int64)
        return {column: footers.facts(column).taken(index) for column in columns}

    def read(self, block: int) -> Iterator[pa.RecordBatch]:
        return self.scan.read(self.splits[block], batch_rows=_BATCH_ROWS)

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
    """Partitions of any other DataFrame, which Spark computes one by one when asked for them."""

    relation: StagedRows
    partitions: int
    rows: int

    def describe(self) -> tuple[Block, ...]:
        """How many rows a partition has is known once it has been computed; this is a guess."""
        each = max(self.rows // max(self.partitions, 1), 1)
        width = 8 * len(self.relation.schema)
        return tuple(Block(each, each * width) for _ in range(self.partitions))
