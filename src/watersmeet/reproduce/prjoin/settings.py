"""What the paper's section 6 fixes, and what had to be chosen at a hundredth of its size."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from watersmeet.errors import InvalidArgument
from watersmeet.reproduce.prjoin.costs import Setting as CostSetting
from watersmeet.reproduce.prjoin.devices import DISK_SYNCHRONOUS

SMALLEST_SCALE = 0.002

INPUT_TO_MEMORY = 40
FUDGE = 1.29
"""How many times its own size a row takes in the paper's hash tables (section 6.1)."""

INPUT_MB = 10_000.0
"""One relation of the paper, in megabytes."""

ROWS = 1_000_000
"""One relation here, at scale 1; the paper's has 100 million records."""

DISK_PARTITIONS = 200
SSD_PARTITIONS = 1000


class Relations(StrEnum):
    EVEN = "even"
    """Every record of A matches one record of B."""
    SKEWED = "skewed"
    """Partitions of Zipf sizes, keys with duplicates: four times as many results."""
    DOUBLE = "double"
    """B twice as large as A."""


@dataclass(frozen=True)
class Case:
    """One algorithm over one pair of relations."""

    algorithm: str
    relations: Relations = Relations.EVEN
    partitions: int = DISK_PARTITIONS
    gamma: float = 1.0
    stops: bool = True
    remaps: bool = True
    estimates: bool = False

    @property
    def name(self) -> str:
        """
        >>> Case("pr-join", partitions=1000, stops=False).name
        'pr-join even n=1000 gamma=1 no stop'
        """
        words = [self.algorithm, self.relations.value]
        if self.algorithm not in ("ripple", "sms", "dbo"):
            words.append(f"n={self.partitions}")
        if self.algorithm == "pr-join":
            words.append(f"gamma={self.gamma:g}")
            words += [] if self.stops else ["no stop"]
            words += [] if self.remaps else ["no remapping"]
        words += ["estimating"] if self.estimates else []
        return " ".join(words)


GRACE, RIPPLE, PR_DISK = Case("grace"), Case("ripple"), Case("pr-join")
HASH_RIPPLE, SMS, DBO = Case("hash-ripple"), Case("sms"), Case("dbo")
PR_DISK_GAMMAS = {
    0.5: Case("pr-join", gamma=0.5),
    1.0: PR_DISK,
    2.0: Case("pr-join", gamma=2.0),
}
PR_64K_STOP = Case("pr-join", partitions=SSD_PARTITIONS)
PR_SSD = Case("pr-join", partitions=SSD_PARTITIONS, stops=False)
PR_SSD_GAMMAS = {
    0.5: Case("pr-join", partitions=SSD_PARTITIONS, stops=False, gamma=0.5),
    1.0: PR_SSD,
    2.0: Case("pr-join", partitions=SSD_PARTITIONS, stops=False, gamma=2.0),
}
GRACE_SKEW = Case("grace", Relations.SKEWED, partitions=SSD_PARTITIONS)
PR_SKEW = Case("pr-join", Relations.SKEWED, partitions=SSD_PARTITIONS, stops=False)
PR_SKEW_PLAIN = Case(
    "pr-join", Relations.SKEWED, partitions=SSD_PARTITIONS, stops=False, remaps=False
)
GRACE_DOUBLE, RIPPLE_DOUBLE = Case("grace", Relations.DOUBLE), Case("ripple", Relations.DOUBLE)
PR_DOUBLE = Case("pr-join", Relations.DOUBLE, partitions=SSD_PARTITIONS, stops=False)
# Fewer partitions than in figure 10 (d), because each estimate adds up all of them.
PR_ESTIMATE = Case("pr-join", stops=False, remaps=False, estimates=True)
RIPPLE_ESTIMATE = Case("ripple", estimates=True)

CASES = (
    # The slow ones first, so that two processes end at about the same time.
    PR_ESTIMATE,
    RIPPLE_DOUBLE,
    PR_DOUBLE,
    PR_SSD_GAMMAS[0.5],
    PR_SSD,
    PR_SSD_GAMMAS[2.0],
    PR_64K_STOP,
    PR_SKEW,
    PR_SKEW_PLAIN,
    RIPPLE_ESTIMATE,
    RIPPLE,
    *PR_DISK_GAMMAS.values(),
    GRACE_SKEW,
    GRACE_DOUBLE,
    GRACE,
    HASH_RIPPLE,
    SMS,
    DBO,
)


@dataclass(frozen=True)
class Parameters:
    """Everything that results depend on. `scale` shrinks the relations and memory alike."""

    scale: float = 1.0
    seed: int = 2010

    def __post_init__(self) -> None:
        if not SMALLEST_SCALE <= self.scale <= 100.0:
            raise InvalidArgument(
                f"--scale {self.scale} is out of range.",
                remedy=f"Give a number from {SMALLEST_SCALE} to 100, where 1 is a hundredth of "
                "the paper's rows and 100 all of them.",
            )

    @property
    def rows(self) -> int:
        """Rows of A, and of B where it is not larger."""
        return round(ROWS * self.scale)

    @property
    def memory_rows(self) -> int:
        """As many as fit a fortieth of both relations' bytes in the paper's hash tables."""
        return max(round(2 * self.rows / INPUT_TO_MEMORY / FUDGE), 20)

    @property
    def batch_rows(self) -> int:
        """A hundredth of memory: a spill is recorded at most one batch late."""
        return max(self.memory_rows // 100, 5)

    def partitions(self, case: Case) -> int:
        """Fewer at small scales, so that a partition has some rows to spill.

        But one side's rows of a partition must fit in memory.
        """
        return max(min(case.partitions, self.memory_rows // 8), INPUT_TO_MEMORY)

    def extents(self, case: Case) -> float:
        """How many of the paper's extents a run stands for: more if there are fewer partitions."""
        return 1.0 if case.algorithm == "ripple" else case.partitions / self.partitions(case)

    @property
    def megabytes_per_row(self) -> float:
        """A row counts as many megabytes as make a relation as large as the paper's, so that our
        curves can be compared with its own."""
        return INPUT_MB / self.rows

    @property
    def model(self) -> CostSetting:
        """The cost models' input for figure 8, in pages of 1 MB."""
        device = DISK_SYNCHRONOUS
        return CostSetting(
            INPUT_MB,
            INPUT_MB,
            2 * INPUT_MB / INPUT_TO_MEMORY,
            fudge=FUDGE,
            read_input=device.input,
            write=device.write,
            read=device.read + device.seek,
        )
