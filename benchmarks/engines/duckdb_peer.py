"""DuckDB's hash join: blocking, spills when it has a memory limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa

from benchmarks.cases import Case, Places
from benchmarks.engines import Start
from benchmarks.inputs import LEFT, NAMES, RIGHT, batches, file_of

_COLUMNS = "l.*, r.* EXCLUDE (key)"


def join(case: Case, places: Places) -> Start:
    connection = duckdb.connect()
    # Before the limit is set: even this may be too much for it.
    connection.execute("SELECT count(*) FROM range(100) l JOIN range(100) r USING (range)")
    connection.execute(f"SET threads = {case.cores}")
    # Rows may come in any order, as ours do.
    connection.execute("SET preserve_insertion_order = false")
    if case.memory is not None:
        places.spill.mkdir(parents=True, exist_ok=True)
        connection.execute(f"SET temp_directory = '{places.spill}'")
        connection.execute(f"SET memory_limit = '{case.memory} bytes'")
    query = f"SELECT {_COLUMNS} FROM {_relation(connection, LEFT, case, places)} l "
    query += f"JOIN {_relation(connection, RIGHT, case, places)} r USING (key)"

    def start() -> Iterator[pa.RecordBatch]:
        reader: Any = connection.execute(query).to_arrow_reader(case.input.batch_rows)
        yield from reader

    return start


def _relation(connection: Any, side: int, case: Case, places: Places) -> str:
    if case.source in ("csv", "parquet"):
        return f"read_{case.source}('{file_of(case, side, places)}')"
    name = f"{NAMES[side]}_table"
    connection.register(name, pa.Table.from_batches(batches(case.input, side)))
    return name
