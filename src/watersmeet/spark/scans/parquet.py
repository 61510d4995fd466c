"""Does Arrow read a Parquet file's columns as Spark would? If so, their rows in Spark's types.

Only pairs of a file's type and a table's type are accepted for which both give the same value for
every value that the file can hold. All else is refused, even where Spark would read it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from watersmeet.parquet.batches import MAX_ROWS, parquet_batches
from watersmeet.spark.scans.refusal import Refused

# Without a buffered stream Arrow loads whole column chunks; with one of 64 kB to 1 MB it read 2.5 M
# rows of three columns in the same 90 ms, as it did when asked for whole row groups (pyarrow 26).
_BUFFER = 256 * 1024
# A decimal of so many digits fits 64 bits.
_LONG_DIGITS = 18


@dataclass(frozen=True)
class Dialect:
    """The settings of a session that decide what Spark makes of a Parquet file."""

    case_sensitive: bool
    # Whether days and instants before 1900 are taken as they are in files that do not say which
    # calendar they were written in; and the same of timestamps in 96 bits.
    dates_as_written: bool
    int96_as_written: bool

    def folded(self, name: str) -> str:
        """Names that are equal in this form are one name."""
        return name if self.case_sensitive else name.lower()


@dataclass(frozen=True)
class Reading:
    """How a column of a table comes out of a file: `name` is the file's, None if it has none."""

    name: str | None
    kind: pa.DataType

    def of(self, batch: pa.RecordBatch) -> pa.Array:
        if self.name is None:
            return pa.nulls(batch.num_rows, self.kind)
        column = batch.column(batch.schema.get_field_index(self.name))
        return column if column.type == self.kind else column.cast(self.kind)


def open_file(path: str) -> pq.ParquetFile:
    return pq.ParquetFile(
        path,
        pre_buffer=False,
        memory_map=False,
        buffer_size=_BUFFER,
        # Nanoseconds, the default, overflow outside the years 1677 to 2262.
        coerce_int96_timestamp_unit="us",
        arrow_extensions_enabled=False,
    )


def readings(
    file: pq.ParquetFile, columns: Sequence[pa.Field], *, dialect: Dialect
) -> tuple[Reading, ...]:
    """Where these columns of a table are in this file; Refused if it is not certain."""
    layout = _Layout(file, dialect)
    return tuple(layout.find(column) for column in columns)


def names_in(found: Sequence[Reading]) -> list[str]:
    """The columns to read from a file."""
    return [reading.name for reading in found if reading.name is not None]


def read_rows(
    file: pq.ParquetFile,
    row_group: int,
    *,
    start: int,
    stop: int,
    names: Sequence[str],
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """Rows [start, stop) of a row group. Arrow cannot skip rows: those before are decoded too."""
    if not names:
        yield from _no_columns(stop - start, batch_rows)
        return
    seen = 0
    for batch in file.iter_batches(
        batch_size=min(batch_rows, stop),
        row_groups=[row_group],
        columns=list(names),
        use_threads=False,
    ):
        first, last = max(start - seen, 0), min(stop - seen, batch.num_rows)
        seen += batch.num_rows
        if first < last:
            yield batch.slice(first, last - first)
        if seen >= stop:
            return


def read_all(
    file: pq.ParquetFile, *, names: Sequence[str], batch_bytes: int
) -> Iterator[pa.RecordBatch]:
    """All rows of a file, in batches of about so many bytes."""
    if not names:
        return _no_columns(file.metadata.num_rows, MAX_ROWS)
    return parquet_batches(file, batch_bytes, names)


def _no_columns(rows: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Batches that have a length and nothing else."""
    for done in range(0, rows, batch_rows):
        empty = pa.StructArray.from_buffers(pa.struct([]), min(batch_rows, rows - done), [None])
        yield pa.RecordBatch.from_struct_array(empty)


class _Layout:
    """A file's columns by name, and what they are."""

    def __init__(self, file: pq.ParquetFile, dialect: Dialect) -> None:
        self._dialect = dialect
        schema = file.schema
        leaves = [schema.column(number) for number in range(len(schema))]
        self._leaves = {leaf.path: leaf for leaf in leaves}
        self._names = Counter(dialect.folded(name) for name in file.schema_arrow.names)
        if len(self._leaves) < len(leaves):
            raise Refused("a file has two columns of one name")
        self._fields = {dialect.folded(field.name): field for field in file.schema_arrow}
        written = file.metadata.metadata or {}
        self._dates_as_written = _is_new_calendar(
            written, "3.0.0", legacy=b"legacyDateTime", otherwise=dialect.dates_as_written
        )
        self._int96_as_written = _is_new_calendar(
            written, "3.1.0", legacy=b"legacyINT96", otherwise=dialect.int96_as_written
        )

    def find(self, column: pa.Field) -> Reading:
        folded = self._dialect.folded(column.name)
        if folded not in self._fields:
            return Reading(None, column.type)
        if self._names[folded] > 1:
            raise Refused(f"a file has several columns that could be {column.name!r}")
        field = self._fields[folded]
        self._check(field.type, column.type, field.name)
        return Reading(field.name, column.type)

    def _check(self, found: pa.DataType, wanted: pa.DataType, path: str) -> None:
        if pt.is_struct(wanted):
            same = pt.is_struct(found) and [f.name for f in found] == [f.name for f in wanted]
            if not same:
                raise self._unlike(path, found, wanted)
            for inner, field in zip(found, wanted, strict=True):
                self._check(inner.type, field.type, f"{path}.{field.name}")
        elif pt.is_map(wanted):
            if not pt.is_map(found):
                raise self._unlike(path, found, wanted)
            self._check(found.key_type, wanted.key_type, f"{path}.key_value.key")
            self._check(found.item_type, wanted.item_type, f"{path}.key_value.value")
        elif pt.is_list(wanted):
            if not pt.is_list(found):
                raise self._unlike(path, found, wanted)
            self._check(found.value_type, wanted.value_type, self._element(path))
        else:
            self._check_leaf(found, wanted, path)

    def _element(self, path: str) -> str:
        """Where a list keeps its elements: the standard's name, or Arrow's former one."""
        former = f"{path}.list.item"
        if any(leaf == former or leaf.startswith(f"{former}.") for leaf in self._leaves):
            return former
        return f"{path}.list.element"

    def _check_leaf(self, found: pa.DataType, wanted: pa.DataType, path: str) -> None:
        leaf = self._leaves.get(path)
        if leaf is None:
            raise Refused(f"a file nests column {path!r} in a way of its own")
        if not _reads_alike(found, wanted, leaf):
            raise self._unlike(path, found, wanted)
        int96 = leaf.physical_type == "INT96"
        as_written = self._int96_as_written if int96 else self._dates_as_written
        zoned = pt.is_timestamp(wanted) and wanted.tz is not None
        if (zoned or pt.is_date(wanted)) and not as_written:
            raise Refused(
                f"column {path!r} has days or instants that may be in the calendar of before 1582"
            )

    def _unlike(self, path: str, found: pa.DataType, wanted: pa.DataType) -> Refused:
        leaf = self._leaves.get(path)
        kind = found if leaf is None else f"{leaf.physical_type} ({leaf.logical_type})"
        return Refused(f"column {path!r} is {kind} in a file and {wanted} in the table")


def _is_new_calendar(
    written: dict[bytes, bytes], since: str, *, legacy: bytes, otherwise: bool
) -> bool:
    """Whether a file is in today's calendar. Spark notes its version, and when it used the old."""
    version = written.get(b"org.apache.spark.version")
    if version is None:
        return otherwise
    return version.decode() >= since and b"org.apache.spark." + legacy not in written


def _reads_alike(found: pa.DataType, wanted: pa.DataType, leaf: pq.ColumnSchema) -> bool:
    if leaf.physical_type == "INT96":
        return bool(pt.is_timestamp(wanted) and wanted.tz is not None)
    if pt.is_timestamp(wanted):
        return bool(pt.is_timestamp(found)) and _is_same_clock(wanted, leaf)
    if pt.is_decimal128(wanted) and pt.is_decimal128(found):
        if leaf.physical_type == "BYTE_ARRAY":
            # Spark 4.3 fails on the short ones and where digits are added.
            return bool(found == wanted and found.precision > _LONG_DIGITS)
        more_digits = wanted.precision - wanted.scale >= found.precision - found.scale
        return bool(found.scale <= wanted.scale and more_digits)
    if pt.is_dictionary(found):
        found = found.value_type
    return found in _HELD_BY.get(wanted, ())


def _is_same_clock(wanted: pa.DataType, leaf: pq.ColumnSchema) -> bool:
    """Instants for a timestamp, wall clock times for a timestamp without zone."""
    logical = json.loads(leaf.logical_type.to_json())
    if logical.get("timeUnit") not in ("milliseconds", "microseconds"):
        return False
    instants = bool(logical["isAdjustedToUTC"])
    return instants == (wanted.tz is not None)


# Spark's type -> the types of a file whose every value it holds, and that Spark reads into it.
_HELD_BY: dict[pa.DataType, frozenset[pa.DataType]] = {
    pa.bool_(): frozenset({pa.bool_()}),
    pa.int8(): frozenset({pa.int8()}),
    pa.int16(): frozenset({pa.int8(), pa.int16(), pa.uint8()}),
    pa.int32(): frozenset({pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()}),
    pa.int64(): frozenset(
        {pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()}
    ),
    pa.float32(): frozenset({pa.float32()}),
    pa.float64(): frozenset({pa.float64(), pa.float32(), pa.int8(), pa.int16(), pa.int32()}),
    # Spark's way to hold an unsigned 64-bit integer.
    pa.decimal128(20, 0): frozenset({pa.uint64()}),
    pa.string(): frozenset({pa.string(), pa.large_string(), pa.string_view()}),
    pa.binary(): frozenset({pa.binary(), pa.large_binary(), pa.binary_view()}),
    pa.date32(): frozenset({pa.date32()}),
}
