"""Repeated runs of a list of cases, and which of them is quoted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from benchmarks import inputs
from benchmarks.cases import Case, Input, Outcome, Places
from benchmarks.checksum import expected
from benchmarks.outside import DEADLINE_S, WorkerFailed, measure

# How an engine says that it would need more memory than it was given.
_OUT_OF_MEMORY = ("Out of Memory", "Resources exhausted", "MemoryTooSmall")


@dataclass
class Measured:
    """Every outcome of every case, and what each input's join must give.

    `checked` are runs that added up their result; `timed` are those that only counted it, unless
    time was not asked for. The best of them is quoted: other work on the machine can only make a
    run slower. The others stay in the JSON.
    """

    cases: dict[str, Case]
    checked: dict[str, Outcome] = field(default_factory=dict)
    timed: dict[str, list[Outcome]] = field(default_factory=dict)
    expected: dict[Input, tuple[int, int]] = field(default_factory=dict)

    def outcomes(self, name: str) -> list[Outcome]:
        checked = [self.checked[name]] if name in self.checked else []
        return checked + self.timed.get(name, [])

    def _quotable(self, name: str) -> list[Outcome]:
        return self.timed.get(name) or [self.checked[name]]

    def best(self, name: str) -> Outcome:
        """The run that finished first, or the last failure when none did."""
        runs = self._quotable(name)
        finished = [outcome for outcome in runs if outcome.failure is None]
        return min(finished or runs, key=lambda outcome: outcome.seconds)

    def median_seconds(self, name: str) -> float:
        return median(outcome.seconds for outcome in self._quotable(name))

    def first_seconds(self, name: str) -> float | None:
        times = [outcome.first_seconds for outcome in self._quotable(name)]
        return min((time for time in times if time is not None), default=None)

    def peak_bytes(self, name: str) -> int:
        """The worst of the repetitions: a cap holds always or not at all."""
        return max(outcome.peak_bytes for outcome in self.outcomes(name))

    def ratio(self, name: str, peer: str) -> float | None:
        """Our seconds over the peer's, or None where one of them failed."""
        ours, theirs = self.best(name), self.best(peer)
        if ours.failure or theirs.failure:
            return None
        return ours.seconds / theirs.seconds

    def exact(self, name: str) -> bool:
        """Whether the checked run gave the right rows, and every other run as many."""
        if self.cases[name].engine.endswith("read"):
            return True
        rows, checksum = self.expected[self.cases[name].input]
        runs = self.outcomes(name)
        return self.checked[name].checksum == checksum and all(
            outcome.failure is None and outcome.rows_out == rows for outcome in runs
        )

    def verdict(self, name: str) -> str:
        """For a table: exact, WRONG, or how it failed. Capitals are for what must not happen."""
        best = self.best(name)
        if best.failure is None:
            return "exact" if self.exact(name) else "WRONG"
        if any(words in best.failure for words in _OUT_OF_MEMORY):
            return f"out of memory after {best.rows_out:,} rows"
        return f"FAILED: {best.failure}"

    def broken(self) -> list[str]:
        """Cases with a wrong result, or that failed for another reason than their memory."""
        verdicts = {name: self.verdict(name) for name in self.cases}
        bad = {n: v for n, v in verdicts.items() if v.startswith(("WRONG", "FAILED"))}
        return [f"{name}: {verdict}" for name, verdict in bad.items()]

    def plain(self) -> dict[str, Any]:
        """Every case with all its runs, for the JSON."""
        return {
            name: {
                "case": asdict(case),
                "exact": self.exact(name),
                "runs": [asdict(run) for run in self.outcomes(name)],
            }
            for name, case in self.cases.items()
        }


def measure_all(
    cases: list[Case],
    places: Places,
    *,
    repeats: int,
    look_every_s: float | None = None,
    say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
) -> Measured:
    """Check all cases once, then time them all, then all again, `repeats` times.

    In turn, because a slow minute of the machine should hit every engine. The check comes first,
    so every timed run finds its files in the page cache.
    """
    measured = Measured(cases={case.name: case for case in cases})
    for case in cases:
        inputs.write(case, places)
        inputs.write(inputs.tiny(case), places)
        if case.input not in measured.expected:
            measured.expected[case.input] = expected(case.input)
    for case in cases:
        if not case.engine.endswith("read"):
            outcome = _outcome(case, places, check=True, look_every_s=look_every_s)
            measured.checked[case.name] = outcome
            say(f"  check {case.name}: {measured.verdict(case.name)}")
    for repetition in range(repeats):
        for case in cases:
            outcome = _outcome(case, places, check=False, look_every_s=look_every_s)
            measured.timed.setdefault(case.name, []).append(outcome)
            say(
                f"  {repetition + 1}/{repeats} {case.name}: "
                + (outcome.failure or f"{outcome.seconds:.3f} s")
            )
    return measured


def _outcome(case: Case, places: Places, *, check: bool, look_every_s: float | None) -> Outcome:
    """One run. A process that breaks down is a failure in the table, not the end of the rest."""
    try:
        return measure(case, places, check=check, look_every_s=look_every_s)
    except WorkerFailed as error:
        return Outcome(
            rows_in=2 * case.input.rows,
            rows_out=0,
            checksum=None,
            seconds=DEADLINE_S,
            first_seconds=None,
            failure=str(error).strip().splitlines()[-1],
        )
