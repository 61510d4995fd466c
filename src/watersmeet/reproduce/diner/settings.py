"""What the paper's section 5 fixes, and what had to be chosen where it is silent."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

from watersmeet.errors import InvalidArgument
from watersmeet.reproduce.diner.data import Airport, Orders, Temperatures
from watersmeet.sim.charges import Disk, Processor
from watersmeet.sim.delays import Delay, Exponential, Fragmented
from watersmeet.sim.keys import Keys, NormalKeys, Periods, SortedIntervals, ZipfKeys

SMALLEST_SCALE = 0.01
DINER, RIVALS = "diner-plain", ("rpj", "hmj")
"""DINER is compared as it was published: its loop reads every pair of blocks."""
PMJ = "pmj-sorted"
"""The rival where values must be close: RPJ and HMJ hash them."""
HANDING_OVER = {"rpj-handing-over": "rpj", "hmj-handing-over": "hmj"}
"""RPJ and HMJ as they are not published: they leave a task for later when MaxNewArr rows wait, as
DINER does."""

ROWS = 100_000
MEMORY = 0.05
INTERVAL = 0.001
FRAGMENTS = 10
MAX_OUTER = 19
MAX_NEW = 1_000


@dataclass(frozen=True)
class Workload:
    """Two relations and the memory to join them: one point of a figure.

    `memory_rows` are the rows of both relations that fit memory. `width` is that of a band; 0 joins
    equal values. `pause` is the delay after each fragment as a share of the time it took; without
    one there are no stalls, and only the arriving phase works before the clean-up. `outer_blocks`
    is MaxOuterMem. `to_the_end`: the clean-up is simulated, too.
    """

    name: str
    keys: tuple[Keys, Keys]
    rows: tuple[int, int]
    memory_rows: int
    width: int = 0
    pause: float = 0.0
    outer_blocks: int = MAX_OUTER
    to_the_end: bool = False

    @property
    def delay(self) -> Delay:
        steady = Exponential(INTERVAL)
        return Fragmented(steady, FRAGMENTS, self.pause) if self.pause else steady

    @property
    def words(self) -> str:
        memory = f"{self.memory_rows:>6,} rows  {self.pause:4.0%}  {self.outer_blocks:>2} blocks"
        return f"{self.name:<13}  {memory}"


@dataclass(frozen=True)
class Parameters:
    """Everything that results depend on.

    `scale` shrinks the relations, memory and MaxNewArr. It shrinks blocks and their access times,
    too, so that there are as many blocks as at full size. The network's intervals and the patience
    stay as they are.
    """

    scale: float = 1.0
    seed: int = 2010
    partitions: int = 20
    patience: float = 0.025
    rpj_flush_share: float = 0.05
    fan_in: int = 10
    decay: float = 0.8
    # A block of 10 KB: 0.2 ms at 50 MB/s, and a request.
    full_disk: Disk = field(default_factory=lambda: Disk(0.008, 0.0003, page_rows=50))
    # 1.6 GHz: an arrival 24,000 cycles; a candidate 80; a result, of two rows of 200 bytes, 320.
    processor: Processor = field(default_factory=lambda: Processor(15e-6, 0.05e-6, 0.2e-6, 1e-6))

    def __post_init__(self) -> None:
        if not SMALLEST_SCALE <= self.scale <= 1.0:
            raise InvalidArgument(
                f"--scale {self.scale} is out of range.",
                remedy=f"Give a number from {SMALLEST_SCALE} to 1, where 1 is the paper's size.",
            )

    @property
    def max_new(self) -> int:
        return self.sized(MAX_NEW)

    @property
    def block_rows(self) -> int:
        return self.sized(self.full_disk.page_rows)

    @property
    def batch_rows(self) -> int:
        """Two blocks, about one of each relation: rows that are pushed together make room together,
        and a flush writes a block. At least 10."""
        return max(10, 2 * self.block_rows)

    @property
    def disk(self) -> Disk:
        full = self.full_disk
        return Disk(full.random * self.scale, full.sequential * self.scale, self.block_rows)

    def sized(self, rows: float) -> int:
        return max(1, round(rows * self.scale))


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

    # ---- section 5.1: steady arrivals -----------------------------------------------------------

    @cached_property
    def memories(self) -> dict[str, list[Point]]:
        """Figure 9 and Table 4, by data set; the first points of two are also figures 7 and 8."""
        return {
            name: [
                Point(percent, f"{name}, {percent}% memory", self._real(name, percent / 100))
                for percent in (5, 10, 15, 20)
            ]
            for name in REAL
        }

    @cached_property
    def skews(self) -> list[Point]:
        """Figure 10."""
        return [
            Point(skew, f"Zipf {skew}", self._synthetic(f"zipf-{skew}", _both(ZipfKeys(999, skew))))
            for skew in (1, 2, 3, 4, 5)
        ]

    @cached_property
    def apart(self) -> list[Point]:
        """Figure 11."""
        first = _normal(500, 50)
        return [
            Point(
                x, f"means {x} apart", self._synthetic(f"apart-{x}", (first, _normal(500 + x, 50)))
            )
            for x in (0, 50, 100, 150)
        ]

    @cached_property
    def wider(self) -> list[Point]:
        """Figure 12."""
        first = _normal(500, 50)
        return [
            Point(
                x,
                f"deviations {x} apart",
                self._synthetic(f"wider-{x}", (first, _normal(500, 50 + x))),
            )
            for x in (0, 50, 100, 150)
        ]

    @cached_property
    def bands(self) -> dict[str, Workload]:
        """Figure 13: closer than 5 cents, and closer than 5 degrees."""
        widths = {"stock A": 4, "stock B": 4, "weather": 49, "airports": 499}
        return {
            name: replace(self._real(name, MEMORY), name=f"{name}, band", width=width)
            for name, width in widths.items()
        }

    # ---- section 5.2: values that change with time ----------------------------------------------

    @cached_property
    def sorted_parts(self) -> list[Point]:
        """Figure 14."""
        return [
            Point(
                count,
                f"{count} sorted intervals",
                self._synthetic(f"sorted-{count}", _both(SortedIntervals(ZipfKeys(999, 1), count))),
            )
            for count in (5, 10, 20, 50)
        ]

    @cached_property
    def shifts(self) -> list[Point]:
        """Figure 15."""
        return [
            Point(
                shift,
                f"ten periods, shifted by {shift}",
                self._synthetic(f"shift-{shift}", _both(Periods(75, shift, 15, 10))),
            )
            for shift in (0, 5, 10, 20, 40)
        ]

    # ---- section 5.3: delays --------------------------------------------------------------------

    @cached_property
    def delays(self) -> list[Point]:
        """Figure 16 and Table 3."""
        zipf = self._synthetic("zipf-1", _both(ZipfKeys(999, 1)))
        return [_delayed(zipf, "Zipf 1", percent) for percent in (5, 10, 25, 50)]

    @cached_property
    def stock_delays(self) -> list[Point]:
        """Figure 17, with the smaller of the two stocks, as in the paper."""
        # Memory has 20 blocks here: half of them is for rows.
        stock = replace(self._real("stock A", MEMORY), outer_blocks=9)
        return [_delayed(stock, "stock A", percent) for percent in (10, 25, 50)]

    # ---- section 5.4: sensitivity ---------------------------------------------------------------

    @cached_property
    def smaller(self) -> list[Point]:
        """Figure 18: the second relation is smaller, memory stays."""
        whole = self._synthetic("zipf-1", _both(ZipfKeys(999, 1)))
        return [
            Point(
                rows / 1000,
                f"{rows:,} rows in the second relation",
                replace(
                    whole,
                    name=f"smaller-{rows}",
                    rows=(whole.rows[0], self.parameters.sized(rows)),
                ),
            )
            for rows in (10_000, 25_000, 50_000, 75_000)
        ]

    @cached_property
    def outer_memory(self) -> list[Point]:
        """Figure 19: MaxOuterMem, at a delay of 25%."""
        base = self.delays[2].workload
        return [
            Point(blocks, f"{blocks} outer blocks", replace(base, outer_blocks=blocks))
            for blocks in (9, 19, 29, 39, 49, 59)
        ]

    # ---- all ------------------------------------------------------------------------------------

    @property
    def sweeps(self) -> dict[str, list[Point]]:
        """The figures that compare DINER's online results with RPJ's and HMJ's, point by point."""
        return {
            "9": [point for points in self.memories.values() for point in points],
            "10": self.skews,
            "11": self.apart,
            "12": self.wider,
            "14": self.sorted_parts,
            "15": self.shifts,
            "16": self.delays,
            "17": self.stock_delays,
            "18": self.smaller,
        }

    def plan(self) -> list[tuple[Workload, str]]:
        """What must be simulated, each once however many figures show it."""
        planned = [
            (point.workload, algorithm)
            for points in self.sweeps.values()
            for point in points
            for algorithm in (DINER, *RIVALS)
        ]
        planned += [(self.over_time[name], "xjoin") for name in self.over_time]
        planned += [(each, name) for each in self.bands.values() for name in (DINER, PMJ)]
        planned += [(point.workload, name) for point in self.delays for name in HANDING_OVER]
        planned += [(point.workload, DINER) for point in self.outer_memory]
        return list(dict.fromkeys(planned))

    @property
    def over_time(self) -> dict[str, Workload]:
        """Figures 7 and 8."""
        return {name: self.memories[name][0].workload for name in ("stock A", "weather")}

    def _synthetic(self, name: str, keys: tuple[Keys, Keys]) -> Workload:
        rows = self.parameters.sized(ROWS)
        return Workload(name, keys, (rows, rows), self.parameters.sized(2 * MEMORY * ROWS))

    def _real(self, name: str, memory: float) -> Workload:
        keys, full = REAL[name]
        rows = self.parameters.sized(full)
        # Small enough to be joined to the end, so that all algorithms can be checked.
        small = memory == MEMORY
        return Workload(
            name, keys, (rows, rows), self.parameters.sized(2 * memory * full), to_the_end=small
        )


def _both(keys: Keys) -> tuple[Keys, Keys]:
    return keys, keys


def _normal(mean: float, deviation: float) -> NormalKeys:
    return NormalKeys((mean,), deviation, lowest=-10_000, highest=10_000)


def _delayed(workload: Workload, words: str, percent: int) -> Point:
    delayed = replace(workload, pause=percent / 100, to_the_end=False)
    return Point(percent, f"{words}, delays of {percent}%", delayed)


def _orders(day: int, price: float, *, range: float, depth: float) -> tuple[Orders, Orders]:
    buys = Orders(False, day, price, range, depth)
    return buys, replace(buys, sells=True)


REAL: dict[str, tuple[tuple[Keys, Keys], int]] = {
    # As many rows as the paper's CSCO, IPIX and weather stations. A large company's price hardly
    # moves in a day, a small one's does.
    "stock A": (_orders(1, 1800, range=25, depth=3), 10_355),
    "stock B": (_orders(2, 700, range=60, depth=6), 22_784),
    "weather": ((Temperatures(10.0, 3), Temperatures(12.0, 3)), 45_000),
    # Real ones, and all there are.
    "airports": ((Airport("JFK"), Airport("LGA")), 8_706),
}
