"""What a join gives after each wave: new rows, and how far it has come."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from pyspark.sql import DataFrame


@dataclass(frozen=True)
class WaveProgress:
    """How far a join has come after a wave."""

    wave: int
    waves: int
    rows_read: tuple[int, ...]
    rows_total: tuple[int, ...]
    rows_out: int
    seconds: float
    names: tuple[str, ...] = ("left", "right")

    @property
    def fraction(self) -> float:
        """The fraction of all combinations of rows of which every row has been read."""
        shares = [
            read / total if total else 1.0
            for read, total in zip(self.rows_read, self.rows_total, strict=True)
        ]
        return prod(shares)

    def __str__(self) -> str:
        named = zip(self.rows_read, self.names, strict=True)
        read = " and ".join(f"{rows:,} {name}" for rows, name in named)
        return (
            f"wave {self.wave} of {self.waves}: {read} rows read, "
            f"{self.rows_out:,} results after {self.seconds:.1f} s"
        )


@dataclass(frozen=True)
class Wave:
    """New rows of the result. `rows` may be used any number of times, also after the join."""

    rows: DataFrame
    progress: WaveProgress

    def __repr__(self) -> str:
        return f"<Wave: {self.rows}; {self.progress}>"
