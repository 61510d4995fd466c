"""Counters of a join on Spark, wave by wave."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from watersmeet.spark.jobs import Record


@dataclass(frozen=True)
class WaveMetrics:
    """One wave, over all its instances.

    results: rows by the stage that found them (mm, md, dd, cleanup, unmatched). spilled: rows and
    bytes that operators wrote to disk because memory was full. kept: instances whose worker had
    kept their operator; the others were built again. flushes: the latest flushes, with reasons.
    """

    rows_read: tuple[int, ...]
    rows_out: int
    results: dict[str, int]
    rows_spilled: int
    bytes_spilled: int
    bytes_stored: int
    memory_peak: int
    kept: int
    instances: int
    scan_seconds: float
    join_seconds: float
    flushes: list[str]

    @classmethod
    def of(
        cls,
        records: Sequence[Record],
        *,
        rows_read: tuple[int, ...],
        bytes_stored: int,
        scan_seconds: float,
        join_seconds: float,
    ) -> WaveMetrics:
        results: Counter[str] = Counter()
        for record in records:
            results.update(record["results"])
        return cls(
            rows_read=rows_read,
            rows_out=sum(record["rows_out"] for record in records),
            results=dict(results),
            rows_spilled=sum(record["rows_spilled"] for record in records),
            bytes_spilled=sum(record["bytes_spilled"] for record in records),
            bytes_stored=bytes_stored,
            memory_peak=max((record["memory_peak"] for record in records), default=0),
            kept=sum(record["kept"] for record in records),
            instances=len(records),
            scan_seconds=scan_seconds,
            join_seconds=join_seconds,
            flushes=[flush for record in records for flush in record["flushes"]],
        )


@dataclass
class RunMetrics:
    """All waves so far, oldest first."""

    waves: list[WaveMetrics] = field(default_factory=list)

    @property
    def rows_read(self) -> tuple[int, ...]:
        """Rows of each input."""
        by_input = zip(*(wave.rows_read for wave in self.waves), strict=True)
        return tuple(map(sum, by_input)) or (0, 0)

    @property
    def rows_out(self) -> int:
        return sum(wave.rows_out for wave in self.waves)

    @property
    def results(self) -> dict[str, int]:
        """Rows by the stage that found them."""
        total: Counter[str] = Counter()
        for wave in self.waves:
            total.update(wave.results)
        return dict(total)

    @property
    def memory_peak(self) -> int:
        """The most bytes that any one instance held."""
        return max((wave.memory_peak for wave in self.waves), default=0)

    def as_dict(self) -> dict[str, Any]:
        return {
            "rows_read": self.rows_read,
            "rows_out": self.rows_out,
            "results": self.results,
            "memory_peak": self.memory_peak,
            "waves": [asdict(wave) for wave in self.waves],
        }

    def json_lines(self) -> str:
        """A line of JSON for each wave."""
        return "\n".join(
            json.dumps({"wave": number} | asdict(wave))
            for number, wave in enumerate(self.waves, start=1)
        )
