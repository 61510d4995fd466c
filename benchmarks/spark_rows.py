"""What `wm.join` costs beside Spark's own join where its inputs are no plain Parquet files.

2 M x 2 M rows. Of CSV and JSON files, and of unions of CSV and Parquet files, our tasks read the
rows, and they call a Python function that has Arrow. A function without it and cached rows are
plans without a shuffle, of which Spark computes some partitions at a time. Then rows that come
behind a shuffle, and what is computed at once: a shuffle of random rows, two partitions, a limit.
Spark's own join is the better of two, with its own 200 shuffle partitions and with 8, which suit
two cores.
"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.cases import MB, Claim, Places
from benchmarks.relations import expected, uniform
from benchmarks.report import Row, Section, seconds, times
from benchmarks.spark_claims import early_claim, total_claim
from benchmarks.spark_measured import SparkMeasured
from benchmarks.spark_outside import SparkProcess

ROWS, FILES = 2_000_000, 10
MEMORY = 1024 * MB
PARTITIONS = 8
PLANS = {
    "csv": "CSV files (file path)",
    "json": "JSON files (file path)",
    "udf": "a Python function on each side (file path)",
    "udf by spark": "a Python function without Arrow on each side",
    "cached": "cached rows",
    "union": "a union of Parquet files on each side (file path)",
    "mixed union": "a union of CSV and Parquet files on each side (file path)",
    "distinct": "distinct rows on each side (behind a shuffle)",
    "random": "distinct rows behind a filter that draws numbers (a shuffle of random rows)",
    "few": "JSON files in two partitions (row path)",
    "limit": "a limit on each side",
}
# For what comes behind a shuffle, or is computed at once, no target was set.
WITHOUT_TARGET = ("distinct", "random", "few", "limit")
SPARK, SPARK_FEW, WAVES = (
    "Spark's own join",
    f"Spark's own, {PARTITIONS} partitions",
    "ours, by waves",
)
PEERS = {SPARK: "spark_plan", SPARK_FEW: "spark_plan", WAVES: "waves_of_plan"}


def run(places: Places, *, quick: bool) -> Section:
    rows = ROWS // 10 if quick else ROWS
    relations = uniform(places.file("tables"), rows=rows, files=FILES)
    names = {plan: {peer: f"{plan}: {peer}" for peer in PEERS} for plan in PLANS}
    right = expected(relations)
    measured = SparkMeasured(
        expected={name: right for each in names.values() for name in each.values()}
    )
    with SparkProcess(places.scratch / "spark") as process:
        folders = {
            format: process.write(relations, places.file(format), format=format, memory=MEMORY)
            for format in ("csv", "json")
        }
        for repetition in range(2 if quick else 4):
            for plan in PLANS:
                for peer, name in names[plan].items():
                    settings: dict[str, Any] = {"plan": plan, "folders": folders}
                    if peer == SPARK_FEW:
                        settings["partitions"] = PARTITIONS
                    one = process.run(
                        PEERS[peer],
                        relations,
                        memory=MEMORY,
                        check=repetition == 0,
                        settings=settings,
                    )
                    measured.add(name, one, quoted=repetition > 0)
                    said = one.failure or seconds(one.seconds)
                    print(f"  {repetition} {name}: {said}", file=sys.stderr, flush=True)
    return Section(
        name="spark-rows",
        title="Tables that are no plain Parquet files, on Spark",
        note=f"{rows:,} rows a side, {right[0]:,} results to the noop sink, two tasks at a time, "
        "on a warm session. `to Spark` is beside the better of Spark's own joins of the same rows.",
        rows=[_row(measured, plan, name) for plan, each in names.items() for name in each.values()],
        claims=[
            claim
            for plan, each in names.items()
            if plan not in WITHOUT_TARGET
            for claim in _claims(measured, plan, each)
        ],
        measured=measured,
    )


def _spark(measured: SparkMeasured, plan: str) -> str:
    return measured.fastest([f"{plan}: {peer}" for peer in (SPARK, SPARK_FEW)])


def _row(measured: SparkMeasured, plan: str, name: str) -> Row:
    total = measured.total(name)
    return {
        "rows from": PLANS[plan],
        "engine": name.split(": ", 1)[1],
        "first rows": seconds(measured.soonest(name, "first_seconds")),
        "half": seconds(measured.soonest(name, "half_seconds")),
        "all rows": seconds(total),
        "to Spark": times(measured.ratio(total, _spark(measured, plan))),
        "result": measured.verdict(name),
    }


def _claims(measured: SparkMeasured, plan: str, names: dict[str, str]) -> list[Claim]:
    ours, spark = names[WAVES], _spark(measured, plan)
    first = measured.ratio(measured.soonest(ours, "first_seconds"), spark)
    return [
        total_claim(measured, ours, spark, at_most=1.0, claim=f"Total by waves, {PLANS[plan]}"),
        early_claim(f"First rows by waves, {PLANS[plan]}", first, at_most=0.15),
    ]
