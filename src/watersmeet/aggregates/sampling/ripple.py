"""Blocks of both sides, where neither fits in memory: a rectangle of pairs of blocks that grows.

Rows are partitioned by the hash of their key into the run's storage, so that one partition of one
side fits in memory at a time. A look reads new blocks of both sides, and then joins in every
partition what has not met: the new blocks of the sampled side with all of the other, its old ones
with the other's new. Each row carries the number of its block, as one more column to group by, so
totals come out by pair of blocks, which is what the estimate of a two-sided sample needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.aggregates.allowance import Allowance
from watersmeet.aggregates.ask.question import ResolvedQuestion
from watersmeet.aggregates.ask.specification import GroupColumn
from watersmeet.aggregates.partials.block import BlockAggregator
from watersmeet.aggregates.partials.gathering import key_sum_bytes, make_key_sums
from watersmeet.aggregates.partials.key_sums import KeySums, kept, one_batch
from watersmeet.aggregates.partials.totals import BlockTotals, added_up
from watersmeet.kernels.hashing import partition_of
from watersmeet.model import Side
from watersmeet.store.exchange import ExchangeDir, Sections

_BLOCK = ("__left_block", "__right_block")
_KIND = pa.int32()
_DERIVED = ("numbered", "unnumbered")


@dataclass(frozen=True)
class Scanned:
    """A block in the storage. `rows` counts all its rows, before the filter."""

    block: int
    rows: int
    sections: Sections

    def describe(self) -> dict[str, Any]:
        return {"block": self.block, "rows": self.rows, "sections": self.sections.describe()}

    @classmethod
    def from_description(cls, described: dict[str, Any]) -> Scanned:
        sections = Sections.from_description(described["sections"])
        return cls(described["block"], described["rows"], sections)


@dataclass(frozen=True)
class Rectangle:
    """What has been read: blocks that have met already, and those that are new, of each side."""

    old: tuple[tuple[Scanned, ...], tuple[Scanned, ...]] = ((), ())
    new: tuple[tuple[Scanned, ...], tuple[Scanned, ...]] = ((), ())

    def grown(self, new: tuple[tuple[Scanned, ...], tuple[Scanned, ...]]) -> Rectangle:
        old = tuple((*self.old[side], *self.new[side]) for side in Side)
        return Rectangle((old[0], old[1]), new)


@dataclass(frozen=True)
class RippleWork:
    """What tasks need to know. Values only."""

    question: ResolvedQuestion
    sampled: Side
    partitions: int
    storage: ExchangeDir
    allowance: Allowance
    """Of one worker."""

    @cached_property
    def numbered(self) -> ResolvedQuestion:
        """The question with a block number in every row, and totals by pairs of blocks."""
        question = self.question
        columns = tuple(
            GroupColumn(name, side, name, _KIND, shared=False)
            for side, name in zip(Side, _BLOCK, strict=True)
        )
        schemas = [
            schema.append(pa.field(name, _KIND, nullable=False))
            for schema, name in zip(question.schemas, _BLOCK, strict=True)
        ]
        aggregates = replace(question.aggregates, groups=(*question.aggregates.groups, *columns))
        return replace(question, schemas=(schemas[0], schemas[1]), aggregates=aggregates)

    def scan(self, side: Side, block: int, batches: Iterable[pa.RecordBatch]) -> Scanned:
        """Bring a block's rows into the storage, partitioned."""
        rows = 0

        def routed() -> Iterator[tuple[int, pa.RecordBatch]]:
            nonlocal rows
            for batch in batches:
                rows += len(batch)
                yield from self._routed(side, block, batch)

        sections = self.storage.write_sections(f"{side.name.lower()}-{block:05}", routed())
        return Scanned(block, rows, sections)

    def _routed(
        self, side: Side, block: int, batch: pa.RecordBatch
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        question = self.question
        batch = kept(batch, question, side)
        encoded = question.join.encode(side, batch)
        hashes = encoded.codes
        if encoded.valid is not None and not encoded.valid.all():
            # A null key matches nothing.
            hashes, batch = hashes[encoded.valid], batch.filter(pa.array(encoded.valid))
        parts = partition_of(hashes, self.partitions)
        order = np.argsort(parts, kind="stable")
        ends = np.cumsum(np.bincount(parts, minlength=self.partitions))
        number = pa.repeat(pa.scalar(block, _KIND), len(batch))
        grouped = pa.RecordBatch.from_arrays(
            [*batch.take(pa.array(order)).columns, number], schema=self.numbered.schemas[side]
        )
        start = 0
        for partition, end in enumerate(ends.tolist()):
            if end > start:
                yield partition, grouped.slice(start, end - start)
            start = end

    @cached_property
    def unnumbered(self) -> ResolvedQuestion:
        """The question about the same rows, without their blocks."""
        return replace(self.numbered, aggregates=self.question.aggregates)

    def meet(
        self, partition: int, rectangle: Rectangle, *, apart: bool = True
    ) -> BlockTotals | None:
        """Totals of the pairs of blocks that have not met, in one partition.

        For the answer pairs of blocks need not be kept `apart`.
        """
        mine, other = self.sampled, self.sampled.other
        question = self.numbered if apart else self.unnumbered
        meeting = BlockAggregator(question, sampled=mine)
        found = []
        everyone = (*rectangle.old[other], *rectangle.new[other])
        for rows, partners in (
            (rectangle.new[mine], everyone),
            (rectangle.old[mine], rectangle.new[other]),
        ):
            if rows and partners:
                for entries in self._entries(partners, partition, question):
                    batches = self._read(mine, rows, partition)
                    found.append(
                        meeting.totals(
                            larger(batches, self.allowance.batch_bytes),
                            [entries],
                            block=partition,
                            rows=0,
                            sketched=True,
                        )
                    )
        return added_up(found, question) if found else None

    def _entries(
        self, blocks: Sequence[Scanned], partition: int, question: ResolvedQuestion
    ) -> Iterator[KeySums]:
        """Of the other side, as many rows at a time as fit: a key may have more than its share."""
        side = self.sampled.other
        width = key_sum_bytes(self.numbered, side)
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in self._read(side, blocks, partition):
            each = len(batch) * width + 2 * batch.nbytes
            if held and size + each > self.allowance.entries:
                yield self._made(held, question)
                held, size = [], 0
            held.append(batch)
            size += each
        if held:
            yield self._made(held, question)

    def _made(self, batches: Sequence[pa.RecordBatch], question: ResolvedQuestion) -> KeySums:
        return make_key_sums(
            lambda gathering: map(gathering.piece, larger(batches, self.allowance.batch_bytes)),
            question,
            sampled=self.sampled,
            portion=self.allowance.pairs,
        )

    def _read(
        self, side: Side, blocks: Sequence[Scanned], partition: int
    ) -> Iterator[pa.RecordBatch]:
        files = [block.sections.of(partition) for block in blocks]
        return self.storage.read_sections(files, self.numbered.schemas[side])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _DERIVED}


def larger(batches: Iterable[pa.RecordBatch], nbytes: int) -> Iterator[pa.RecordBatch]:
    """Small batches put together to about this size: each has a price, however small it is."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= nbytes:
            yield one_batch(held, batch.schema)
            held, size = [], 0
    if held:
        yield one_batch(held, held[0].schema)


def partitions_for(held: int, *, memory: int) -> int:
    """So many that a partition of a side that would take `held` bytes takes half of memory.

    Not more than a few hundred: a block's rows would be scattered in pieces too small to be read.
    What does not fit then is joined in portions.

    >>> partitions_for(10 * 2**30, memory=2**30)
    20
    """
    return int(min(max(-(-2 * held // memory), 1), 256))
