"""Rows of Parquet files in batches of a wanted size, once it is seen how wide rows are.

Footers do not know: of a text that comes often, a file has one copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from watersmeet.spark.scans.scan import PlainScan, Split
from watersmeet.spark.scans.selection import Selection

_MOST_ROWS = 1 << 20
# Before it is known how wide rows are.
_FIRST_ROWS = 2048
_UNSEEN_WIDTH = 64
# What this process has learnt about the rows of files. A worker may live for ever, and forgets.
_widths: dict[tuple[str, ...], float] = {}
_MOST_KNOWN = 1_000


def read_paced(
    scan: PlainScan, split: Split, *, batch_bytes: int, most_rows: int = _MOST_ROWS
) -> Iterator[pa.RecordBatch]:
    """The rows of a split that the filter keeps, in batches of about so many bytes."""
    start = split.start
    selection = scan.selection(split.file)
    name = _name(scan, split, selection)
    width = _width(selection, name)
    if width is None:
        first = replace(split, stop=min(start + _FIRST_ROWS, split.stop))
        for batch in scan.read(first, batch_rows=_FIRST_ROWS):
            _learn(batch, name)
            yield batch
        start = first.stop
        width = _width(selection, name) or _UNSEEN_WIDTH * len(selection.columns)
    if start < split.stop:
        rows = min(max(int(batch_bytes / max(width, 1.0)), 1), most_rows)
        for batch in scan.read(replace(split, start=start), batch_rows=rows):
            _learn(batch, name)
            yield batch


def _width(selection: Selection, name: tuple[str, ...]) -> float | None:
    """Bytes of a row in memory, if it is known."""
    try:
        return float(sum(max(kind.bit_width / 8, 1.0) for kind in selection.kinds))
    except ValueError:
        return _widths.get(name)


def _learn(batch: pa.RecordBatch, name: tuple[str, ...]) -> None:
    if len(batch):
        if name not in _widths and len(_widths) >= _MOST_KNOWN:
            _widths.clear()
        _widths[name] = max(_widths.get(name, 0.0), batch.nbytes / len(batch))


def _name(scan: PlainScan, split: Split, selection: Selection) -> tuple[str, ...]:
    """What rows are known by: the first file of their branch, and the columns that are read."""
    branch = scan.branches[split.file]
    return (
        scan.files[scan.branches.index(branch)].path,
        *(column.field.name for column in selection.columns),
    )
