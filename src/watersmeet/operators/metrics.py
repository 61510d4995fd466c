"""Counters of an operator, and its latest flushes with their reasons."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from watersmeet.operators.stage import Stage
from watersmeet.rows.on import name_of

_REMEMBERED_FLUSHES = 4096


class FlushRecord(NamedTuple):
    """Rows of one input that left memory: at which stamp, how many, and why.

    `partition` is theirs, if the mechanism has partitions.
    """

    stamp: int
    side: int
    """The number of the input."""
    partition: int | None
    rows: int
    bytes: int
    reason: str
    inputs: int = 2
    """How many inputs the join has."""

    def __str__(self) -> str:
        of = "" if self.partition is None else f"partition {self.partition} of "
        return (
            f"#{self.stamp}: {of}the {name_of(self.side, self.inputs)} side, "
            f"{self.rows:,} rows, {self.bytes:,} bytes ({self.reason})"
        )


@dataclass
class Metrics:
    """Counters of one operator. `flushes` are the latest ones, the oldest first."""

    COUNTED: ClassVar[tuple[str, ...]] = ()
    """Counters that only some joins have, for records of what a micro-batch did."""
    STANDING: ClassVar[tuple[str, ...]] = ()
    """And those that say what is there now."""
    ALIKE: ClassVar[tuple[str, ...]] = ()
    """And those that are about the same in all instances of a join, and are not added up."""

    rows_in: list[int] = field(default_factory=lambda: [0, 0])
    null_keys: list[int] = field(default_factory=lambda: [0, 0])
    results: dict[str, int] = field(default_factory=lambda: dict.fromkeys(Stage, 0))
    candidates: int = 0
    flush_count: int = 0
    rows_spilled: int = 0
    bytes_spilled: int = 0
    md_tasks: int = 0
    dd_tasks: int = 0
    blocks_joined: int = 0
    """Inner blocks that a nested loop has read, once for each load of outer ones."""
    blocks_skipped: int = 0
    """Inner blocks that it left out, because their values cannot meet those of the load."""
    memory_used: int = 0
    memory_peak: int = 0
    rows_purged: int = 0
    """Rows that were kept and then dropped because of a promise."""
    dropped_on_arrival: int = 0
    """Rows that were not kept at all: they could meet nothing but the rows that were there."""
    broken_promises: int = 0
    """Rows that came although it was promised that they would not."""
    flushes: deque[FlushRecord] = field(default_factory=lambda: deque(maxlen=_REMEMBERED_FLUSHES))
    statistics: Callable[[], dict[str, Any]] = dict
    """Arrival probabilities, Er and Et per partition, as they are when called."""

    @classmethod
    def of(cls, inputs: int) -> Metrics:
        """Metrics of a join of `inputs` inputs."""
        return cls(rows_in=[0] * inputs, null_keys=[0] * inputs)

    @property
    def rows_out(self) -> int:
        return sum(self.results.values())

    def flushed(self, record: FlushRecord) -> None:
        self.flushes.append(record)
        self.rows_spilled += record.rows
        self.bytes_spilled += record.bytes

    def as_dict(self) -> dict[str, Any]:
        """Everything but the flush log and the statistics, ready for JSON."""
        counters = {
            name: value
            for name, value in vars(self).items()
            if name not in ("flushes", "statistics", "results")
        }
        results = {str(stage): count for stage, count in self.results.items()}
        return counters | {"results": results, "rows_out": self.rows_out}
