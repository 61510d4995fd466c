"""What the paper's section 6 fixes, and what had to be chosen where it is silent."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from watersmeet.errors import InvalidArgument
from watersmeet.sim.charges import Disk, Processor
from watersmeet.sim.delays import Delay, Fixed, ZipfDelay
from watersmeet.sim.keys import Weights, harmony, reverse

SMALLEST_SCALE = 0.001


class Network(StrEnum):
    RELIABLE = "reliable"
    UNRELIABLE = "unreliable"

    @property
    def delay(self) -> Delay:
        return Fixed(0.001) if self is Network.RELIABLE else ZipfDelay(0.001, 0.03)


class Pattern(StrEnum):
    HARMONY = "harmony"
    REVERSE = "reverse"

    @property
    def weights(self) -> tuple[Weights, Weights]:
        return harmony() if self is Pattern.HARMONY else reverse()


@dataclass(frozen=True)
class Setting:
    """One panel of the paper's figures."""

    network: Network
    pattern: Pattern
    speed_ratio: int

    @property
    def name(self) -> str:
        """
        >>> Setting(Network.RELIABLE, Pattern.HARMONY, 5).name
        'harmony-5:1'
        """
        return f"{self.pattern}-{self.speed_ratio}:1"

    @property
    def caption(self) -> str:
        speeds = "same speed" if self.speed_ratio == 1 else f"R1 {self.speed_ratio}x faster"
        return f"{self.pattern.capitalize()}, {speeds}"


PANELS = ((Pattern.HARMONY, 1), (Pattern.REVERSE, 1), (Pattern.HARMONY, 5), (Pattern.REVERSE, 5))
"""Panels a, b, c, d of every figure."""

RIVALS = ("hmj", "xjoin")
VARIANTS = ("rpj-dd", "rpj-md")


def settings(network: Network) -> list[Setting]:
    return [Setting(network, pattern, ratio) for pattern, ratio in PANELS]


@dataclass(frozen=True)
class Parameters:
    """Everything that results depend on.

    `scale` shrinks the relations and memory. It shrinks pages and their access times, too, so that
    a run has as many pages as at full size, a task takes the same fraction of the total time, and
    the curves keep their shape. Only the network's delays stay as they are.
    """

    scale: float = 1.0
    seed: int = 2005
    partitions: int = 20
    keys_per_partition: int = 500
    patience: float = 0.025
    flush_share: float = 0.05
    decay: float = 0.8
    fan_in: int = 10
    whole_tasks: bool = True
    full_disk: Disk = field(default_factory=Disk)
    processor: Processor = field(default_factory=Processor)

    def __post_init__(self) -> None:
        if not SMALLEST_SCALE <= self.scale <= 1.0:
            raise InvalidArgument(
                f"--scale {self.scale} is out of range.",
                remedy=f"Give a number from {SMALLEST_SCALE} to 1, where 1 is the paper's size.",
            )

    @property
    def rows(self) -> int:
        return round(2_000_000 * self.scale)

    @property
    def memory_rows(self) -> int:
        return round(100_000 * self.scale)

    @property
    def batch_rows(self) -> int:
        """Half a percent of memory: a flush is recorded at most one batch late. At least 25."""
        return max(25, self.memory_rows // 200)

    @property
    def disk(self) -> Disk:
        full = self.full_disk
        return Disk(
            random=full.random * self.scale,
            sequential=full.sequential * self.scale,
            page_rows=max(1, round(full.page_rows * self.scale)),
        )
