"""Aggregates over TPC-H where lineitem is no plain Parquet: CSV, or with a column of a function.

Nothing is known of such a side before it is computed, not even how many rows it has. For each look
our tasks read some ranges of the CSV files, or row groups of which they call a function, or Spark
computes some partitions, in a random order; orders is in Parquet files.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.cases import MB, Claim, Places
from benchmarks.questions import QUESTIONS
from benchmarks.relations import Relations, generated, tpch
from benchmarks.report import Row, Section, seconds, times
from benchmarks.spark_outside import SparkProcess

MEMORY = 1024 * MB
PERCENT = 0.01
WAYS = {"csv": "CSV", "function": "a function", "pieces": "a function of pieces"}
QUICK, FULL = (0.1, 60), (10, 100)


@dataclass
class Measured:
    """By way and question."""

    found: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def broken(self) -> list[str]:
        return self.wrong

    def plain(self) -> dict[str, Any]:
        return {" ".join(name): found for name, found in self.found.items()} | {"wrong": self.wrong}


def run(places: Places, *, quick: bool) -> Section:
    scale, files = QUICK if quick else FULL
    folder = places.file("tpch")
    relations = tpch(folder, scale=scale, files=files, shuffled=False)
    generated(folder / "text", scale=scale, files=files, tables="lineitem", form="csv")
    text = replace(
        relations, right=replace(relations.right, folder=str(folder / "text" / "lineitem"))
    )
    measured = Measured()
    with SparkProcess(places.scratch / "spark") as process:
        for way in WAYS:
            for name in QUESTIONS:
                tables = text if way == "csv" else relations
                measured.found[way, name] = measure(process, tables, way, name, measured)
    return Section(
        name="row-aggregates",
        title="Aggregates over TPC-H where lineitem is no plain Parquet",
        note=f"Scale {scale:g}, lineitem from CSV files, or from Parquet with a column that an "
        "Arrow function of the user's computes, which our tasks call, or one that is given a "
        "partition piece by piece, which only Spark can; orders in Parquet. `1%` is when the "
        "widest interval (95%) is within 1%, `trusted` when no cell is marked any more either: of "
        "an unread partition nothing is known, and a single one may hold what no other does. Exact "
        "is after all looks. Spark answers at its end only.",
        rows=[row for key in measured.found for row in _rows(measured, key)],
        claims=[claim for key in measured.found for claim in _claims(measured, key)],
        measured=measured,
    )


def measure(
    process: SparkProcess, relations: Relations, way: str, name: str, measured: Measured
) -> dict[str, Any]:
    def ask(peer: str) -> Any:
        settings = {"question": name, "way": way}
        one = process.run(peer, relations, memory=MEMORY, settings=settings)
        print(f"  {way}, {name}, {peer}: {one.failure or seconds(one.seconds)}", file=sys.stderr)
        if one.failure:
            measured.wrong.append(f"{way} {name} {peer}: {one.failure}")
        return one

    # Each session's workers have their first look at something else.
    process.run("our_percent", relations, memory=MEMORY, settings={"question": "Q1", "way": way})
    ours, spark = ask("our_aggregate"), ask("spark_aggregate")
    if json.dumps(ours.notes.get("answer")) != json.dumps(spark.notes.get("answer")):
        measured.wrong.append(f"{way} {name}: answers differ from Spark's")
    looks = ours.notes["looks"]
    return {
        "spark": spark.seconds,
        "first": looks[0][0],
        "percent": next(look[0] for look in looks if look[4] <= PERCENT),
        "trusted": next(look[0] for look in looks if look[1] <= PERCENT and look[3]),
        "exact": ours.seconds,
        "looks": looks,
        "shown": ours.notes["shown"],
        "held": ours.notes["held"],
    }


def _rows(measured: Measured, key: tuple[str, str]) -> list[Row]:
    way, name = key
    found = measured.found[key]
    spark = found["spark"]
    moments = {
        "first interval": "first",
        "1%": "percent",
        "1%, trusted": "trusted",
        "exact": "exact",
    }
    return [
        {
            "engine": f"{WAYS[way]}, {name}: Spark's own",
            **dict.fromkeys(list(moments)[:3], "-"),
            "exact": seconds(spark),
            "1% to Spark": "-",
            "exact to Spark": times(1.0),
        },
        {
            "engine": f"{WAYS[way]}, {name}: ours",
            **{column: seconds(found[moment]) for column, moment in moments.items()},
            "1% to Spark": times(found["percent"] / spark),
            "exact to Spark": times(found["exact"] / spark),
        },
    ]


def _claims(measured: Measured, key: tuple[str, str]) -> list[Claim]:
    way, name = key
    found = measured.found[key]
    share, trusted = (found[moment] / found["spark"] for moment in ("percent", "trusted"))
    case = f"{WAYS[way]}, {name}"
    return [
        Claim(
            claim=f"First interval where lineitem is no plain Parquet, {case}",
            target="within 2 s of the call",
            measured=f"{found['first']:.2f} s",
            holds=found["first"] <= 2,
        ),
        Claim(
            claim=f"Every group within 1% (95%), {case}",
            target="at most 25% of Spark's exact time, trusted",
            measured=f"{share:.1%}; trusted {trusted:.1%}",
            holds=trusted <= 0.25,
        ),
    ]
