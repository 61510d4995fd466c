"""What the paper's section 5.5 fixes, and what had to be chosen where it is silent.

Tuples, blocks, arrivals, the disk and the processor are those of the paper's other experiments:
`Parameters` is DINER's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from watersmeet.reproduce.diner.settings import FRAGMENTS, INTERVAL, Parameters
from watersmeet.sim.delays import Delay, Exponential, Fragmented

MINER, HERE, MJOIN = "miner-plain", "miner", "mjoin"
"""MINER is compared as it was published. Beside it is the default of this package, which remembers
what regions have brought when it flushes, and skips blocks whose values cannot meet."""

ROWS, KEYS = 100_000, 10_000
"""Rows of R2 and R3, and of R1 and R4: 220,000 rows of 200 bytes are the 44 MB of which 8.8 MB are
20%, and R1 and R4 have every value of [0, 9999] once."""
TUPLE_BYTES = 200
SKEW = 1.0
INPUTS = (2, 3, 4)
MEMORIES = (5, 10, 15, 20)
DELAYS = (5, 10, 25)


@dataclass(frozen=True)
class Workload:
    """A join of some of R1 to R4 with memory for `memory` of their rows: one point of a figure.

    Two inputs are R2 and R3, three have R1 too, four all. `star`: all are joined on one attribute,
    otherwise on a chain of attributes. `rows` are those of R2 and of R3, `keys` those of R1 and of
    R4. `pause` is the delay after each fragment as a share of the time it took; without one there
    are no stalls, and only the arriving phase works before the clean-up. `to_the_end`: the clean-up
    is simulated, too.
    """

    inputs: int
    memory: float
    rows: int
    keys: int
    star: bool = False
    pause: float = 0.0
    to_the_end: bool = False

    @property
    def relations(self) -> tuple[int, ...]:
        """Which of R1 to R4 take part."""
        return {2: (2, 3), 3: (1, 2, 3), 4: (1, 2, 3, 4)}[self.inputs]

    @property
    def input_rows(self) -> int:
        return 2 * self.rows + (self.inputs - 2) * self.keys

    @property
    def memory_rows(self) -> int:
        return max(1, round(self.memory * self.input_rows))

    @property
    def delay(self) -> Delay:
        steady = Exponential(INTERVAL)
        return Fragmented(steady, FRAGMENTS, self.pause) if self.pause else steady

    @property
    def shape(self) -> str:
        return "star" if self.star else "chain"

    @property
    def words(self) -> str:
        memory = f"{self.memory_rows:>6,} rows  {self.pause:4.0%}"
        return f"{self.shape:<5} of {self.inputs}  {memory}"


@dataclass(frozen=True)
class Point:
    """One workload of a sweep, and where it is on the figure's axis."""

    x: float
    words: str
    workload: Workload


@dataclass(frozen=True)
class Experiments:
    """The workloads of every figure, in the size that the parameters say."""

    parameters: Parameters

    @cached_property
    def chains(self) -> dict[int, list[Point]]:
        """Figure 20, by number of inputs."""
        return {inputs: self._memories(inputs, star=False) for inputs in INPUTS}

    @cached_property
    def stars(self) -> dict[int, list[Point]]:
        """Figure 22, by number of inputs. Two inputs have one attribute in any case."""
        return {inputs: self._memories(inputs, star=inputs > 2) for inputs in INPUTS}

    @cached_property
    def delays(self) -> list[Point]:
        """Table 21: four inputs, 5% memory. With two, MINER is DINER, and Table 3 has that."""
        steady = self.chains[INPUTS[-1]][0].workload
        return [
            Point(percent, f"delays of {percent}%", replace(steady, pause=percent / 100))
            for percent in DELAYS
        ]

    @cached_property
    def checked(self) -> list[Workload]:
        """A chain and a star with a fiftieth of the rows, which are joined to the end: the loop as
        it was published would take days for all of them."""
        sized = self.parameters.sized
        small = Workload(4, 0.2, sized(ROWS / 50), sized(KEYS / 50), to_the_end=True)
        return [small, replace(small, star=True)]

    @property
    def largest(self) -> Workload:
        """Four inputs, 20% memory: the indexes are measured here."""
        return self.chains[INPUTS[-1]][-1].workload

    def plan(self) -> list[tuple[Workload, str]]:
        """What must be simulated, each once however many figures show it."""
        planned = [
            (point.workload, MINER)
            for points in (*self.chains.values(), *self.stars.values(), self.delays)
            for point in points
        ]
        planned += [(point.workload, MJOIN) for points in self.stars.values() for point in points]
        four = self.chains[INPUTS[-1]]
        planned += [(point.workload, HERE) for point in (*four, *self.delays)]
        planned += [
            (workload, name)
            for workload in self.checked
            for name in (MINER, HERE, MJOIN)
            if workload.star or name != MJOIN
        ]
        return list(dict.fromkeys(planned))

    def _memories(self, inputs: int, *, star: bool) -> list[Point]:
        sized = self.parameters.sized
        return [
            Point(
                percent,
                f"{inputs} inputs, {percent}% memory",
                Workload(inputs, percent / 100, sized(ROWS), sized(KEYS), star=star),
            )
            for percent in MEMORIES
        ]
