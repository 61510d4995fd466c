"""What joins on values that are close, and on intervals, cost beside Spark's own plan of them.

Without equal keys Spark compares all pairs, whose number grows with the square of the rows. It is
measured on a tenth of the rows, and on all of them up to a time limit, in a session of its own,
because cancelled tasks may go on for a while. Where it does not end, the limit is the least that
its total can be. Beside that stands what it would take by the tenth, if time grew as the number of
pairs.

With equal keys (an interval join) it compares all pairs of a key, which has 50 rows a side.

    python benchmarks/run.py --only spark-bands
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.cases import MB, Claim, Places
from benchmarks.relations import Relations, close, expected_close, expected_overlaps, stretched
from benchmarks.report import Row, Section, million_per_second, seconds, times
from benchmarks.spark_claims import early_claim, total_claim
from benchmarks.spark_measured import SparkMeasured
from benchmarks.spark_outside import SparkProcess

FILES, WIDTH, ROWS_A_KEY, DECADES = 10, 5, 50, 4
MEMORY = 1024 * MB
LIMIT_S = 130
OURS = {"ours, by waves": "waves", "ours, whole": "whole"}
OURS_OF_ROWS = {"ours, by waves, no plain scan": "waves_of_rows"}


@dataclass(frozen=True)
class Question:
    """What is joined, of how many rows a side."""

    name: str
    rows: int
    settings: dict[str, Any]
    keyed: bool = False
    streams: bool = False
    limit: int = LIMIT_S
    """Seconds after which Spark's own join is given up."""

    def tables(self, folder: Path, rows: int) -> Relations:
        if "intervals" in self.settings:
            return stretched(folder, rows=rows, files=FILES, decades=DECADES)
        keys = rows // ROWS_A_KEY if self.keyed else 0
        return close(folder, rows=rows, files=FILES, width=WIDTH, keys=keys)

    def expected(self, relations: Relations) -> tuple[int, int]:
        if "intervals" in self.settings:
            return expected_overlaps(relations, points=self.settings["intervals"] == "points")
        return expected_close(relations, width=WIDTH)

    @property
    def spark(self) -> str:
        return f"{self.name}: Spark's own join"

    @property
    def tenth(self) -> str:
        return f"{self.name}, a tenth: Spark's own join"

    @property
    def waves(self) -> str:
        return f"{self.name}: ours, by waves"

    @property
    def peers(self) -> dict[str, str]:
        """Those that take turns on all rows."""
        if self.streams:
            return {self.spark: "spark_streams", f"{self.name}: ours": "our_streams"}
        ours = OURS | (OURS_OF_ROWS if self.name == "band" else {})
        named = {f"{self.name}: {engine}": peer for engine, peer in ours.items()}
        return ({self.spark: "spark_table"} if self.keyed else {}) | named

    @property
    def names(self) -> list[str]:
        return list(self.peers) if self.keyed else [self.tenth, self.spark, *self.peers]


BAND = Question("band", 1_000_000, {"within": WIDTH})
KEYED = Question("keys and band", 5_000_000, {"within": WIDTH}, keyed=True)
STREAMED = Question("keys and band, streams", 500_000, {"within": WIDTH}, keyed=True, streams=True)
POINTS = Question("points in intervals", 200_000, {"intervals": "points"})
OVERLAPS = Question("intervals that overlap", 200_000, {"intervals": "overlap"}, limit=300)
QUESTIONS = (BAND, KEYED, STREAMED, POINTS, OVERLAPS)
PAIRWISE = (BAND, POINTS, OVERLAPS)


class Measured(SparkMeasured):
    """Spark's own join of all rows may take longer than anybody waits."""

    def broken(self) -> list[str]:
        late = tuple(f"{question.spark}: FAILED: TimeoutError" for question in PAIRWISE)
        return [line for line in super().broken() if not line.startswith(late)]


class Bench:
    """Runs peers in turn, says how it goes, and keeps what they gave."""

    def __init__(self, places: Places, *, quick: bool) -> None:
        self._places = places
        self.shrink = 20 if quick else 1
        self._repetitions = 2 if quick else 4
        self.measured = Measured()

    def ask(self, question: Question) -> None:
        full = self._tables(question, question.rows // self.shrink, "all")
        if not question.keyed:
            tenth = self._tables(question, question.rows // self.shrink // 10, "tenth")
            # Once after the warming: it takes long, and is not compared with anything.
            self._in_turn(question, {question.tenth: "spark_table"}, tenth, repetitions=2)
        self._in_turn(question, question.peers, full, repetitions=self._repetitions)
        if not question.keyed:
            self._limited(question, full)

    def _tables(self, question: Question, rows: int, part: str) -> Relations:
        return question.tables(self._places.file(f"{question.name}-{part}"), rows)

    def _in_turn(
        self,
        question: Question,
        peers: dict[str, str],
        relations: Relations,
        *,
        repetitions: int,
    ) -> None:
        """All of them, and all again, on one session; the first round is checked, not quoted."""
        self.measured.expected |= dict.fromkeys(peers, question.expected(relations))
        with SparkProcess(self._places.scratch / "spark") as process:
            run = partial(process.run, memory=MEMORY, settings=question.settings)
            for repetition in range(repetitions):
                warming = repetition == 0
                for name, peer in peers.items():
                    one = run(peer, relations, check=warming)
                    self.measured.add(name, one, quoted=not warming)
                    _say(name, one.failure or seconds(one.seconds))

    def _limited(self, question: Question, relations: Relations) -> None:
        """Spark's own join, once, after a tiny one, in a session of its own."""
        tiny = self._tables(question, 2_000, "tiny")
        self.measured.expected[question.spark] = question.expected(relations)
        with SparkProcess(self._places.scratch / "limited") as process:
            run = partial(process.run, "spark_table", memory=MEMORY)
            run(tiny, settings=question.settings)
            settings = question.settings | {"limit": question.limit // self.shrink}
            one = run(relations, settings=settings)
            self.measured.add(question.spark, one)
            _say(question.spark, one.failure or seconds(one.seconds))


def run(places: Places, *, quick: bool) -> Section:
    bench = Bench(places, quick=quick)
    for question in QUESTIONS:
        bench.ask(question)
    measured, shrink = bench.measured, bench.shrink
    rows = ", ".join(f"{each.rows // shrink:,} ({each.name})" for each in QUESTIONS)
    guesses = " ".join(_guess(measured, question) for question in PAIRWISE)
    return Section(
        name="spark-bands",
        title="Values that are close, on Spark",
        note=f"Rows a side: {rows}. Bands: values within {WIDTH} of each other, about one partner "
        f"a row, beside equal keys with {ROWS_A_KEY} rows each or alone. Intervals: lengths of "
        f"{DECADES} decades. Streams: {FILES} micro-batches, without watermarks. In random order "
        f"from {FILES} Parquet files a side to the noop sink, "
        "two tasks at a time, on a warm session. `to Spark` is beside Spark's own total, or at "
        f"most that where Spark was given up after {LIMIT_S // shrink} s "
        f"({OVERLAPS.limit // shrink} s for intervals that overlap). {guesses}",
        rows=[_row(measured, q, name) for q in QUESTIONS for name in q.names],
        claims=_claims(measured),
        measured=measured,
    )


def _guess(measured: Measured, question: Question) -> str:
    """What the full join would take Spark, if it took time in proportion to pairs of rows."""
    total = measured.total(question.tenth)
    if total is None or measured.best(question.spark).failure is None:
        return ""
    return f"By a tenth of the rows, Spark would take {100 * total:,.0f} s for {question.name}."


def _row(measured: Measured, question: Question, name: str) -> Row:
    total, theirs = measured.total(name), measured.best(question.spark)
    late = (measured.best(name).failure or "").removeprefix("TimeoutError: ")
    ratio = None if total is None or name == question.tenth else total / theirs.seconds
    most = "<= " if theirs.failure is not None and ratio is not None else ""
    return {
        "engine": name,
        "join": str(measured.best(name).notes.get("join", "-")),
        "first rows": seconds(measured.soonest(name, "first_seconds")),
        "all rows": late or seconds(total),
        "to Spark": most + times(ratio),
        "input rows": million_per_second(measured.best(name).rows_per_second) if total else "-",
        "result": "-" if late else measured.verdict(name),
    }


def _claims(measured: Measured) -> list[Claim]:
    whole = f"{KEYED.name}: ours, whole"
    early = measured.ratio(measured.soonest(KEYED.waves, "first_seconds"), KEYED.spark)
    return [
        *(_faster(measured, question) for question in PAIRWISE),
        total_claim(measured, KEYED.waves, KEYED.spark, at_most=0.6),
        total_claim(measured, whole, KEYED.spark, at_most=0.6),
        early_claim("First rows of equal keys and a band on Spark", early, at_most=0.12),
    ]


def _faster(measured: Measured, question: Question) -> Claim:
    ours, theirs = measured.total(question.waves), measured.best(question.spark)
    ratio = theirs.seconds / ours if ours else 0.0
    return Claim(
        claim=f"On Spark without equal keys, by waves: {question.name}",
        target="at least 50x as fast as Spark's own plan, exact",
        measured=f"{'at least ' if theirs.failure else ''}{ratio:.0f}x",
        holds=ratio >= 50 and measured.exact([question.waves]),
    )


def _say(name: str, what: str) -> None:
    print(f"  {name}: {what}", file=sys.stderr, flush=True)
