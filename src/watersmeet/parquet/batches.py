"""Reads Parquet files in batches of a wanted size, however long their rows turn out to be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from watersmeet.rows.widths import total_bytes

MAX_ROWS = 65_536
"""The most rows of a batch. More would not make the kernels faster, and take more memory."""

# If there are columns of texts, which may be of any length, batches have at most this many rows,
# and the first one fewer. Smaller batches would cost time: 1 M rows a side with short texts took
# 0.44 s of processor time with this many, 0.62 s with 8,192.
_ROWS = 32_768
_FIRST_ROWS = 256
# When a batch is this many times as large as it was meant to be, the next ones have fewer rows.
_TOO_LARGE = 4


def parquet_batches(
    file: pq.ParquetFile, batch_bytes: int, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """All rows of a file, or some columns of them, in batches of about `batch_bytes`.

    No footer says how long rows are when decoded (a text that repeats is stored once). So the first
    batch is small and its rows are measured, and after a batch that is much too large the next ones
    have fewer rows.
    """
    return iter(_Rows(file, batch_bytes, None if columns is None else list(columns)))


def rows_per_batch(schema: pa.Schema, batch_bytes: int) -> int:
    """How many rows of this schema make about `batch_bytes`, if texts and lists are short."""
    width = sum(_width(field.type) for field in schema)
    return max(1, min(MAX_ROWS, batch_bytes // max(1, width)))


def _width(kind: pa.DataType) -> int:
    if pt.is_struct(kind):
        return 1 + sum(_width(field.type) for field in kind)
    try:
        return int(kind.bit_width) // 8 + 1
    except ValueError:
        return 32


class _Rows:
    def __init__(self, file: pq.ParquetFile, batch_bytes: int, columns: list[str] | None) -> None:
        self._file = file
        self._batch_bytes = batch_bytes
        self._columns = columns
        schema = file.schema_arrow
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns])
        most = rows_per_batch(schema, batch_bytes)
        self._is_fixed = all(_is_fixed(field.type) for field in schema)
        self._most = most if self._is_fixed else min(most, _ROWS)
        self._width = 0.0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if self._is_fixed:
            yield from self._file.iter_batches(
                batch_size=self._most, columns=self._columns, use_threads=False
            )
            return
        for group in range(self._file.num_row_groups):
            yield from self._group(group)

    def _group(self, group: int) -> Iterator[pa.RecordBatch]:
        """A row group's rows. Arrow cannot change the size of batches on the way, so for another
        size the group is read again, without the rows that were yielded."""
        metadata = self._file.metadata.row_group(group)
        stored = self._stored_bytes(metadata) / max(metadata.num_rows, 1)
        done, known = 0, self._width > 0
        while done < metadata.num_rows:
            size = self._rows(max(stored, self._width))
            if not known:
                size = min(size, _FIRST_ROWS)
            passed = 0
            for batch in self._file.iter_batches(
                batch_size=size,
                row_groups=[group],
                columns=self._columns,
                use_threads=False,
            ):
                fresh = batch.slice(max(done - passed, 0))
                passed += len(batch)
                if not len(fresh):
                    continue
                done += len(fresh)
                mean = total_bytes(fresh) / len(fresh)
                yield fresh
                del batch, fresh
                # Long rows tend to come together, so the estimate falls slowly after them.
                self._width = max(mean, 0.75 * self._width)
                wanted = self._rows(max(stored, self._width))
                if (not known and wanted > size) or mean * size > _TOO_LARGE * self._batch_bytes:
                    known = True
                    if wanted != size:
                        break

    def _stored_bytes(self, group: pq.RowGroupMetaData) -> int:
        """Bytes of the columns in a row group, as they are in the file but not compressed."""
        if self._columns is None:
            return int(group.total_byte_size)
        wanted = set(self._columns)
        chunks = (group.column(number) for number in range(group.num_columns))
        return sum(
            chunk.total_uncompressed_size
            for chunk in chunks
            if chunk.path_in_schema in wanted or chunk.path_in_schema.split(".", 1)[0] in wanted
        )

    def _rows(self, width: float) -> int:
        return max(1, min(self._most, int(self._batch_bytes / max(width, 1))))


def _is_fixed(kind: pa.DataType) -> bool:
    if pt.is_struct(kind):
        return all(_is_fixed(field.type) for field in kind)
    if pt.is_dictionary(kind) or kind.num_fields:
        return False
    try:
        return int(kind.bit_width) > 0
    except ValueError:
        return False
