"""News and accesses without an end: what promises cost, and how much less a join then keeps.

MJoin's running example (reproduce/mjoin/streams.py): ten live items, a punctuation when one rolls
out, serial numbers that are unique among the news. The same progressive join runs with promises,
which it purges by in batches, and without: XJoin, with memory for everything, and with memory for
a part of it. All results are copied out and counted. Runs take turns, and the best counts.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.cases import MB, Claim, Places
from benchmarks.outside import WorkerFailed, ask
from benchmarks.report import Row, Section, megabytes, million_per_second, times
from watersmeet.reproduce.mjoin.settings import LARGE, PLENTY, RANDOM_ORDER, Workload

ROWS, QUICK_ROWS = 10_000_000, 200_000
ROUNDS, QUICK_ROUNDS = 2, 1
LIMIT = 64 * MB
"""Memory that XJoin fills after about a million rows."""
CASES = {
    "promises": (True, PLENTY),
    "promises, 64 MB": (True, LIMIT),
    "no promises": (False, PLENTY),
    "no promises, 64 MB": (False, LIMIT),
}
MINE, WITHOUT = "promises", "no promises"
_DEADLINE_S = 900


@dataclass
class Measured:
    """What each run of each case gave."""

    found: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def broken(self) -> list[str]:
        wrong = [name for name, runs in self.found.items() if not all(r["exact"] for r in runs)]
        return self.failed + [f"{name}: wrong rows" for name in wrong]

    def plain(self) -> dict[str, Any]:
        return self.found

    def best(self, name: str, tenth: int) -> float:
        """The least seconds for so many tenths of the rows."""
        return min(float(run["seconds"][tenth - 1]) for run in self.found[name])

    def peak(self, name: str, tenths: int = 10) -> int:
        """The most bytes in memory until so many tenths of the results are out."""
        return max(int(run["peaks"][tenths - 1]) for run in self.found[name])


def run(places: Places, *, quick: bool) -> Section:
    rows = QUICK_ROWS if quick else ROWS
    measured = Measured()
    for number in range(QUICK_ROUNDS if quick else ROUNDS):
        for name, (promises, memory) in CASES.items():
            print(f"  {name}, round {number + 1}", file=sys.stderr)
            order = {"rows": rows, "promises": promises, "memory": memory, "seed": number}
            _measure(measured, name, order | {"scratch": str(places.scratch)})
    return Section(
        name="news",
        title="News and accesses, with promises and without",
        note=f"{rows:,} rows, one news item for ten accesses, {RANDOM_ORDER}, in "
        f"{LARGE.words}; seconds of the thread, best of {len(measured.found[MINE])} runs, after "
        "a tenth of the rows and after all. `state` is the most that is in memory in the first "
        "tenth and in all.",
        rows=[_row(measured, name, rows) for name in measured.found],
        claims=_claims(measured, rows),
        measured=measured,
    )


def _measure(measured: Measured, name: str, order: dict[str, Any]) -> None:
    try:
        measured.found.setdefault(name, []).append(
            ask("benchmarks.news", order, within_s=_DEADLINE_S)
        )
    except WorkerFailed as error:
        measured.failed.append(f"{name}: {error}")


def _row(measured: Measured, name: str, rows: int) -> Row:
    return {
        "case": name,
        "first tenth": million_per_second(rows / 10 / measured.best(name, 1)),
        "all rows": million_per_second(rows / measured.best(name, 10)),
        "state, first tenth": _kilobytes(measured.peak(name, 1)),
        "state, all": _kilobytes(measured.peak(name)),
    }


def _kilobytes(nbytes: int) -> str:
    return megabytes(nbytes) if nbytes >= 10 * MB else f"{nbytes / 2**10:,.0f} KB"


def _claims(measured: Measured, rows: int) -> list[Claim]:
    if not all(name in measured.found for name in CASES):
        return []
    share = measured.peak(MINE) / measured.peak(WITHOUT)
    growth = measured.peak(MINE) / measured.peak(MINE, 1)
    start = measured.best(WITHOUT, 1) / measured.best(MINE, 1)
    memory, limited = (
        measured.best(f"{WITHOUT}{limit}", 10) / measured.best(f"{MINE}{limit}", 10)
        for limit in ("", ", 64 MB")
    )
    return [
        Claim(
            claim=f"Peak state of {rows:,} rows of news and accesses, beside the join without "
            "promises",
            target="under 1%",
            measured=f"{100 * share:.3f}%",
            holds=share < 0.01,
        ),
        Claim(
            claim=f"Peak state with promises, from {rows // 10:,} rows to {rows:,}",
            target="grows by less than 1.1x",
            measured=times(growth),
            holds=growth < 1.1,
        ),
        Claim(
            claim="Rate with promises, purged in batches, at the start (a tenth of the rows)",
            target="at least 0.9x that without promises",
            measured=times(start),
            holds=start >= 0.9,
        ),
        Claim(
            claim="Rate with promises over all rows, with memory for all",
            target="above that without promises",
            measured=times(memory),
            holds=memory > 1,
        ),
        Claim(
            claim="Rate with promises over all rows, with 64 MB",
            target="above that without promises",
            measured=times(limited),
            holds=limited > 1,
        ),
    ]


def main() -> None:
    """One run in a process of its own: an order as JSON comes in, what was measured goes out."""
    from watersmeet.reproduce.mjoin.runs import Planned, run_one
    from watersmeet.reproduce.mjoin.settings import GRID, Variant

    order = json.load(sys.stdin)
    variant = Variant(order["promises"], memory=order["memory"])
    # Eleven rows have ten accesses.
    workload = Workload(RANDOM_ORDER, order["rows"] * 10 // 11, LARGE)
    run_one(Planned(Workload(RANDOM_ORDER, 50_000, LARGE), variant, 0))
    found = run_one(Planned(workload, variant, order["seed"]), scratch=Path(order["scratch"]))
    tenth = GRID // 10
    json.dump(
        {
            "seconds": [float(found.seconds[tenth * n - 1]) for n in range(1, 11)],
            "peaks": [int(found.peaks[tenth * n - 1]) for n in range(1, 11)],
            "exact": found.exact,
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
