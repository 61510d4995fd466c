"""The designs: how two tables can be read so that an aggregate over their join is soon known.

A plan has one of them (`planner` says which, and why). A design knows all that differs between
them: what is left to be read, how it is told in words, and whether one side
is sampled or both. What is made for a plan, an engine for example, is made by a `Maker`, and the
design says which of its methods is the right one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from watersmeet.aggregates.sampling.looks import Looks
from watersmeet.aggregates.sampling.plan import ReadPlan, Table
from watersmeet.words import size_text

Tables = tuple[Table, Table]
Made = TypeVar("Made")
Made_co = TypeVar("Made_co", covariant=True)


class Maker(Protocol[Made_co]):
    """Makes something for a plan, by the number of sides that are sampled in it."""

    def one_side(self, plan: ReadPlan) -> Made_co: ...

    def both_sides(self, plan: ReadPlan) -> Made_co: ...


class Design(ABC):
    name: ClassVar[str]
    in_parts: ClassVar[bool]
    """Whether both sides are read in parts, so that neither has to fit in memory."""

    def __str__(self) -> str:
        return self.name

    @abstractmethod
    def make(self, maker: Maker[Made], plan: ReadPlan) -> Made: ...

    @abstractmethod
    def unread(self, looks: Looks) -> NDArray[np.int64]:
        """The blocks of the sampled side whose part in the result is not fully known."""

    @abstractmethod
    def bytes_at(self, share: float, tables: Tables, plan: ReadPlan) -> float:
        """Of both sides, once a share of the sampled one has been read."""

    @abstractmethod
    def role_of_other(self) -> str:
        """What becomes of the side that is not sampled, in words."""

    @abstractmethod
    def looks_in_words(self, looks: Looks) -> str: ...

    @abstractmethod
    def memory_in_words(self, tables: Tables, plan: ReadPlan) -> str: ...


class _OneSide(Design):
    """Blocks of one side are drawn, each with all of the other side that it can meet."""

    in_parts = False

    def make(self, maker: Maker[Made], plan: ReadPlan) -> Made:
        return maker.one_side(plan)

    def unread(self, looks: Looks) -> NDArray[np.int64]:
        sampled = looks.plan.sampled
        return np.array(looks.plan.orders[sampled][looks.done(sampled) :], np.int64)

    def looks_in_words(self, looks: Looks) -> str:
        *before, blocks = looks.stops
        if not before:
            return f"one, after all {blocks:,} blocks: there are too few for an interval"
        return f"after {', '.join(f'{stop:,}' for stop in before)} and all {blocks:,} blocks"


@dataclass(frozen=True)
class Ranges(_OneSide):
    """Both tables are clustered on the key: a block is read with those that hold its keys."""

    name = "ranges"

    def bytes_at(self, share: float, tables: Tables, plan: ReadPlan) -> float:
        return share * tables[plan.sampled].nbytes + share * tables[plan.other].nbytes

    def role_of_other(self) -> str:
        return "those with the same keys"

    def memory_in_words(self, tables: Tables, plan: ReadPlan) -> str:
        largest = size_text(largest_need(tables, plan))
        return f"about {largest} for the other side's rows of one block"


@dataclass(frozen=True)
class FoundRanges(Ranges):
    """The same where nobody knows before which keys a block has: its rows are looked at first."""

    def memory_in_words(self, tables: Tables, plan: ReadPlan) -> str:
        other = tables[plan.other]
        largest = max(block.rows for block in other.blocks) * other.key_sum_bytes
        return f"about {size_text(largest)} for each block of the other side that holds its keys"


@dataclass(frozen=True)
class Complete(_OneSide):
    """The other side fits in memory, and is read first."""

    name = "complete"

    def bytes_at(self, share: float, tables: Tables, plan: ReadPlan) -> float:
        return share * tables[plan.sampled].nbytes + 1.0 * tables[plan.other].nbytes

    def role_of_other(self) -> str:
        return "read first"

    def memory_in_words(self, tables: Tables, plan: ReadPlan) -> str:
        other = tables[plan.other]
        held = f"about {size_text(other.held)}" if other.counted else "as much as it takes"
        return f"{held} for the {plan.other.name.lower()} side"


@dataclass(frozen=True)
class Ripple(Design):
    """Blocks of both sides are drawn, and every pair of them is joined."""

    name = "ripple"
    in_parts = True

    def make(self, maker: Maker[Made], plan: ReadPlan) -> Made:
        return maker.both_sides(plan)

    def unread(self, looks: Looks) -> NDArray[np.int64]:
        # A row that was read meets more and more rows of the other side.
        return np.arange(len(looks.plan.orders[looks.plan.sampled]))

    def bytes_at(self, share: float, tables: Tables, plan: ReadPlan) -> float:
        return share * tables[plan.sampled].nbytes + share * tables[plan.other].nbytes

    def role_of_other(self) -> str:
        return "read first"

    def looks_in_words(self, looks: Looks) -> str:
        return "the side that helps most is read twice as far each time, until both are complete"

    def memory_in_words(self, tables: Tables, plan: ReadPlan) -> str:
        return "rows are partitioned by key on disk, and one partition is held at a time"


def largest_need(tables: Tables, plan: ReadPlan) -> int:
    """Bytes of the other side that one block needs, if it is read by ranges; else none."""
    other = tables[plan.other]
    return max((_held(other, needed) for needed in plan.needs or ()), default=0)


def _held(table: Table, blocks: tuple[int, ...]) -> int:
    return sum(table.blocks[block].rows for block in blocks) * table.key_sum_bytes


RANGES, FOUND_RANGES, COMPLETE, RIPPLE = Ranges(), FoundRanges(), Complete(), Ripple()
DESIGNS: tuple[Design, ...] = (RANGES, COMPLETE, RIPPLE)
"""Those of tables of whose blocks something is known; `FOUND_RANGES` is for others."""
