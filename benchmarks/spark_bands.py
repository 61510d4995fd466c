"""What joins on values that are close cost beside Spark's own plan of them.

Without equal keys Spark compares all pairs, whose number grows with the square of the rows. It is
measured on small tables, and on the full ones up to a time limit, in a session of its own, because
cancelled tasks may go on for a while. Where it does not end, the limit is the least that its total
can be. Beside that stands what it would take by the larger of the small tables, if time grew as the
number of pairs.

With equal keys (an interval join) it compares all pairs of a key, which has 50 rows a side.

    python benchmarks/run.py --only spark-bands
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from benchmarks.cases import MB, Claim, Places
from benchmarks.relations import Relations, close, expected_close
from benchmarks.report import Row, Section, million_per_second, seconds, times
from benchmarks.spark_measured import SparkMeasured
from benchmarks.spark_outside import SparkProcess
from benchmarks.spark_tables import early_claim, total_claim

ROWS, KEYED_ROWS, ROWS_A_KEY = 1_000_000, 5_000_000, 50
STREAMED_ROWS = 500_000
SMALL = (50_000, 100_000)
FILES, WIDTH = 10, 5
MEMORY = 1024 * MB
LIMIT_S = 180

SPARK = "band: Spark's own join"
WAVES, WHOLE = "band: ours, by waves", "band: ours, whole"
ROW_PATH = "band: ours, by waves, no plain scan"
KEYED_SPARK = "keys and band: Spark's own join"
KEYED_WAVES, KEYED_WHOLE = "keys and band: ours, by waves", "keys and band: ours, whole"
BAND_PEERS = {WAVES: "waves", WHOLE: "whole", ROW_PATH: "waves_of_rows"}
KEYED_PEERS = {KEYED_SPARK: "spark_table", KEYED_WAVES: "waves", KEYED_WHOLE: "whole"}
SPARK_STREAMS, OUR_STREAMS = "keys and band, streams: Spark's own", "keys and band, streams: ours"
STREAM_PEERS = {SPARK_STREAMS: "spark_streams", OUR_STREAMS: "our_streams"}


@dataclass
class Measured(SparkMeasured):
    """Spark's own join of the full tables may take longer than anybody waits."""

    def broken(self) -> list[str]:
        late = f"{SPARK}: FAILED: TimeoutError"
        return [line for line in super().broken() if not line.startswith(late)]


class Bench:
    """Runs peers in turn, says how it goes, and keeps what they gave."""

    def __init__(self, places: Places, *, quick: bool) -> None:
        self._places = places
        self.quick = quick
        self.repetitions = 2 if quick else 4
        self.measured = Measured()

    def tables(self, name: str, rows: int, keys: int = 0) -> Relations:
        folder = self._places.file(name)
        return close(folder, rows=rows, files=FILES, width=WIDTH, keys=keys)

    def run(self, peers: dict[str, str], relations: Relations) -> None:
        """All of them, and all again, on one session; the first round is checked, not quoted."""
        right = expected_close(relations, width=WIDTH)
        self.measured.expected |= dict.fromkeys(peers, right)
        with SparkProcess(self._places.scratch / "spark") as process:
            for repetition in range(self.repetitions):
                for name, peer in peers.items():
                    self._one(process, name, peer, relations, warming=repetition == 0)

    def once(self, name: str, relations: Relations, *, limit: int) -> None:
        """Spark's own join, once, after a tiny one, in a session of its own."""
        tiny = self.tables("tiny", 2_000)
        self.measured.expected[name] = expected_close(relations, width=WIDTH)
        with SparkProcess(self._places.scratch / "limited") as process:
            process.run("spark_table", tiny, memory=MEMORY, settings={"within": WIDTH})
            settings = {"within": WIDTH, "limit": limit}
            one = process.run("spark_table", relations, memory=MEMORY, settings=settings)
            self.measured.add(name, one)
            _say(name, one.failure or seconds(one.seconds))

    def _one(
        self, process: SparkProcess, name: str, peer: str, relations: Relations, *, warming: bool
    ) -> None:
        settings = {"within": WIDTH}
        one = process.run(peer, relations, memory=MEMORY, check=warming, settings=settings)
        self.measured.add(name, one, quoted=not warming)
        _say(name, one.failure or seconds(one.seconds))


def run(places: Places, *, quick: bool) -> Section:
    shrink = 20 if quick else 1
    bench = Bench(places, quick=quick)
    small = {_small(rows // shrink): rows // shrink for rows in SMALL}
    for name, rows in small.items():
        bench.run({name: "spark_table"}, bench.tables(f"small-{rows}", rows))
    full = bench.tables("band", ROWS // shrink)
    bench.run(BAND_PEERS, full)
    keyed_rows = KEYED_ROWS // shrink
    keyed = bench.tables("keyed", keyed_rows, keys=keyed_rows // ROWS_A_KEY)
    bench.run(KEYED_PEERS, keyed)
    streamed_rows = STREAMED_ROWS // shrink
    streamed = bench.tables("streamed", streamed_rows, keys=streamed_rows // ROWS_A_KEY)
    bench.run(STREAM_PEERS, streamed)
    bench.once(SPARK, full, limit=LIMIT_S // shrink)
    measured = bench.measured
    names = [*small, SPARK, *BAND_PEERS, *KEYED_PEERS, *STREAM_PEERS]
    return Section(
        name="spark-bands",
        title="Values that are close, on Spark",
        note=f"{ROWS // shrink:,} rows a side without equal keys, {keyed_rows:,} with "
        f"{ROWS_A_KEY} rows a key, {streamed_rows:,} as streams of {FILES} micro-batches, without "
        f"watermarks; values within {WIDTH} of each other, about one partner a row, "
        f"in random order from {FILES} Parquet files a side to the noop sink, two tasks at a time, "
        "on a warm session. `to Spark` is beside Spark's own total, or at most that where Spark "
        f"had not ended after {LIMIT_S // shrink} s. {_guess(measured, ROWS // shrink, small)}",
        rows=[_row(measured, name) for name in names],
        claims=_claims(measured),
        measured=measured,
    )


def _small(rows: int) -> str:
    return f"band, {rows:,} rows a side: Spark's own join"


def _guess(measured: Measured, rows: int, small: dict[str, int]) -> str:
    """What the full join would take Spark, if it took time in proportion to pairs of rows."""
    name, fewer = max(small.items(), key=lambda item: item[1])
    total = measured.total(name)
    if total is None:
        return ""
    guess = total * (rows / fewer) ** 2
    return f"By its {fewer:,} rows a side, all pairs of {rows:,} would take Spark {guess:,.0f} s."


def _least(measured: Measured, peer: str) -> float:
    """The total of a peer, or how long it ran at least."""
    return measured.best(peer).seconds


def _row(measured: Measured, name: str) -> Row:
    total = measured.total(name)
    peer = KEYED_SPARK if name in KEYED_PEERS else SPARK
    peer = SPARK_STREAMS if name in STREAM_PEERS else peer
    asked = {**BAND_PEERS, **KEYED_PEERS, **STREAM_PEERS}
    compared = total is not None and name in asked
    sign = "" if measured.best(peer).failure is None else "<= "
    late = (measured.best(name).failure or "").removeprefix("TimeoutError: ")
    return {
        "engine": name,
        "join": str(measured.best(name).notes.get("join", "-")),
        "first rows": seconds(measured.soonest(name, "first_seconds")),
        "all rows": late or seconds(total),
        "to Spark": sign + times(total / _least(measured, peer)) if compared and total else "-",
        "input rows": million_per_second(measured.best(name).rows_per_second) if total else "-",
        "result": "-" if late else measured.verdict(name),
    }


def _claims(measured: Measured) -> list[Claim]:
    ours = measured.total(WAVES)
    faster = _least(measured, SPARK) / ours if ours else 0.0
    sign = "" if measured.best(SPARK).failure is None else "at least "
    early = measured.ratio(measured.soonest(KEYED_WAVES, "first_seconds"), KEYED_SPARK)
    return [
        Claim(
            claim="A narrow band without equal keys on Spark, by waves",
            target="at least 50x as fast as Spark's own plan, exact",
            measured=f"{sign}{faster:.0f}x",
            holds=faster >= 50 and measured.exact(list(BAND_PEERS)),
        ),
        total_claim(measured, KEYED_WAVES, KEYED_SPARK, at_most=0.6),
        total_claim(measured, KEYED_WHOLE, KEYED_SPARK, at_most=0.6),
        early_claim("First rows of equal keys and a band on Spark", early, at_most=0.12),
    ]


def _say(name: str, what: str) -> None:
    print(f"  {name}: {what}", file=sys.stderr, flush=True)
