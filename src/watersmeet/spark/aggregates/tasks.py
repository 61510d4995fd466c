"""What a task does for an aggregate: blocks of one side meet the other, and totals come back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from watersmeet.aggregates.allowance import Allowance
from watersmeet.aggregates.ask.question import ResolvedQuestion
from watersmeet.aggregates.partials.block import BlockAggregator
from watersmeet.aggregates.partials.gathering import make_key_sums
from watersmeet.aggregates.partials.key_sums import KeySums
from watersmeet.aggregates.partials.summing import Summing
from watersmeet.aggregates.partials.totals import BlockTotals
from watersmeet.aggregates.sampling.ripple import Rectangle, RippleWork
from watersmeet.model import Side
from watersmeet.spark import cache
from watersmeet.spark.aggregates.blocks import PlainBlocks
from watersmeet.store.exchange import ExchangeDir, Sections

# Blocks of the other side that a task keeps: its own are sorted by key, so neighbours share them.
_KEPT = 4


@dataclass(frozen=True)
class OtherSide:
    """Where the rows of the other side are: in its own files, or staged in the run's storage."""

    schema: pa.Schema
    plain: PlainBlocks | None
    storage: ExchangeDir | None = None
    staged: tuple[Sections, ...] | None = None

    @property
    def is_there(self) -> bool:
        """Whether it is no longer to be staged."""
        return self.plain is not None or self.staged is not None

    def all(self, batch_bytes: int) -> Iterator[pa.RecordBatch]:
        if self.plain is not None:
            for _, split in self.plain.bundles(range(len(self.plain.splits))):
                yield from self.plain.rows_of(split, batch_bytes)
        else:
            assert self.storage is not None
            assert self.staged is not None
            yield from self.storage.read_sections(self.staged, self.schema)


@dataclass(frozen=True)
class Work:
    """What the tasks of one aggregate need to know. Sent with every job, so it holds values."""

    query: str
    question: ResolvedQuestion
    sampled: Side
    other: OtherSide
    needs: tuple[tuple[int, ...], ...] | None
    allowance: Allowance
    """Of one task."""

    def entries(self, block: int, kept: OrderedDict[int, KeySums]) -> Sequence[KeySums]:
        """All that a block can meet."""
        if self.needs is None:
            # The other side as a whole, made once by each worker.
            most = self.allowance.entries
            made = cache.kept((self.query, 0, 0), lambda: self._entries(self.other.all, most=most))
            return [made]
        found = []
        for needed in self.needs[block]:
            if needed not in kept:
                kept[needed] = self._needed(needed)
                while len(kept) > 1 and self._too_many(kept):
                    kept.popitem(last=False)
            else:
                kept.move_to_end(needed)
            found.append(kept[needed])
        return found

    def most_groups(self) -> int:
        """Bytes of totals: what is told of them to the driver takes three times as much."""
        return self.allowance.groups(self.allowance.entries // 2) // 3

    def _needed(self, block: int) -> KeySums:
        plain = self.other.plain
        assert plain is not None
        return self._entries(lambda nbytes: plain.rows_of(plain.splits[block], nbytes))

    def _too_many(self, kept: OrderedDict[int, KeySums]) -> bool:
        held = sum(entries.nbytes for entries in kept.values())
        return len(kept) > _KEPT or held > self.allowance.entries // 2

    def _entries(
        self, read: Callable[[int], Iterator[pa.RecordBatch]], *, most: int | None = None
    ) -> KeySums:
        """`read` gives rows of the other side in batches of so many bytes."""
        nbytes = self.allowance.batch_bytes
        return make_key_sums(
            lambda gathering: map(gathering.piece, read(nbytes)),
            self.question,
            sampled=self.sampled,
            most=most,
            portion=self.allowance.pairs,
        )


def read_blocks(
    blocks: Sequence[int], work: Work, plain: PlainBlocks, *, last: bool
) -> list[BlockTotals]:
    """The totals of some blocks; of the last look, all in one."""
    meeting = BlockAggregator(work.question, sampled=work.sampled)
    kept: OrderedDict[int, KeySums] = OrderedDict()
    if last:
        units = list(plain.bundles(blocks))
    else:
        units = [(block, plain.splits[block]) for block in blocks]
    summing = Summing(work.question, most=work.most_groups(), apart=not last)
    for block, split in units:
        totals = meeting.totals(
            plain.rows_of(split, work.allowance.batch_bytes),
            work.entries(block, kept),
            block=block,
            rows=split.stop - split.start,
            sketched=not last,
        )
        summing.add(totals)
    return summing.totals()


def read_partition(batches: Iterator[pa.RecordBatch], block: int, work: Work) -> list[BlockTotals]:
    """The totals of one partition of a DataFrame."""
    meeting = BlockAggregator(work.question, sampled=work.sampled)
    schema = work.question.schemas[work.sampled]
    rows = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        for batch in batches:
            rows += len(batch)
            yield batch.cast(schema)

    entries = work.entries(block, OrderedDict())
    totals = meeting.totals(counted(), entries, block=block, rows=0, sketched=True)
    summing = Summing(work.question, most=work.most_groups(), apart=True)
    summing.add(replace(totals, rows=rows))
    return summing.totals()


def met(
    partition: int, work: RippleWork, rectangle: Rectangle, *, apart: bool
) -> list[BlockTotals]:
    """The totals of one partition of a rectangle, by pairs of blocks if they are kept apart."""
    found = work.meet(partition, rectangle, apart=apart)
    return [] if found is None else [found]
