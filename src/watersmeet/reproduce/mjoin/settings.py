"""What MJoin's section 6 fixes, and what had to be chosen where it is silent."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from watersmeet.reproduce.mjoin.streams import ACCESSES, DISPLACED

PRIORITY, RANDOM, EQUAL = "priority", "random", "random-rows"
"""Priority with quotas and by value, as MJoin does it for one-to-many joins; any input for a turn
of its quota; any input for as many rows of one as of the other. The last two keep the order."""

ORDERED, RANDOM_ORDER, ANY_ORDER = "ordered arrival", "random arrival", "news in any order"
DISPLACEMENTS: dict[str, int | None] = {ORDERED: 0, RANDOM_ORDER: DISPLACED, ANY_ORDER: None}


@dataclass(frozen=True)
class Grain:
    """How many rows go together: `quotas` are those of a turn of news and of accesses, which are
    in proportion to the streams; the join gets all of a turn together, or each row by itself."""

    words: str
    quotas: tuple[int, int]
    accesses: int
    """In the whole stream."""
    one_at_a_time: bool = False


TUPLES = Grain("row by row", (10, 10 * ACCESSES), 8_000, one_at_a_time=True)
SMALL = Grain("turns of 10 and 100 rows", (10, 10 * ACCESSES), 50_000)
LARGE = Grain("turns of 1,000 and 10,000 rows", (1_000, 1_000 * ACCESSES), 1_000_000)

IMMEDIATE, BATCH = 1, 100
"""Punctuations after which the state is purged."""
PLENTY = 2**31
GRID = 40
"""Points of a curve."""


@dataclass(frozen=True)
class Parameters:
    scale: float = 1.0
    seed: int = 2003
    """The year of the paper: any number would do."""
    runs: int = 10
    """Averages are over so many, each with streams of its own, as in the paper."""

    def sized(self, accesses: int) -> int:
        return max(2_000, round(self.scale * accesses))


@dataclass(frozen=True)
class Workload:
    """Streams, and how they are taken in."""

    arrival: str
    accesses: int
    grain: Grain

    @property
    def words(self) -> str:
        return f"{self.arrival}, {self.grain.words}"


@dataclass(frozen=True)
class Variant:
    """A join: MJoin, or XJoin if `promises` are not used."""

    promises: bool
    schedule: str = PRIORITY
    purge_every: int = BATCH
    memory: int = PLENTY

    @property
    def name(self) -> str:
        return "MJoin" if self.promises else "XJoin"


MJOIN, XJOIN = Variant(True), Variant(False)


@dataclass(frozen=True)
class Experiments:
    """The workloads and joins of every figure, in the size that the parameters say."""

    parameters: Parameters

    def _workload(self, arrival: str, grain: Grain) -> Workload:
        return Workload(arrival, self.parameters.sized(grain.accesses), grain)

    @cached_property
    def scheduled(self) -> list[Workload]:
        """Figure 8."""
        return [
            self._workload(arrival, grain)
            for grain in (TUPLES, LARGE)
            for arrival in (ORDERED, RANDOM_ORDER)
        ]

    def schedules(self, workload: Workload) -> dict[str, Variant]:
        """Purging is immediate, as in the paper; after a turn, if its rows come together."""
        every = IMMEDIATE if workload.grain.one_at_a_time else BATCH
        names = (PRIORITY, RANDOM) if workload.grain.one_at_a_time else (PRIORITY, RANDOM, EQUAL)
        return {name: Variant(True, schedule=name, purge_every=every) for name in names}

    @cached_property
    def timed(self) -> list[Workload]:
        """Figure 9, with memory for all rows."""
        return [
            self._workload(arrival, grain)
            for grain in (LARGE, SMALL, TUPLES)
            for arrival in (ORDERED, RANDOM_ORDER)
        ]

    @property
    def overflowing(self) -> tuple[Workload, int]:
        """Figure 9, with memory for some tenth of the rows that XJoin keeps, 73 bytes each."""
        workload = self._workload(RANDOM_ORDER, LARGE)
        return workload, max(2**18, 8 * workload.accesses)

    @cached_property
    def weighed(self) -> list[Workload]:
        """Figure 10: what is kept."""
        return [self._workload(arrival, SMALL) for arrival in (RANDOM_ORDER, ANY_ORDER)]

    @cached_property
    def purged(self) -> list[Workload]:
        """Figure 11."""
        return [self._workload(RANDOM_ORDER, grain) for grain in (SMALL, TUPLES)]

    @property
    def purges(self) -> dict[int, Variant]:
        return {every: Variant(True, purge_every=every) for every in (IMMEDIATE, BATCH)}

    def plan(self) -> list[tuple[Workload, Variant]]:
        """Everything that is run, each once."""
        planned = [(w, v) for w in self.scheduled for v in self.schedules(w).values()]
        planned += [(w, v) for w in self.timed for v in (MJOIN, XJOIN)]
        planned += [(w, v) for w in self.weighed for v in (MJOIN, XJOIN)]
        planned += [(w, v) for w in self.purged for v in self.purges.values()]
        workload, memory = self.overflowing
        planned += [(workload, Variant(promises, memory=memory)) for promises in (True, False)]
        return list(dict.fromkeys(planned))
