"""What a second thread, and a second core, do for enrichments and for joins of many inputs.

Joins of two inputs in threads are in `symmetric` and `spilling`, beside other engines.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

from benchmarks.cases import MB, Claim, Places
from benchmarks.outside import WorkerFailed, ask
from benchmarks.report import Row, Section, megabytes, million_per_second, seconds, times

ROWS = 2_000_000
REPEATS = 3
_DEADLINE_S = 600
_RUNS = {"1 core": (1, 1), "1 thread": (1, 2), "2 threads": (2, 2)}
"""Threads and cores of each."""
_CASES = {
    "enrichment, the master fits": ("enrich", 1024 * MB),
    "enrichment, memory for a tenth of the master": ("enrich", 16 * MB),
    "join of three inputs, in memory": ("join_many", 1024 * MB),
    "join of three inputs, memory for a tenth": ("join_many", 48 * MB),
}


@dataclass
class Measured:
    """All runs of each case."""

    runs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def broken(self) -> list[str]:
        wrong = [name for name, runs in self.runs.items() if not all(r["exact"] for r in runs)]
        return self.failed + [f"{name}: WRONG" for name in wrong]

    def plain(self) -> dict[str, Any]:
        return dict(self.runs)

    def best(self, name: str) -> dict[str, Any] | None:
        return min(self.runs.get(name, []), key=lambda run: float(run["seconds"]), default=None)


def name_of(case: str, run: str) -> str:
    return f"{case}, {run}"


def run(places: Places, *, quick: bool) -> Section:
    rows = ROWS // 10 if quick else ROWS
    measured = Measured()
    places.spill.mkdir(parents=True, exist_ok=True)
    for repetition in range(1 if quick else REPEATS):
        for case, (kind, memory) in _CASES.items():
            for how, (threads, cores) in _RUNS.items():
                name = name_of(case, how)
                order = {
                    "kind": kind,
                    "rows": rows,
                    "memory": _memory(memory, quick=quick),
                    "threads": threads,
                    "cores": cores,
                    "scratch": str(places.spill),
                }
                try:
                    found = ask("benchmarks.threads_worker", order, within_s=_DEADLINE_S)
                except WorkerFailed as error:
                    measured.failed.append(f"{name}: {error}")
                    continue
                measured.runs.setdefault(name, []).append(found)
                print(f"  {repetition + 1} {name}: {found['seconds']:.3f} s", file=sys.stderr)
    return Section(
        name="threads",
        title="Enrichment and joins of many inputs in two threads",
        note=f"{rows:,} stream rows and a master of half as many rows of 100 bytes; three inputs "
        f"of {rows:,} rows that have each key once. Two cores, but for `1 core`, in one thread; "
        f"batches of 20,000, the best of {1 if quick else REPEATS}.",
        rows=[
            _row(measured, case, how, _memory(memory, quick=quick))
            for case, (_, memory) in _CASES.items()
            for how in _RUNS
        ],
        claims=[
            _claim(measured, case, peer, words)
            for case in _CASES
            for peer, words in (
                ("1 core", "Two cores, in two threads, beside one core"),
                ("1 thread", "Two threads beside one"),
            )
        ],
        measured=measured,
    )


def _memory(memory: int, *, quick: bool) -> int:
    """A quick input is a tenth, and so is its cap."""
    return memory // 10 if quick else memory


def _row(measured: Measured, case: str, how: str, memory: int) -> Row:
    best = measured.best(name_of(case, how))
    named = {"case": name_of(case, how), "memory": megabytes(memory)}
    if best is None:
        figures = ("first row", "all rows", "processor", "rows of an input")
        return named | dict.fromkeys(figures, "-") | {"result": "FAILED"}
    return named | {
        "first row": seconds(best["first"]),
        "all rows": seconds(best["seconds"]),
        "processor": seconds(best["cpu"]),
        "rows of an input": million_per_second(best["rows"] / best["seconds"]),
        "result": "exact" if best["exact"] else "WRONG",
    }


def _claim(measured: Measured, case: str, peer: str, words: str) -> Claim:
    before, two = (measured.best(name_of(case, how)) for how in (peer, "2 threads"))
    ratio = before["seconds"] / two["seconds"] if before and two else None
    return Claim(
        claim=f"{words}, {case}",
        target="at least 1.7x as fast, exact",
        measured=times(ratio),
        holds=ratio is not None and ratio >= 1.7 and not measured.broken(),
    )
