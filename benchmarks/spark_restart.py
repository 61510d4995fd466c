"""How soon a join of streams that was stopped with 1 GB of rows goes on, beside Spark's own.

A query takes in rows without partners, which all wait, and is stopped. In a new session, which has
joined a little so that Java and Python are warm, the same query is started again over one more file
a side, whose rows are partners of rows that wait. The clock runs from the start of the query to the
end of that micro-batch.

    python benchmarks/run.py --only spark-restart
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.cases import MB, Claim, Places
from benchmarks.relations import BEGINS, Relations, Table
from benchmarks.report import Row, Section, megabytes, seconds, times
from benchmarks.spark_measured import SparkMeasured
from benchmarks.spark_outside import SparkProcess

ROWS, FILES = 2_500_000, 5
"""Rows a side that wait, and the files they come in."""
NEW_ROWS = 10_000
"""Rows a side of the file that comes after the stop."""
TEXT_BYTES = 176
"""Beside a key, a time and a number of 8 bytes: 200 bytes a row."""
MEMORY = 512 * MB

ROCKSDB, IN_MEMORY, OURS = "Spark, state in RocksDB", "Spark, state in memory", "ours"
CASES = {
    ROCKSDB: ("spark_resumed", {"provider": "RocksDB"}),
    IN_MEMORY: ("spark_resumed", {"provider": "memory"}),
    OURS: ("our_resumed", {}),
}


def run(places: Places, *, quick: bool) -> Section:
    rows = ROWS // 20 if quick else ROWS
    measured = SparkMeasured()
    # First all that wait, each query in files of its own, then one more file a side.
    with SparkProcess(places.scratch / "before") as process:
        for name, (peer, settings) in CASES.items():
            inputs = _waiting(places.file(f"inputs of {name}"), rows=rows)
            where = {"home": str(places.file(f"query of {name}"))}
            one = process.run(peer, inputs, memory=MEMORY, settings=settings | where)
            measured.expected[_stopped(name)] = (0, 0)
            measured.add(_stopped(name), one)
            print(f"  {_stopped(name)}: {one.failure or seconds(one.seconds)}", file=sys.stderr)
            _one_more(inputs, waiting=rows)
    with SparkProcess(places.scratch / "after") as process:
        for name, (peer, settings) in CASES.items():
            tiny = _waiting(places.file(f"tiny inputs of {name}"), rows=2_000)
            where = {"home": str(places.file(f"tiny query of {name}"))}
            for number in range(3):
                process.run(peer, tiny, memory=MEMORY, settings=settings | where)
                _one_more(tiny, waiting=2_000, number=number)
        for name, (peer, settings) in CASES.items():
            inputs = Relations(
                left=_table(places.file(f"inputs of {name}"), "left"),
                right=_table(places.file(f"inputs of {name}"), "right"),
            )
            where = {"home": str(places.file(f"query of {name}"))}
            one = process.run(peer, inputs, memory=MEMORY, settings=settings | where)
            measured.expected[name] = (2 * NEW_ROWS, 0)
            measured.add(name, one)
            print(f"  {name}: {one.failure or seconds(one.seconds)}", file=sys.stderr)
            shutil.rmtree(where["home"], ignore_errors=True)
    return Section(
        name="spark-restart",
        title="A stopped join of streams that goes on",
        note=f"{rows:,} rows a side of 200 bytes wait for partners when the query is stopped. A "
        "new session, warmed up by three such starts of a tiny query, starts it again with "
        f"{NEW_ROWS:,} new rows a side, each of which has one partner among the rows that wait; "
        "it goes on after the time from the start of the query to the end of that micro-batch, and "
        "is at rest when the micro-batches without rows that may follow are done. Equal keys and "
        "times within 10 minutes, watermarks on both sides, two tasks at a time, noop sink. The "
        "state is that of Spark's own report, and of ours in files.",
        rows=[_row(measured, name) for name in CASES],
        claims=_claims(measured),
        measured=measured,
    )


def _waiting(folder: Path, *, rows: int) -> Relations:
    """Rows of two sides that share no key, and so are no partners of each other."""
    tables = []
    for side, name in enumerate(("left", "right")):
        rng = np.random.default_rng([rows, side])
        order = rng.permutation(rows)
        for number, part in enumerate(np.array_split(order, FILES)):
            _write(folder / name / f"part-{number:03}.parquet", name, 2 * part + side, rng)
        tables.append(_table(folder, name))
    return Relations(left=tables[0], right=tables[1])


def _one_more(inputs: Relations, *, waiting: int, number: int = 0) -> None:
    """A file a side whose rows each have one partner among those that wait on the other side."""
    for side, (name, table) in enumerate((("left", inputs.left), ("right", inputs.right))):
        rng = np.random.default_rng([waiting, side, number])
        few = rng.choice(waiting, min(NEW_ROWS, waiting), replace=False)
        path = Path(table.folder) / f"part-{FILES + number:03}.parquet"
        _write(path, name, 2 * few + 1 - side, rng)


def _write(path: Path, name: str, keys: Any, rng: np.random.Generator) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Letters that no compression makes much smaller, as rows of users are not either.
    letters = rng.integers(48, 123, len(keys) * TEXT_BYTES, dtype=np.uint8)
    ends = np.arange(0, len(letters) + 1, TEXT_BYTES, dtype=np.int32)
    texts = pa.StringArray.from_buffers(len(keys), pa.py_buffer(ends), pa.py_buffer(letters))
    columns = {
        "key": keys,
        f"{name}_time": BEGINS + rng.integers(0, 60, len(keys)),
        f"{name}_id": np.arange(len(keys)),
        f"{name}_text": texts,
    }
    hidden = path.with_name(f".{path.name}")
    pq.write_table(pa.table(columns), hidden)
    hidden.replace(path)


def _table(folder: Path, name: str) -> Table:
    columns = ("key", f"{name}_time", f"{name}_id", f"{name}_text")
    return Table(folder=str(folder / name), columns=columns)


def _stopped(name: str) -> str:
    return f"{name}, up to the stop"


def _row(measured: SparkMeasured, name: str) -> Row:
    best, before = measured.best(name), measured.best(_stopped(name))
    ours, theirs = (measured.soonest(each, "first_seconds") for each in (OURS, name))
    return {
        "engine": name,
        "up to the stop": seconds(measured.total(_stopped(name))),
        "goes on after": seconds(measured.soonest(name, "first_seconds")),
        "at rest after": seconds(measured.total(name)),
        "to ours": "-" if ours is None or theirs is None else times(theirs / ours),
        "rows in state": f"{before.notes.get('state_rows', 0):,}",
        "state": megabytes(before.notes.get("state_bytes", 0)),
        "result": measured.verdict(name) if best.failure is None else best.failure,
    }


def _claims(measured: SparkMeasured) -> list[Claim]:
    ours = measured.soonest(OURS, "first_seconds")
    theirs = [measured.soonest(name, "first_seconds") for name in (ROCKSDB, IN_MEMORY)]
    done = [each for each in theirs if each is not None]
    right = measured.verdict(OURS) == "right count"
    return [
        Claim(
            claim="A query that was stopped with 1 GB of rows in its state goes on",
            target="no later than the sooner of Spark's two, exact",
            measured=f"{seconds(ours)}, Spark {seconds(min(done)) if done else 'failed'}",
            holds=ours is not None and bool(done) and ours <= min(done) and right,
        )
    ]
