"""What a task does for an aggregate: blocks of one side meet the other, and totals come back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import overload

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyspark import TaskContext

from watersmeet.aggregates.allowance import Allowance, SideTooLarge
from watersmeet.aggregates.ask.question import ResolvedQuestion
from watersmeet.aggregates.partials.block import BlockAggregator
from watersmeet.aggregates.partials.gathering import make_key_sums
from watersmeet.aggregates.partials.key_sums import KeySums
from watersmeet.aggregates.partials.summing import Summing
from watersmeet.aggregates.partials.totals import BlockTotals
from watersmeet.aggregates.sampling.ripple import Rectangle, RippleWork
from watersmeet.model import Side
from watersmeet.parquet.footers import Range
from watersmeet.spark import cache
from watersmeet.spark.aggregates.blocks import PlainBlocks
from watersmeet.store.exchange import ExchangeDir, Sections

# A batch may need so many row groups of the other side, or so large a part of them, and still be
# joined with them alone.
_MOST_NEEDED = 8
_MOST_SHARE = 0.2
# In the place of a block's number.
_WHOLE = -1
FIRST = "watersmeet.first"
"""A local property of Spark's jobs: set where rows that do not follow the key are reported."""


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
    """Of each block, the blocks of the other side that hold its keys."""
    allowance: Allowance
    """Of one task."""
    ranges: tuple[Range, ...] | None = None
    """What the keys lie between in each block of the other side, if rows look there for theirs."""
    fits: bool = False
    """Whether all of the other side fits in memory, for rows that need much of it."""

    def entries(self, block: int) -> Sequence[KeySums]:
        """All that a block can meet."""
        if self.needs is not None:
            return Needed(self, self.needs[block])
        # The other side as a whole, made once by each worker.
        most = self.allowance.entries
        return [cache.kept((self.query, 0, 0), lambda: self._entries(self.other.all, most=most))]

    def entries_for(self, batch: pa.RecordBatch) -> Sequence[KeySums]:
        """All that rows can meet whose keys have been seen."""
        assert self.ranges is not None
        key = self.question.keys[0][self.sampled]
        ends = pc.min_max(_whole_numbers(batch.column(batch.schema.get_field_index(key))))
        least, most = ends["min"].as_py(), ends["max"].as_py()
        if least is None:
            return []
        needed = [n for n, (low, high) in enumerate(self.ranges) if low <= most and least <= high]
        if len(needed) > max(_MOST_NEEDED, _MOST_SHARE * len(self.ranges)):
            if self.fits:
                return self._all_or(needed)
            if _is_first():
                word = self.sampled.name.lower()
                raise SideTooLarge(
                    f"Rows of the {word} side do not follow the key, so that some of them together "
                    "meet most of the other side, which does not fit in memory.",
                    remedy="Give more memory, or sort that side by its key.",
                )
        return self._some(needed)

    def _some(self, needed: Sequence[int]) -> Sequence[KeySums]:
        """These blocks of the other side; where this worker has all of it, that."""
        whole = self._blocks().get(_WHOLE)
        return Needed(self, needed) if whole is None else [whole]

    def _all_or(self, needed: Sequence[int]) -> Sequence[KeySums]:
        """All of the other side, made once by this worker; if it turns out too large for that
        when another design can no longer be chosen, these blocks of it."""
        kept = self._blocks()
        if _WHOLE not in kept:
            kept.clear()
            try:
                kept[_WHOLE] = self._entries(self.other.all, most=self.allowance.entries)
            except SideTooLarge:
                if _is_first():
                    raise
                return Needed(self, needed)
        return [kept[_WHOLE]]

    def _blocks(self) -> OrderedDict[int, KeySums]:
        """Those of the other side that this worker has."""
        kept: OrderedDict[int, KeySums] = cache.kept((self.query, 1, 0), OrderedDict)
        return kept

    def needed(self, block: int) -> KeySums:
        """A block of the other side. This worker may have it from another look; it keeps as many
        as its share of the memory allows."""
        kept = self._blocks()
        if block in kept:
            kept.move_to_end(block)
        else:
            kept[block] = self._block_entries(block)
            while len(kept) > 1 and self._too_many(kept):
                kept.popitem(last=False)
        return kept[block]

    def most_groups(self) -> int:
        """Bytes of totals: what is told of them to the driver takes three times as much."""
        return self.allowance.groups(self.allowance.entries // 2) // 3

    def _block_entries(self, block: int) -> KeySums:
        plain = self.other.plain
        assert plain is not None
        return self._entries(lambda nbytes: plain.rows_of(plain.splits[block], nbytes))

    def _too_many(self, kept: OrderedDict[int, KeySums]) -> bool:
        return sum(entries.nbytes for entries in kept.values()) > self.allowance.entries // 2

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


class Needed(Sequence[KeySums]):
    """Blocks of the other side, each made when it is looked at."""

    def __init__(self, work: Work, blocks: Sequence[int]) -> None:
        self._work = work
        self._blocks = blocks

    def __len__(self) -> int:
        return len(self._blocks)

    @overload
    def __getitem__(self, place: int) -> KeySums: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[KeySums]: ...

    def __getitem__(self, place: int | slice) -> KeySums | Sequence[KeySums]:
        if isinstance(place, slice):
            return Needed(self._work, self._blocks[place])
        return self._work.needed(self._blocks[place])


def read_blocks(
    blocks: Sequence[int], work: Work, plain: PlainBlocks, *, last: bool
) -> list[BlockTotals]:
    """The totals of some blocks; of the last look, all in one."""
    meeting = BlockAggregator(work.question, sampled=work.sampled)
    if last:
        units = list(plain.bundles(blocks))
    else:
        units = [(block, plain.splits[block]) for block in blocks]
    summing = Summing(work.question, most=work.most_groups(), apart=not last)
    for block, split in units:
        totals = meeting.totals(
            plain.rows_of(split, work.allowance.batch_bytes),
            work.entries(block),
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

    entries = work.entries_for if work.ranges is not None else work.entries(block)
    totals = meeting.totals(counted(), entries, block=block, rows=0, sketched=True)
    summing = Summing(work.question, most=work.most_groups(), apart=True)
    summing.add(replace(totals, rows=rows))
    return summing.totals()


def _is_first() -> bool:
    context = TaskContext.get()
    return context is not None and context.getLocalProperty(FIRST) is not None


def _whole_numbers(keys: pa.Array) -> pa.Array:
    """As footers are followed: days as days, instants in Spark's microseconds."""
    if pt.is_timestamp(keys.type):
        return keys.cast(pa.int64())
    return keys.cast(pa.int32()) if pt.is_date32(keys.type) else keys


def met(
    partition: int, work: RippleWork, rectangle: Rectangle, *, apart: bool
) -> list[BlockTotals]:
    """The totals of one partition of a rectangle, by pairs of blocks if they are kept apart."""
    found = work.meet(partition, rectangle, apart=apart)
    return [] if found is None else [found]
