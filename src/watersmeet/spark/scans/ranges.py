"""Between which values does a column lie in each row group of a table?"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from watersmeet.spark.scans.parquet import open_file, readings
from watersmeet.spark.scans.pruning import Range, Statistics
from watersmeet.spark.scans.scan import PlainScan

_FOOTERS_AT_ONCE = 8


def ranges_of(scan: PlainScan, column: str) -> list[Range | None]:
    """For each row group, from the footers; None where they do not say."""
    found = scan.columns[scan.output[scan.schema.get_field_index(column)]]
    if found.partition is not None:
        return [None] * len(scan.row_groups)

    def open_footer(path: str) -> Statistics:
        with open_file(path) as file:
            (reading,) = readings(file, [found.field], dialect=scan.dialect)
            return Statistics(file, {0: reading})

    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        files = list(pool.map(open_footer, [file.path for file in scan.files]))
    return [files[group.file].range(group.number, 0) for group in scan.row_groups]
