"""What is known of two tables before they are read, and what is read of them in which order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from watersmeet.aggregates.sampling.draw import Division
from watersmeet.aggregates.sampling.facts import ColumnFacts
from watersmeet.estimators.order import clustering
from watersmeet.expressions.bounds import BlockBounds
from watersmeet.model import Side
from watersmeet.parquet.footers import Range

if TYPE_CHECKING:
    from watersmeet.aggregates.sampling.designs import Design


@dataclass(frozen=True)
class Block:
    """A part of a table that is read as a whole, the unit of sampling.

    `keys` is what the first join key lies between, if the file says so.
    """

    rows: int
    nbytes: int
    keys: Range | None = None


@dataclass(frozen=True)
class Table:
    """What is known of a table before a row of it is read.

    `key_sum_bytes` is what a row takes in memory while the other side's rows look for it. Where
    rows are not `counted`, those of the blocks are a guess. `facts` are what the files say about
    each column, block by block.
    """

    blocks: tuple[Block, ...]
    key_sum_bytes: int
    counted: bool = True
    facts: Mapping[str, ColumnFacts] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(block.rows for block in self.blocks)

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in self.blocks)

    @property
    def extremes(self) -> dict[str, tuple[float, float]]:
        """The least and the most of columns of numbers, where all blocks say so."""
        found = {name: facts.extremes for name, facts in self.facts.items()}
        return {name: ends for name, ends in found.items() if ends is not None}

    @property
    def clustering(self) -> float | None:
        """How much of all its keys a block spans on average: 1 where they are in random order."""
        keys = [block.keys for block in self.blocks if block.keys is not None]
        if not keys or len(keys) < len(self.blocks):
            return None
        least, most = np.array(keys).T
        return clustering(least, most)

    @property
    def held(self) -> int:
        """Bytes in memory when all of it is there."""
        return self.rows * self.key_sum_bytes


@dataclass(frozen=True)
class ReadPlan:
    """What is read. `orders` are the blocks of each side in the order in which they are read; the
    side that is not sampled has none, and `needs` says which of its blocks a sampled one meets."""

    design: Design
    sampled: Side
    orders: tuple[tuple[int, ...], tuple[int, ...]]
    needs: tuple[tuple[int, ...], ...] | None
    reason: str
    objection: str = ""
    """Why what was read cannot stand for the whole, if so."""
    division: Division | None = None
    """Which blocks of the sampled side are read in any case, and which are alike; None where
    nothing tells them apart."""
    values: tuple[BlockBounds | None, ...] = ()
    """What each expression's values lie between, in every block of the sampled side."""

    @property
    def other(self) -> Side:
        return self.sampled.other

    @property
    def certain(self) -> int:
        """So many blocks at the begin of the order are read in any case."""
        return 0 if self.division is None else self.division.certain

    @property
    def at_once(self) -> int:
        """Blocks of the sampled side that come before the first estimate."""
        return 0 if self.division is None else self.division.at_once

    @property
    def strata(self) -> tuple[int, ...]:
        """Of each block of the sampled side, by number: -1 where it is read in any case; none
        where all are alike."""
        return () if self.division is None else self.division.strata

    def drawn(self, seed: int) -> ReadPlan:
        """The same with blocks in another random order."""
        if self.division is None:
            return self
        order = self.division.order(seed + self.sampled)
        return replace(self, orders=(order, ()) if self.sampled is Side.LEFT else ((), order))
