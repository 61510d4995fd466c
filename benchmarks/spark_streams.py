"""What `wm.join_streams` costs beside Spark's own stream-stream join.

The rows of `spark_tables` as two streams of ten files each, a file of both in every micro-batch,
to the noop sink: all ten micro-batches, and the first two, where the state is still small. Spark
takes minutes for all of them and runs once.
"""

from __future__ import annotations

import sys

from benchmarks.cases import MB, Claim, Places
from benchmarks.relations import beginning, expected, uniform
from benchmarks.report import Row, Section, seconds, times
from benchmarks.spark_measured import SparkMeasured
from benchmarks.spark_outside import SparkProcess

ROWS, BATCHES = 5_000_000, 10
FIRST_BATCHES = 2
MEMORY = 2048 * MB

SPARK_PART, SPARK = f"Spark, first {FIRST_BATCHES} batches", f"Spark, all {BATCHES} batches"
OURS_PART, OURS = f"ours, first {FIRST_BATCHES} batches", f"ours, all {BATCHES} batches"
CASES = {
    SPARK_PART: "spark_streams",
    OURS_PART: "our_streams",
    SPARK: "spark_streams",
    OURS: "our_streams",
}
BESIDE = {SPARK_PART: SPARK_PART, OURS_PART: SPARK_PART, SPARK: SPARK, OURS: SPARK}
TARGET = 15


def run(places: Places, *, quick: bool) -> Section:
    rows = ROWS // 20 if quick else ROWS
    tiny = uniform(places.file("streams-tiny"), rows=2_000, files=2)
    full = uniform(places.file("streams"), rows=rows, files=BATCHES)
    part = beginning(full, places.file("streams-beginning"), files=FIRST_BATCHES)
    inputs = {name: part if "first" in name else full for name in CASES}
    of_part, of_full = expected(part), expected(full)
    sums = {name: of_part if "first" in name else of_full for name in CASES}
    measured = SparkMeasured(expected=sums)
    with SparkProcess(places.scratch / "spark") as process:
        for peer in ("spark_streams", "our_streams"):
            warming = process.run(peer, tiny, memory=MEMORY, check=True)
            name = f"{peer}, warming up"
            measured.expected[name] = expected(tiny)
            measured.add(name, warming, quoted=False)
        for repetition in range(2 if quick else 3):
            for name, peer in CASES.items():
                # One round of ours is added up, which takes time, and not quoted. Spark's takes
                # so long that it runs once, and its rows are counted only.
                checking = repetition == 0
                if peer == "spark_streams" and repetition != 1:
                    continue
                one = process.run(peer, inputs[name], memory=MEMORY, check=checking)
                measured.add(name, one, quoted=not checking)
                print(
                    f"  {repetition} {name}: {one.failure or seconds(one.seconds)}",
                    file=sys.stderr,
                    flush=True,
                )
    return Section(
        name="spark-streams",
        title="Streams on Spark",
        note=f"{rows:,} rows a side in {BATCHES} micro-batches, every key once a side; two tasks "
        "at a time, noop sink. Spark keeps its state in RocksDB, in a partition for each task; "
        "ours on local disk. Spark runs once, ours best of two. `to Spark` is the rate beside "
        "Spark's on the same batches.",
        rows=[_row(measured, name) for name in CASES],
        claims=[_claim(measured)],
        measured=measured,
    )


def _ratio(measured: SparkMeasured, name: str) -> float | None:
    ours, spark = measured.best(name), measured.best(BESIDE[name])
    if ours.failure or spark.failure:
        return None
    return ours.rows_per_second / spark.rows_per_second


def _row(measured: SparkMeasured, name: str) -> Row:
    best = measured.best(name)
    return {
        "engine": name,
        "input": f"{best.rows_in:,} rows",
        "all rows": seconds(measured.total(name)),
        "input rows": "-" if best.failure else f"{best.rows_per_second:,.0f}/s",
        "to Spark": times(_ratio(measured, name)),
        "result": measured.verdict(name),
    }


def _claim(measured: SparkMeasured) -> Claim:
    ratio = _ratio(measured, OURS)
    return Claim(
        claim=f"Input rows a second of streams in {BATCHES} micro-batches",
        target=f"at least {TARGET}x Spark's stream-stream join (RocksDB), exact",
        measured=times(ratio),
        holds=ratio is not None and ratio >= TARGET and measured.exact([OURS]),
    )
