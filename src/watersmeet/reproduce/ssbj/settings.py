"""What the paper's section 4 fixes, and what had to be chosen where it is silent or too large."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

SSBJ, MESHJOIN, HERE = "ssbj", "meshjoin", "skipping"
"""SSBJ and MESHJOIN as published. Beside them is the default of this package, which reads only
blocks that somebody waits for, and lets a row go as soon as the scan has passed its key."""

MASTER_BYTES, STREAM_BYTES = 120, 20
"""Of a row, as in the paper's Table 2."""

SIZES = (4_000_000, 12_000_000, 20_000_000)
"""Rows of R, a fifth of the paper's 20 to 100 million."""
PERCENTS = (1, 2, 5, 10)
SKEWS = (0.0, 0.25, 0.5, 0.75, 1.0)
FACTORS = (0.5, 1.0, 2.0)
RATES = (33_000, 67_000, 100_000)
"""Rows a second at which MESHJOIN needs about 2% to 6% of R."""
PAPER_RATE = 51_242
PORTIONS = (1 / 48, 1 / 12, 1 / 3, 2 / 3)
"""Disk buffers, as parts of memory."""
TABLE_PERCENTS = (2, 10)
"""With 1% of the smaller tables the places of their blocks would be most of memory."""
FLIGHT_PERCENTS = (20, 40)

BANDWIDTH = 100e6
SEEK = 0.01
"""A disk of the paper's time: bytes a second in sequence, and seconds to go elsewhere."""

ZIPF, CUSTOMERS, WEATHER, HISTORY = "zipf", "customers", "weather", "history"

SMALLEST = 20_000
LEAST_MEMORY = 2**18
"""In small runs. Less would be the places of blocks and little else."""


@dataclass(frozen=True)
class Parameters:
    scale: float = 1.0
    seed: int = 2018
    """Any number would do."""

    def sized(self, rows: float) -> int:
        return max(SMALLEST, round(self.scale * rows))


@dataclass(frozen=True)
class Data:
    """A master table and a stream. For Zipf values: master rows, and the exponent of the stream."""

    kind: str
    rows: int = 0
    skew: float = 0.0


@dataclass(frozen=True)
class Workload:
    """One point of a figure. `memory` is the limit as a part of the master table's bytes. With a
    `rate`, so many rows arrive in a second, and memory is what that takes. `portion` is the disk
    buffer as a part of memory, the default's if None."""

    data: Data
    memory: float
    rate: float | None = None
    factor: float = 1.0
    portion: float | None = None


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
    def sizes(self) -> list[int]:
        return [self.parameters.sized(rows) for rows in SIZES]

    @property
    def rows(self) -> int:
        """Rows of R where that is not what varies."""
        return self.sizes[0]

    def _zipf(self, skew: float = 1.0, rows: int | None = None) -> Data:
        return Data(ZIPF, rows or self.rows, skew)

    @cached_property
    def rates(self) -> list[Point]:
        """Figure 4a."""
        return [
            Point(rate, f"{rate:,} rows a second", Workload(self._zipf(), 0.5, rate=rate))
            for rate in RATES
        ]

    @cached_property
    def sizes_at_rate(self) -> list[Point]:
        """Figure 4b."""
        return [
            Point(
                rows / 1e6,
                f"{rows:,} rows of R",
                Workload(self._zipf(rows=rows), 0.5, rate=PAPER_RATE),
            )
            for rows in self.sizes
        ]

    @cached_property
    def memories(self) -> list[Point]:
        """Figures 5a and 5f, 6d."""
        return self._memories(self._zipf(), PERCENTS)

    @cached_property
    def sizes_in_memory(self) -> list[Point]:
        """Figure 5b: memory is a tenth of the smallest table."""
        return [
            Point(
                rows / 1e6,
                f"{rows:,} rows of R",
                Workload(self._zipf(rows=rows), 0.1 * self.rows / rows),
            )
            for rows in self.sizes
        ]

    @cached_property
    def skews(self) -> list[Point]:
        """Figure 5c."""
        return [Point(skew, f"skew {skew:g}", Workload(self._zipf(skew), 0.1)) for skew in SKEWS]

    @cached_property
    def steady(self) -> list[Point]:
        """Figure 6c: skew 0."""
        return self._memories(self._zipf(0.0), PERCENTS)

    @cached_property
    def customers(self) -> list[Point]:
        """Figure 5d."""
        return self._memories(Data(CUSTOMERS), TABLE_PERCENTS)

    @cached_property
    def real(self) -> dict[str, list[Point]]:
        """Figure 5e."""
        return {kind: self._memories(Data(kind), FLIGHT_PERCENTS) for kind in (WEATHER, HISTORY)}

    @cached_property
    def factors(self) -> list[Point]:
        """Figure 6a."""
        base = Workload(self._zipf(), 0.1)
        return [
            Point(factor, f"switching factor {factor:g}", replace(base, factor=factor))
            for factor in FACTORS
        ]

    @cached_property
    def portions(self) -> list[Point]:
        """Figure 6b: 2% of memory."""
        base = Workload(self._zipf(), 0.02)
        return [
            Point(
                portion * base.memory * self.rows * MASTER_BYTES / 1e6,
                f"disk buffer 1/{1 / portion:.3g} of memory",
                replace(base, portion=portion),
            )
            for portion in PORTIONS
        ]

    @cached_property
    def whole(self) -> Workload:
        """Theorem 3: more memory than a hash join of a small master table takes."""
        return Workload(self._zipf(0.0, rows=max(self.rows // 40, SMALLEST)), 4.0)

    def plan(self) -> list[tuple[Workload, str]]:
        """What must be run, each once however many figures show it, table by table."""
        both, three = (SSBJ, MESHJOIN), (SSBJ, MESHJOIN, HERE)
        sweeps = [
            (self.memories, three), (self.skews, three), (self.steady, both), (self.rates, both),
            (self.factors, (SSBJ,)), (self.portions, (SSBJ,)), (self.sizes_at_rate, both),
            (self.sizes_in_memory, three), (self.customers, three),
            *((points, three) for points in self.real.values()),
        ]  # fmt: skip
        planned = [
            (point.workload, name) for points, names in sweeps for point in points for name in names
        ]
        planned += [(self.whole, name) for name in (SSBJ, HERE)]
        once = dict.fromkeys(planned)
        tables = list(dict.fromkeys(_table(workload) for workload, _ in once))
        return sorted(once, key=lambda each: tables.index(_table(each[0])))

    def _memories(self, data: Data, percents: tuple[int, ...]) -> list[Point]:
        return [
            Point(percent, f"{percent}% of R", Workload(data, percent / 100))
            for percent in percents
        ]


def _table(workload: Workload) -> tuple[str, int]:
    return workload.data.kind, workload.data.rows
