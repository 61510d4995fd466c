"""Arrow's own hash join (Acero): blocking, in memory, no spill."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.csv as csv

from benchmarks.cases import Case, Places
from benchmarks.engines import Start
from benchmarks.inputs import LEFT, RIGHT, batches, file_of


def join(case: Case, places: Places) -> Start:
    pa.set_cpu_count(case.cores)
    left = pa.Table.from_batches(batches(case.input, LEFT))
    right = pa.Table.from_batches(batches(case.input, RIGHT))

    def start() -> Iterator[pa.RecordBatch]:
        joined = left.join(right, "key", join_type="inner", use_threads=case.cores > 1)
        yield from joined.to_batches()

    left.slice(0, 100).join(right.slice(0, 100), "key", join_type="inner")
    return start


def read(case: Case, places: Places) -> Start:
    """Only the two files, without a join: what of our time Arrow spends on CSV."""
    paths = [file_of(case, side, places) for side in (LEFT, RIGHT)]

    def start() -> Iterator[pa.RecordBatch]:
        for path in paths:
            with csv.open_csv(path, read_options=csv.ReadOptions(use_threads=False)) as reader:
                yield from reader

    return start
