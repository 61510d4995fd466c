"""Repeated runs of a list of cases, and which of them is quoted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

from benchmarks import inputs
from benchmarks.cases import Case, Input, Outcome, Places
from benchmarks.checksum import expected
from benchmarks.outside import measure

# How an engine says that it would need more memory than it was given.
_OUT_OF_MEMORY = ("Out of Memory", "Resources exhausted", "MemoryTooSmall")


@dataclass
class Measured:
    """Every outcome of every case, and what each input's join must give.

    The best of the repetitions is quoted: other work on the machine can only make a run slower.
    The others stay in the JSON.
    """

    cases: dict[str, Case] = field(default_factory=dict)
    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)
    expected: dict[Input, tuple[int, int]] = field(default_factory=dict)

    def best(self, name: str) -> Outcome:
        """The run that finished first, or the last failure when none did."""
        finished = [outcome for outcome in self.outcomes[name] if outcome.failure is None]
        return min(finished or self.outcomes[name], key=lambda outcome: outcome.seconds)

    def median_seconds(self, name: str) -> float:
        return median(outcome.seconds for outcome in self.outcomes[name])

    def first_seconds(self, name: str) -> float | None:
        times = [o.first_seconds for o in self.outcomes[name] if o.first_seconds is not None]
        return min(times, default=None)

    def peak_bytes(self, name: str) -> int:
        """The worst of the repetitions: a cap holds always or not at all."""
        return max(outcome.peak_bytes for outcome in self.outcomes[name])

    def ratio(self, name: str, peer: str) -> float | None:
        """Our seconds over the peer's, or None where one of them failed."""
        ours, theirs = self.best(name), self.best(peer)
        if ours.failure or theirs.failure:
            return None
        return ours.seconds / theirs.seconds

    def exact(self, name: str) -> bool:
        """Whether every repetition gave the right rows: by count and by checksum."""
        if self.cases[name].engine.endswith("read"):
            return True
        wanted = self.expected[self.cases[name].input]
        return all(
            outcome.failure is None and (outcome.rows_out, outcome.checksum) == wanted
            for outcome in self.outcomes[name]
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
        verdicts = {name: self.verdict(name) for name in self.outcomes}
        bad = {n: v for n, v in verdicts.items() if v.startswith(("WRONG", "FAILED"))}
        return [f"{name}: {verdict}" for name, verdict in bad.items()]


def measure_all(
    cases: list[Case],
    places: Places,
    *,
    repeats: int,
    look_every_s: float | None = None,
    say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
) -> Measured:
    """Run all cases once, then all again: a slow minute of the machine hits every engine."""
    measured = Measured(cases={case.name: case for case in cases})
    for case in cases:
        inputs.write(case, places)
        inputs.write(inputs.tiny(case), places)
        if case.input not in measured.expected:
            measured.expected[case.input] = expected(case.input)
    for repetition in range(repeats):
        for case in cases:
            outcome = measure(case, places, look_every_s=look_every_s)
            measured.outcomes.setdefault(case.name, []).append(outcome)
            say(
                f"  {repetition + 1}/{repeats} {case.name}: "
                + (outcome.failure or f"{outcome.seconds:.3f} s")
            )
    return measured
