"""What `wm.join_streams` costs beside Spark's own stream-stream join.

The rows of `spark_tables` as two streams of ten files each, a file of both in every micro-batch,
to the noop sink: all ten micro-batches, and the first two, where the state is still small. Spark
takes minutes for all of them and runs once. Ours twice: on the file path, where instances read the
files, and with a filter that only Spark computes, so that all rows come through Spark. And many
micro-batches of a few rows, whose time is that of the micro-batches themselves.
"""

from __future__ import annotations

import sys
from statistics import median

from benchmarks.cases import MB, Claim, Places
from benchmarks.relations import beginning, expected, uniform
from benchmarks.report import Row, Section, seconds, times
from benchmarks.spark_measured import SparkMeasured
from benchmarks.spark_outside import SparkProcess

ROWS, BATCHES = 5_000_000, 10
FIRST_BATCHES = 2
SMALL_ROWS, SMALL_BATCHES = 1_000, 20
MEMORY = 2048 * MB

SPARK_PART, SPARK = f"Spark, first {FIRST_BATCHES} batches", f"Spark, all {BATCHES} batches"
OURS_PART, OURS = f"ours, first {FIRST_BATCHES} batches", f"ours, all {BATCHES} batches"
BY_ROWS = f"ours, rows from Spark, all {BATCHES} batches"
SPARK_SMALL, OURS_SMALL = "Spark, small batches", "ours, small batches"
CASES = {
    SPARK_PART: "spark_streams",
    OURS_PART: "our_streams",
    SPARK: "spark_streams",
    OURS: "our_streams",
    BY_ROWS: "our_streams_by_rows",
    SPARK_SMALL: "spark_streams",
    OURS_SMALL: "our_streams",
}
BESIDE = {
    SPARK_PART: SPARK_PART,
    OURS_PART: SPARK_PART,
    SPARK: SPARK,
    OURS: SPARK,
    BY_ROWS: SPARK,
    SPARK_SMALL: SPARK_SMALL,
    OURS_SMALL: SPARK_SMALL,
}
TARGET, TARGET_BY_ROWS = 40, 20
# The first micro-batches of a query compile what the others run.
_WARMING_BATCHES = 5


def run(places: Places, *, quick: bool) -> Section:
    rows = ROWS // 20 if quick else ROWS
    tiny = uniform(places.file("streams-tiny"), rows=2_000, files=2)
    full = uniform(places.file("streams"), rows=rows, files=BATCHES)
    part = beginning(full, places.file("streams-beginning"), files=FIRST_BATCHES)
    small = uniform(
        places.file("streams-small"), rows=SMALL_ROWS * SMALL_BATCHES, files=SMALL_BATCHES
    )
    inputs = {
        name: part if "first" in name else small if "small" in name else full for name in CASES
    }
    sums = {id(each): expected(each) for each in (part, full, small)}
    measured = SparkMeasured(expected={name: sums[id(inputs[name])] for name in CASES})
    with SparkProcess(places.scratch / "spark") as process:
        for peer in ("spark_streams", "our_streams", "our_streams_by_rows"):
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
        f"at a time, noop sink; small batches have {SMALL_ROWS:,} rows a side. Spark keeps its "
        "state in RocksDB, in a partition for each task; ours on local disk. Ours reads the files "
        "itself, but where it says that rows come from Spark, because of a filter that only Spark "
        "computes. Spark runs once, ours best of two. `to Spark` is the rate beside Spark's on the "
        f"same batches; `a batch` is the median from the {_WARMING_BATCHES + 1}th on, of small "
        "batches, and of all otherwise.",
        rows=[_row(measured, name) for name in CASES],
        claims=_claims(measured),
        measured=measured,
    )


def _ratio(measured: SparkMeasured, name: str) -> float | None:
    ours, spark = measured.best(name), measured.best(BESIDE[name])
    if ours.failure or spark.failure:
        return None
    return ours.rows_per_second / spark.rows_per_second


def _batch(measured: SparkMeasured, name: str) -> float | None:
    """Seconds of a micro-batch that brings rows."""
    best = measured.best(name)
    if best.failure:
        return None
    notes = zip(best.notes["batch_ms"], best.notes["batch_rows"], strict=True)
    taken = [float(ms) for ms, rows in notes if rows]
    return median(taken[_WARMING_BATCHES:] if "small" in name else taken) / 1000


def _row(measured: SparkMeasured, name: str) -> Row:
    best = measured.best(name)
    return {
        "engine": name,
        "input": f"{best.rows_in:,} rows",
        "all rows": seconds(measured.total(name)),
        "a batch": seconds(_batch(measured, name)),
        "input rows": "-" if best.failure else f"{best.rows_per_second:,.0f}/s",
        "to Spark": times(_ratio(measured, name)),
        "result": measured.verdict(name),
    }


def _claims(measured: SparkMeasured) -> list[Claim]:
    files, rows = _ratio(measured, OURS), _ratio(measured, BY_ROWS)
    ours, spark = _batch(measured, OURS_SMALL), _batch(measured, SPARK_SMALL)
    return [
        Claim(
            claim=f"Input rows a second of streams in {BATCHES} micro-batches",
            target=f"at least {TARGET}x Spark's stream-stream join (RocksDB), exact",
            measured=times(files),
            holds=files is not None and files >= TARGET and measured.exact([OURS]),
        ),
        Claim(
            claim="The same with rows that come through Spark",
            target=f"at least {TARGET_BY_ROWS}x Spark's, exact",
            measured=times(rows),
            holds=rows is not None and rows >= TARGET_BY_ROWS and measured.exact([BY_ROWS]),
        ),
        Claim(
            claim=f"A micro-batch of {SMALL_ROWS:,} rows a side",
            target="no slower than Spark's",
            measured=f"{seconds(ours)}, Spark {seconds(spark)}",
            holds=ours is not None
            and spark is not None
            and ours <= spark
            and measured.exact([OURS_SMALL]),
        ),
    ]
