"""What intervals cost beside Spark's own plan: values in intervals, and intervals that overlap.

Lengths are spread over four decades. Without equal keys Spark compares all pairs; it is given a
time limit, after which the limit is the least that its total can be. With equal keys it compares
all pairs of a key.

    python benchmarks/run.py --only spark-intervals
"""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.cases import Claim, Places
from benchmarks.relations import DECADES, expected_intervals, intervals
from benchmarks.report import Row, Section, million_per_second, seconds, times
from benchmarks.spark_bands import Bench, Measured

ROWS, KEYS, FILES = 200_000, 1_000, 10
LIMIT_S = 600


@dataclass(frozen=True)
class Question:
    """What is asked of both: values or intervals of the left side, with keys or without."""

    name: str
    points: bool
    keys: int = 0

    @property
    def spark(self) -> str:
        return f"{self.name}: Spark's own join"

    @property
    def ours(self) -> dict[str, str]:
        """Our peers, by name."""
        return {f"{self.name}: ours, by waves": "waves", f"{self.name}: ours, whole": "whole"}


QUESTIONS = (
    Question("value in interval", points=True),
    Question("overlap", points=False),
    Question("keys and value in interval", points=True, keys=KEYS),
    Question("keys and overlap", points=False, keys=KEYS),
)


def run(places: Places, *, quick: bool) -> Section:
    shrink = 20 if quick else 1
    bench = Bench(places, {"intervals": True}, expected_intervals, quick=quick)
    for number, each in enumerate(QUESTIONS):
        full, tiny = (
            intervals(
                places.file(f"intervals-{number}-{rows}"),
                rows=rows,
                files=FILES,
                points=each.points,
                keys=each.keys // (shrink if each.keys else 1),
            )
            for rows in (ROWS // shrink, 2_000)
        )
        bench.run(each.ours, full)
        bench.once(each.spark, full, tiny=tiny, limit=LIMIT_S // shrink)
    measured = bench.measured
    return Section(
        name="spark-intervals",
        title="Intervals, on Spark",
        note=f"{ROWS // shrink:,} rows a side, lengths over {DECADES} decades, about one partner a "
        f"row, with {KEYS // shrink:,} keys and without, in random order from {FILES} Parquet "
        "files a side to the noop sink, two tasks at a time, on a warm session. Spark's own join "
        "is run once, after a tiny one. `to Spark` is beside its total, or at most that where it "
        f"had not ended after {LIMIT_S // shrink} s.",
        rows=[
            _row(measured, each, name) for each in QUESTIONS for name in (each.spark, *each.ours)
        ],
        claims=[_claim(measured, each) for each in QUESTIONS if not each.keys],
        measured=measured,
    )


def _row(measured: Measured, question: Question, name: str) -> Row:
    total, peer = measured.total(name), measured.best(question.spark)
    sign = "" if peer.failure is None else "<= "
    late = (measured.best(name).failure or "").removeprefix("TimeoutError: ")
    return {
        "engine": name,
        "join": str(measured.best(name).notes.get("join", "-")),
        "first rows": seconds(measured.soonest(name, "first_seconds")),
        "all rows": late or seconds(total),
        "to Spark": sign + times(total / peer.seconds) if total and name in question.ours else "-",
        "input rows": million_per_second(measured.best(name).rows_per_second) if total else "-",
        "result": "-" if late else measured.verdict(name),
    }


def _claim(measured: Measured, question: Question) -> Claim:
    peer, ours = measured.best(question.spark), measured.total(next(iter(question.ours)))
    faster = peer.seconds / ours if ours else 0.0
    sign = "" if peer.failure is None else "at least "
    return Claim(
        claim=f"Intervals on Spark, {question.name}, by waves",
        target="at least 50x as fast as Spark's own plan, exact",
        measured=f"{sign}{faster:.0f}x",
        holds=faster >= 50 and measured.exact(list(question.ours)),
    )
