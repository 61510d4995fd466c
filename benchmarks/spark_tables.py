"""What `wm.join` costs beside Spark's own join of the same tables, and when its first rows come.

5 M x 5 M rows from Parquet (a bigint key, a bigint and a double a side), every key once a side, so
5 M results, written to Spark's noop sink; from files that Arrow wrote and from files that Spark
wrote. Spark's own join has its own 200 shuffle partitions, and 8, which suit two cores. All peers
run in turn on one session of two tasks at a time, after a round that is checked and not quoted; the
waves also in a session of the user's own, which has none of the settings that `wm.session` chooses.
Then first answers are taken from sessions that are started for them.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from benchmarks.cases import MB, Claim, Places
from benchmarks.relations import Relations, expected, uniform
from benchmarks.report import Row, Section, million_per_second, seconds, times
from benchmarks.spark_claims import early_claim, total_claim
from benchmarks.spark_measured import SparkMeasured
from benchmarks.spark_outside import SparkProcess, cold_run

ROWS, FILES = 5_000_000, 10
MEMORY = 1024 * MB
PARTITIONS = 8

SPARK, WAVES, WHOLE = "Spark's own join", "ours, by waves", "ours, whole"
SPARK_FEW = f"{SPARK}, {PARTITIONS} partitions"
ROW_PATH = "ours, by waves, no plain scan"
COMPUTED = "ours, by waves, a computed key on each side"
PLAIN = "ours, by waves, in a session of one's own"
COMPUTED_PLAIN = "ours, by waves, a computed key on each side, in a session of one's own"
PEERS = {SPARK: "spark_table", SPARK_FEW: "spark_table", WAVES: "waves", WHOLE: "whole"}
PEERS |= {ROW_PATH: "waves_of_rows", COMPUTED: "waves_computed"}
PEERS |= {PLAIN: "waves", COMPUTED_PLAIN: "waves_computed"}
# The same of files that Spark wrote.
WRITTEN = "Spark's files: "
PEERS |= {f"{WRITTEN}{name}": PEERS[name] for name in (SPARK, SPARK_FEW, WAVES, COMPUTED, PLAIN)}
_OWN_SESSION = (PLAIN, COMPUTED_PLAIN, f"{WRITTEN}{PLAIN}")

COLD_OURS = "new session: ours, first wave"
COLD_COUNT = "new session: Spark, count of a table"
COLD_JOIN = "new session: Spark, first row of the join"
COLD_PEERS = {COLD_OURS: "first_wave", COLD_COUNT: "spark_count", COLD_JOIN: "spark_first"}


def run(places: Places, *, quick: bool) -> Section:
    rows = ROWS // 20 if quick else ROWS
    relations = uniform(places.file("tables"), rows=rows, files=FILES)
    right = expected(relations)
    measured = SparkMeasured(expected=dict.fromkeys(PEERS, right))
    with (
        SparkProcess(places.scratch / "spark") as process,
        SparkProcess(places.scratch / "own", plain=True) as own,
    ):
        written = _written(process, relations, places)
        for repetition in range(2 if quick else 4):
            for name, peer in PEERS.items():
                warming = repetition == 0
                where = own if name in _OWN_SESSION else process
                one = where.run(
                    peer,
                    written if name.startswith(WRITTEN) else relations,
                    memory=MEMORY,
                    check=warming,
                    settings={"partitions": PARTITIONS} if name.endswith(SPARK_FEW) else None,
                )
                measured.add(name, one, quoted=not warming)
                _say(f"{repetition} {name}", one.failure or seconds(one.seconds))
    for _ in range(1 if quick else 2):
        for name, peer in COLD_PEERS.items():
            one = cold_run(
                peer,
                relations,
                places.scratch / "spark",
                memory=MEMORY,
                # Where only Spark answers, nothing of ours is started beside it.
                warm=name == COLD_OURS,
            )
            measured.add(name, one)
            _say(name, one.failure or seconds(one.seconds))
    join = measured.best(SPARK).notes.get("join", "unknown")
    return Section(
        name="spark-tables",
        title="Tables on Spark",
        note=f"{rows:,} rows a side from {FILES} Parquet files a side, {right[0]:,} results to the "
        f"noop sink, two tasks at a time, on a warm session; Spark chose {join}. "
        "`first rows` and `half` are when so many rows had been written, `to Spark` is beside the "
        "total of Spark's own join, `to best` beside the better of Spark's own two on the same "
        "files. `new session` counts from before the session is started, in a "
        "process of its own.",
        rows=[_row(measured, name) for name in (*PEERS, *COLD_PEERS)],
        claims=[*_warm_claims(measured), _cold_claim(measured)],
        measured=measured,
    )


def _written(process: SparkProcess, relations: Relations, places: Places) -> Relations:
    """The same tables in files that Spark writes."""
    folders = process.write(relations, places.file("written"), format="parquet", memory=MEMORY)
    left, right = relations.left, relations.right
    return Relations(
        left=replace(left, folder=folders["left"]), right=replace(right, folder=folders["right"])
    )


def _best(measured: SparkMeasured, name: str) -> str:
    """The better of Spark's own joins of the same files."""
    files = WRITTEN if name.startswith(WRITTEN) else ""
    return measured.fastest([f"{files}{peer}" for peer in (SPARK, SPARK_FEW)])


def _row(measured: SparkMeasured, name: str) -> Row:
    total = measured.total(name)
    if name in COLD_PEERS:
        moments = {"first rows": seconds(total), "half": "-", "all rows": "-"}
        moments |= {
            "to Spark": "-",
            "to best": "-",
            "input rows": "-",
            "result": measured.verdict(name),
        }
        return {"engine": name, **moments}
    return {
        "engine": name,
        "first rows": seconds(measured.soonest(name, "first_seconds")),
        "half": seconds(measured.soonest(name, "half_seconds")),
        "all rows": seconds(total),
        "to Spark": times(measured.ratio(total, SPARK)),
        "to best": times(measured.ratio(total, _best(measured, name))),
        "input rows": million_per_second(measured.best(name).rows_per_second) if total else "-",
        "result": measured.verdict(name),
    }


def _warm_claims(measured: SparkMeasured) -> list[Claim]:
    first = measured.soonest(WAVES, "first_seconds")
    early = measured.ratio(first, SPARK)
    half = measured.ratio(measured.soonest(WAVES, "half_seconds"), SPARK)
    claims = [
        total_claim(measured, WAVES, SPARK, at_most=0.8),
        total_claim(measured, WHOLE, SPARK, at_most=0.8),
        total_claim(measured, ROW_PATH, SPARK, at_most=1.6),
        total_claim(measured, COMPUTED, SPARK, at_most=0.8),
        early_claim("First rows of the waves on Spark", early, at_most=0.12),
        early_claim("Half of the rows of the waves on Spark", half, at_most=0.6),
    ]
    within = Claim(
        claim="First wave's rows on a warm session",
        target="within 3 s of the call",
        measured=seconds(first),
        holds=first is not None and first <= 3,
    )
    best = [
        claim
        for name in (WAVES, COMPUTED, f"{WRITTEN}{WAVES}", f"{WRITTEN}{COMPUTED}")
        for claim in _best_claims(measured, name)
    ]
    apart = [
        _apart_claim(measured, one, other)
        for one, other in (
            (WAVES, PLAIN),
            (COMPUTED, COMPUTED_PLAIN),
            (f"{WRITTEN}{WAVES}", f"{WRITTEN}{PLAIN}"),
        )
    ]
    return [*claims, within, *best, *apart]


def _best_claims(measured: SparkMeasured, name: str) -> list[Claim]:
    spark = _best(measured, name)
    first = measured.ratio(measured.soonest(name, "first_seconds"), spark)
    beside = f"beside the better of Spark's own, {name}"
    return [
        total_claim(measured, name, spark, at_most=0.4, claim=f"Total {beside}", whose=""),
        early_claim(f"First rows {beside}", first, at_most=0.06, of="its total"),
    ]


def _apart_claim(measured: SparkMeasured, ours: str, plain: str) -> Claim:
    ratio = measured.ratio(measured.total(plain), ours)
    return Claim(
        claim=f"Total of {plain}",
        target="at most 1.1x that in wm.session()",
        measured=times(ratio),
        holds=ratio is not None and ratio <= 1.1,
    )


def _cold_claim(measured: SparkMeasured) -> Claim:
    ours, count, join = (measured.total(name) for name in COLD_PEERS)
    return Claim(
        claim="First wave's rows on a new session",
        target="at most 5 s after Spark's first answer, a count",
        measured=f"{seconds(ours)} against {seconds(count)} (its join: {seconds(join)})",
        holds=ours is not None and count is not None and ours <= count + 5,
    )


def _say(name: str, what: str) -> None:
    print(f"  {name}: {what}", file=sys.stderr, flush=True)
