"""What a join of four tables in one step costs on Spark, beside Spark's cascade of joins.

A chain (each table is joined with the next on columns of their own) and a star (all on one column),
in which a row has about one partner in each neighbour. Spark computes one join after the other,
each over the result of the one before.

    python benchmarks/run.py --only spark-many
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.cases import MB, Claim, Places
from benchmarks.relations import Relations, Table
from benchmarks.report import Row, Section, million_per_second, seconds, times
from benchmarks.spark_claims import early_claim, total_claim
from benchmarks.spark_measured import SparkMeasured
from benchmarks.spark_outside import SparkProcess

ROWS, FILES = 2_000_000, 10
MEMORY = 1024 * MB
NAMES = ("a", "b", "c", "d")
CHECK = "sum(((na * 31 + nb) % 1000003) * ((nc * 17 + nd) % 1000003))"

SHAPES: dict[str, dict[str, Any]] = {
    "chain": {
        "columns": {"a": ["x"], "b": ["x", "y"], "c": ["y", "z"], "d": ["z"]},
        "on": ["a.x = b.x", "b.y = c.y", "c.z = d.z"],
        "where": "a JOIN b ON a.x = b.x JOIN c ON b.y = c.y JOIN d ON c.z = d.z",
    },
    "star": {
        "columns": {name: ["x"] for name in NAMES},
        "on": "x",
        "where": "a JOIN b ON a.x = b.x JOIN c ON a.x = c.x JOIN d ON a.x = d.x",
    },
}
PEERS = {
    "Spark's cascade": "cascade",
    "ours, by waves": "many_waves",
    "ours, by waves, no plain scan": "many_waves_of_rows",
    "ours, whole": "many_whole",
}


def run(places: Places, *, quick: bool) -> Section:
    rows = ROWS // (20 if quick else 1)
    measured = SparkMeasured()
    for shape in SHAPES:
        folders = _tables(places.file(f"many-{shape}"), shape, rows)
        right = _expected(folders, shape)
        settings = {**SHAPES[shape], "folders": folders, "check": CHECK}
        relations = _relations(folders)
        with SparkProcess(places.scratch / "spark") as process:
            for repetition in range(2 if quick else 4):
                for words, peer in PEERS.items():
                    name = f"{shape}: {words}"
                    measured.expected[name] = right
                    one = process.run(
                        peer, relations, memory=MEMORY, check=repetition == 0, settings=settings
                    )
                    measured.add(name, one, quoted=repetition > 0)
                    print(f"  {name}: {one.failure or seconds(one.seconds)}", file=sys.stderr)
    names = [f"{shape}: {words}" for shape in SHAPES for words in PEERS]
    return Section(
        name="spark-many",
        title="Four tables in one join, on Spark",
        note=f"{rows:,} rows a table, from {FILES} Parquet files each to the noop sink; about one "
        "partner a row in each neighbour, two tasks at a time, on a warm session. Input rows are "
        "those of all four tables. `no plain scan` is with a filter that only Spark computes and "
        "that drops no row.",
        rows=[_row(measured, name, rows) for name in names],
        claims=[claim for shape in SHAPES for claim in _claims(measured, shape)],
        measured=measured,
    )


def _tables(folder: Path, shape: str, rows: int) -> dict[str, str]:
    """Four tables of random keys; each row has a number of its own."""
    found = {}
    for number, name in enumerate(NAMES):
        random = np.random.default_rng([number, len(shape)])
        columns = {key: random.integers(0, rows, rows) for key in SHAPES[shape]["columns"][name]}
        table = pa.table({**columns, f"n{name}": np.arange(rows)})
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        for file in range(FILES):
            part = table.slice(file * rows // FILES, rows // FILES)
            pq.write_table(part, place / f"{file}.parquet")
        found[name] = str(place)
    return found


def _relations(folders: dict[str, str]) -> Relations:
    """The first two, for what is measured around a peer."""
    left, right = (
        Table(
            folder=folders[name], columns=tuple(pq.read_schema(f"{folders[name]}/0.parquet").names)
        )
        for name in NAMES[:2]
    )
    return Relations(left=left, right=right)


def _expected(folders: dict[str, str], shape: str) -> tuple[int, int]:
    with duckdb.connect() as connection:
        for name, folder in folders.items():
            connection.execute(
                f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{folder}/*.parquet')"
            )
        query = f"SELECT count(*), {CHECK} FROM {SHAPES[shape]['where']}"
        found = connection.execute(query).fetchone()
    assert found is not None
    return int(found[0]), int(found[1])


def _row(measured: SparkMeasured, name: str, rows: int) -> Row:
    total = measured.total(name)
    peer = f"{name.partition(':')[0]}: Spark's cascade"
    ratio = measured.ratio(total, peer)
    return {
        "join": name,
        "first rows": seconds(measured.soonest(name, "first_seconds")),
        "all rows": seconds(total),
        "to Spark": times(ratio) if ratio is not None else "-",
        "input rows": million_per_second(len(NAMES) * rows / total) if total else "-",
        "result": measured.verdict(name),
    }


def _claims(measured: SparkMeasured, shape: str) -> list[Claim]:
    waves, peer = f"{shape}: ours, by waves", f"{shape}: Spark's cascade"
    early = measured.ratio(measured.soonest(waves, "first_seconds"), peer)
    return [
        total_claim(measured, waves, peer, at_most=1.0),
        total_claim(measured, f"{shape}: ours, whole", peer, at_most=1.0),
        early_claim(f"First rows of a four-way {shape} on Spark", early, at_most=0.2),
    ]
