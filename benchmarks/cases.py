"""What one measured run is given, and what came of it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

MB = 2**20


@dataclass(frozen=True, kw_only=True)
class Input:
    """Two seeded relations. Both sides have `rows` rows and keys uniform in `1..distinct`.

    A side's columns are the key, its row number (so every source is truly ordered by arrival, as
    DataFusion's symmetric join wants to hear), `extra_ints` more numbers and a text of
    `text_bytes` bytes, all derived from the row number: a result can be checked column by column.
    """

    rows: int
    distinct: int
    seed: int = 1
    key: str = "int64"
    extra_ints: int = 0
    text_bytes: int = 0
    batch_rows: int = 10_000

    @property
    def row_bytes(self) -> int:
        """Bytes of one row in Arrow. A string key counts 12 bytes and its 4-byte offset."""
        key = 8 if self.key == "int64" else 16
        return key + 8 * (1 + self.extra_ints) + (self.text_bytes + 4 if self.text_bytes else 0)

    @property
    def total_bytes(self) -> int:
        return 2 * self.rows * self.row_bytes


@dataclass(frozen=True, kw_only=True)
class Case:
    """One engine on one input.

    `source` is where the rows come from: `memory` (batches made beforehand), `csv` or `parquet`
    (files, read inside the measured time), or `generated` (made while the join runs, never held).
    """

    name: str
    engine: str
    input: Input
    source: str = "memory"
    algorithm: str = ""
    memory: int | None = None
    cores: int = 1
    settings: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        fields = json.loads(text)
        return cls(**{**fields, "input": Input(**fields["input"])})


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one run gave. `failure` is the engine's own message, and then the figures say how far
    it had come. `checksum` is None for a run that only counted its rows, because adding them up
    takes time. Memory is measured from outside, above the idle process."""

    rows_in: int
    rows_out: int
    checksum: int | None
    seconds: float
    first_seconds: float | None
    failure: str | None = None
    idle_bytes: int = 0
    peak_bytes: int = 0
    peak_anonymous_bytes: int = 0
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def rows_per_second(self) -> float:
        return self.rows_in / self.seconds


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A target of ours against what was measured in this run."""

    claim: str
    target: str
    measured: str
    holds: bool


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where a run keeps its input files and its spilled rows."""

    scratch: Path

    def file(self, name: str) -> Path:
        return self.scratch / "inputs" / name

    @property
    def spill(self) -> Path:
        return self.scratch / "spill"
