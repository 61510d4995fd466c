"""A stream meets a master table of ten times memory: `auto` beside SSBJ and MESHJOIN.

Master rows have 120 bytes and values at random, stream rows 20 bytes and Zipf values, as in SSBJ's
experiments. Every row is answered (a left join) and all results are copied out. Rows come as fast
as they are taken, in batches of several sizes; or at a rate, and then each says how long it waited.
DuckDB's hash join, which needs the whole table in memory, is beside them as a reference.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

from benchmarks.cases import Claim, Places
from benchmarks.enrich_worker import SEED
from benchmarks.outside import WorkerFailed, ask
from benchmarks.report import Row, Section, megabytes, million_per_second, percent, times
from watersmeet.reproduce.ssbj.data import Zipf, lay

ROWS, QUICK_ROWS = 10_000_000, 100_000
SHARE = 0.1
BYTES = 120
ALGORITHMS = ("auto", "ssbj", "meshjoin")
SKEWS = (0.0, 0.5, 1.0)
BATCHES = (1_000, 20_000, 100_000)
USUAL_BATCH = BATCHES[1]
RATES = (100, 10_000, 200_000)
SECONDS, QUICK_SECONDS = 20.0, 1.0
TARGET = 1.5e6
SOON = 0.05
_DEADLINE_S = 1800


@dataclass
class Measured:
    """What each case gave."""

    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def broken(self) -> list[str]:
        return self.failed

    def plain(self) -> dict[str, Any]:
        return self.found

    def speed(self, name: str) -> float:
        found = self.found.get(name)
        return found["rows"] / found["seconds"] if found else 0.0


def cases(*, quick: bool) -> dict[str, dict[str, Any]]:
    """Orders by name."""
    rows = QUICK_ROWS if quick else ROWS
    shared = {
        "rows": rows,
        "memory": int(SHARE * rows * BYTES),
        "batch_rows": USUAL_BATCH,
        "rate": 0,
        "seconds": QUICK_SECONDS if quick else SECONDS,
    }
    orders = {}
    for algorithm in ALGORITHMS:
        for skew in SKEWS:
            order = shared | {"algorithm": algorithm, "skew": skew}
            orders[fast(algorithm, skew)] = order
        for batch_rows in BATCHES:
            order = shared | {"algorithm": algorithm, "skew": 1.0, "batch_rows": batch_rows}
            orders.setdefault(fast(algorithm, 1.0, batch_rows), order)
        for rate in RATES:
            orders[paced(algorithm, rate)] = shared | {
                "algorithm": algorithm, "skew": 1.0, "rate": rate,
            }  # fmt: skip
    orders["DuckDB, skew 1"] = shared | {
        "algorithm": "duckdb", "skew": 1.0, "stream_rows": 2 * rows,
    }  # fmt: skip
    return orders


def fast(algorithm: str, skew: float, batch_rows: int = USUAL_BATCH) -> str:
    return f"{algorithm}, skew {skew:g}, batches of {batch_rows:,}"


def paced(algorithm: str, rate: int) -> str:
    return f"{algorithm}, {rate:,} rows a second"


def run(places: Places, *, quick: bool) -> Section:
    measured = Measured()
    orders = cases(quick=quick)
    rows = next(iter(orders.values()))["rows"]
    folder = places.file("enrich")
    folder.mkdir(parents=True)
    master = folder / "master"
    lay(Zipf(rows, 1.0, SEED), master)
    for name, order in orders.items():
        print(f"  {name}", file=sys.stderr)
        _measure(measured, name, order | {"master": str(master), "scratch": str(folder)})
    memory = int(SHARE * rows * BYTES)
    return Section(
        name="enrich",
        title="A stream and a master table of ten times memory",
        note=f"{rows:,} master rows of {BYTES} bytes, {megabytes(memory)} of memory, one core; "
        "stream rows of 20 bytes by Zipf's law, every row answered. `cached` are rows that the "
        "cache served, `round` is the longest round of the scan. At a rate, `p50` and `p99` are "
        "how long rows waited, and `bound` is four of these rounds, which is what rows wait for at "
        "most while the stream never pauses and results are taken at once. DuckDB has all of the "
        "table in memory.",
        rows=[_row(measured, name) for name in orders if name in measured.found],
        claims=_claims(measured),
        measured=measured,
    )


def _measure(measured: Measured, name: str, order: dict[str, Any]) -> None:
    try:
        measured.found[name] = ask("benchmarks.enrich_worker", order, within_s=_DEADLINE_S)
    except WorkerFailed as error:
        measured.failed.append(f"{name}: {error}")


def _row(measured: Measured, name: str) -> Row:
    found = measured.found[name]
    waited = "p50" in found
    return {
        "case": name,
        "stream rows": "-" if waited else million_per_second(measured.speed(name)),
        "cached": percent(found["cached"]),
        "p50": _milliseconds(found, "p50"),
        "p99": _milliseconds(found, "p99"),
        "round": _milliseconds(found, "cycle"),
        "bound": _milliseconds(found, "bound"),
    }


def _milliseconds(found: dict[str, Any], name: str) -> str:
    return "-" if found.get(name) is None else f"{1e3 * found[name]:,.1f} ms"


def _claims(measured: Measured) -> list[Claim]:
    zipf = measured.speed(fast("auto", 1.0))
    asked = [(skew, USUAL_BATCH) for skew in SKEWS]
    asked += [(1.0, batch) for batch in BATCHES if batch != USUAL_BATCH]
    ratios = {each: _to_best(measured, *each) for each in asked}
    worst = min(ratios, key=lambda each: ratios[each])
    rare = measured.found.get(paced("auto", RATES[0]), {})
    slower = [rate for rate in RATES if not _is_sooner(measured, rate)]
    return [
        Claim(
            claim="Stream rows a second at Zipf 1, master of ten times memory, one core",
            target=f"at least {TARGET / 1e6:g} M/s",
            measured=million_per_second(zipf),
            holds=zipf >= TARGET,
        ),
        Claim(
            claim="auto beside the faster of ssbj and meshjoin, at every skew and batch",
            target="at least 1x",
            measured=f"{times(ratios[worst])} at skew {worst[0]:g}, batches of {worst[1]:,}",
            holds=ratios[worst] >= 1,
        ),
        Claim(
            claim="auto's p99 beside those of ssbj and meshjoin, at every rate",
            target="no longer",
            measured="shorter at all" if not slower else f"longer at {slower} rows a second",
            holds=not slower,
        ),
        Claim(
            claim="A row's answer when few rows wait",
            target=f"p99 within {1e3 * SOON:g} ms",
            measured=_milliseconds(rare, "p99"),
            holds=rare.get("p99", 1.0) <= SOON,
        ),
    ]


def _to_best(measured: Measured, skew: float, batch_rows: int) -> float:
    speeds = [measured.speed(fast(name, skew, batch_rows)) for name in ALGORITHMS]
    return speeds[0] / max(*speeds[1:], 1.0)


def _is_sooner(measured: Measured, rate: int) -> bool:
    waited = [measured.found.get(paced(name, rate), {}).get("p99", 1e9) for name in ALGORITHMS]
    return bool(waited[0] <= min(waited[1:]))
