"""The runs of peers on one Spark session, and which of them are quoted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a peer. Rows and checksum are None where nobody looked at the result.

    `first_seconds` and `half_seconds` are when the first and half of all rows had been written.
    Memory is that of all Python workers together, above what they held idle.
    """

    rows_in: int
    seconds: float
    first_seconds: float | None = None
    half_seconds: float | None = None
    rows: int | None = None
    checksum: int | None = None
    failure: str | None = None
    peak_bytes: int | None = None
    peak_anonymous_bytes: int | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def rows_per_second(self) -> float:
        return self.rows_in / self.seconds


@dataclass
class SparkMeasured:
    """All runs by the name of their case, and what the result of each case must be.

    `unquoted` are runs that warmed the session up; their results are checked like all others.
    """

    expected: dict[str, tuple[int, int]] = field(default_factory=dict)
    timed: dict[str, list[Run]] = field(default_factory=dict)
    unquoted: dict[str, list[Run]] = field(default_factory=dict)

    def add(self, name: str, run: Run, *, quoted: bool = True) -> None:
        (self.timed if quoted else self.unquoted).setdefault(name, []).append(run)

    def runs(self, name: str) -> list[Run]:
        return self.unquoted.get(name, []) + self.timed.get(name, [])

    def best(self, name: str) -> Run:
        """The run that finished first, or a failure when none did."""
        runs = self.timed.get(name) or self.unquoted[name]
        finished = [run for run in runs if run.failure is None]
        return min(finished or runs, key=lambda run: run.seconds)

    def soonest(self, name: str, moment: str) -> float | None:
        """The best `first_seconds` or `half_seconds`."""
        moments = [getattr(run, moment) for run in self.timed.get(name, [])]
        return min((seconds for seconds in moments if seconds is not None), default=None)

    def ratio(self, seconds: float | None, peer: str) -> float | None:
        """Seconds over those of a peer's best run, or None where one of them failed."""
        theirs = self.best(peer)
        return None if seconds is None or theirs.failure else seconds / theirs.seconds

    def total(self, name: str) -> float | None:
        best = self.best(name)
        return None if best.failure else best.seconds

    def fastest(self, names: Sequence[str]) -> str:
        """The peer whose best run was the fastest."""
        return min(names, key=lambda name: self.total(name) or float("inf"))

    def verdict(self, name: str) -> str:
        """For a table: exact, WRONG, how it failed, or that nobody looked."""
        runs = self.runs(name)
        failures = [run.failure for run in runs if run.failure is not None]
        if failures:
            return f"FAILED: {failures[0]}"
        if name not in self.expected:
            return "-"
        rows, checksum = self.expected[name]
        if any(
            run.rows not in (rows, None) or run.checksum not in (checksum, None) for run in runs
        ):
            return "WRONG"
        if any(run.checksum is not None for run in runs):
            return "exact"
        return "right count" if any(run.rows is not None for run in runs) else "not checked"

    def exact(self, names: Sequence[str]) -> bool:
        return all(self.verdict(name) == "exact" for name in names)

    def broken(self) -> list[str]:
        names = dict.fromkeys([*self.unquoted, *self.timed])
        verdicts = {name: self.verdict(name) for name in names}
        bad = {n: v for n, v in verdicts.items() if v.startswith(("WRONG", "FAILED"))}
        return [f"{name}: {verdict}" for name, verdict in bad.items()]

    def plain(self) -> dict[str, Any]:
        return {
            name: {
                "expected": self.expected.get(name),
                "verdict": self.verdict(name),
                "unquoted": [asdict(run) for run in self.unquoted.get(name, [])],
                "runs": [asdict(run) for run in self.timed.get(name, [])],
            }
            for name in dict.fromkeys([*self.unquoted, *self.timed])
        }
