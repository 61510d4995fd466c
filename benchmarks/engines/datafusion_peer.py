"""DataFusion's symmetric hash join: answers while it reads, in memory, no spill.

DataFusion plans `SymmetricHashJoinExec` only for two unbounded inputs, and an unbounded table can
be a CSV file but no Parquet file or batch in memory (datafusion 55). The order it is told of is
true: rows are numbered as they arrive.
"""

from __future__ import annotations

from collections.abc import Iterator

import datafusion
import pyarrow as pa

from benchmarks.cases import Case, Places
from benchmarks.engines import Start
from benchmarks.inputs import LEFT, NAMES, RIGHT, file_of, tiny

_JOIN = 'SELECT l.key, l.left_row, r.right_row FROM "left" l JOIN "right" r ON l.key = r.key'


def join(case: Case, places: Places) -> Start:
    list(_stream(_context(tiny(case), places).sql(_JOIN)))  # warm-up
    context = _context(case, places)
    plan = context.sql(_JOIN).execution_plan().display_indent()
    if "SymmetricHashJoinExec" not in plan:
        raise RuntimeError(f"DataFusion has not planned its symmetric join:\n{plan}")

    def start() -> Iterator[pa.RecordBatch]:
        yield from _stream(context.sql(_JOIN))

    return start


def read(case: Case, places: Places) -> Start:
    """Only the two files, without a join: what of its time DataFusion spends on CSV."""
    context = _context(case, places)

    def start() -> Iterator[pa.RecordBatch]:
        for name in NAMES:
            yield from _stream(context.sql(f'SELECT * FROM "{name}"'))

    return start


def _stream(frame: datafusion.DataFrame) -> Iterator[pa.RecordBatch]:
    for batch in frame.execute_stream():
        yield batch.to_pyarrow()


def _context(case: Case, places: Places) -> datafusion.SessionContext:
    settings = datafusion.SessionConfig().with_target_partitions(case.cores)
    runtime = datafusion.RuntimeEnvBuilder()
    if case.memory is not None:
        runtime = runtime.with_greedy_memory_pool(case.memory)
    context = datafusion.SessionContext(settings.with_batch_size(case.input.batch_rows), runtime)
    for side in (LEFT, RIGHT):
        name = NAMES[side]
        context.sql(
            f'CREATE UNBOUNDED EXTERNAL TABLE "{name}" '
            f'("key" BIGINT NOT NULL, {name}_row BIGINT NOT NULL) STORED AS CSV '
            f"WITH ORDER ({name}_row ASC) LOCATION '{file_of(case, side, places)}' "
            "OPTIONS ('format.has_header' 'true')"
        ).collect()
    return context
