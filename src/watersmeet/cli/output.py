"""Where the command line puts rows: a Parquet, Arrow or CSV file, or CSV on standard output."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from watersmeet.cli.target import check_target
from watersmeet.errors import InvalidArgument

# A progressive join yields many small batches, and files of tiny row groups are slow to read.
_ROWS_PER_GROUP = 65_536
# But rows that wait to be written take memory beside the join's.
_BYTES_PER_GROUP = 16 * 2**20


class Sink(Protocol):
    def write_batch(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


def _csv(target: Any, schema: pa.Schema) -> Any:
    return csv.CSVWriter(target, schema)


def _tsv(target: Any, schema: pa.Schema) -> Any:
    return csv.CSVWriter(target, schema, write_options=csv.WriteOptions(delimiter="\t"))


_SINKS: dict[str, Callable[[Any, pa.Schema], Any]] = {
    ".parquet": pq.ParquetWriter,
    ".pq": pq.ParquetWriter,
    ".arrow": pa.ipc.new_file,
    ".feather": pa.ipc.new_file,
    ".csv": _csv,
    ".tsv": _tsv,
}
_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}


def check_output(path: str, *, inputs: list[str], force: bool) -> None:
    """Find out before the join, not after it, that its rows cannot be written."""
    if path == "-":
        return
    if _sink_of(Path(path)) is None:
        raise InvalidArgument(
            f"--output {path} has an extension that names no format.",
            remedy="Use one of " + ", ".join(_SINKS) + " (.csv and .tsv with .gz behind, too), or "
            "- for CSV on standard output.",
        )
    check_target(path, "--output", inputs=inputs, force=force)


def check_columns(path: str, schema: pa.Schema) -> None:
    """CSV has no way to write lists, structs and the like: say so before a row is joined."""
    sink = _csv if path == "-" else _sink_of(Path(path))
    if sink not in (_csv, _tsv):
        return
    unfit = [field for field in schema if not _fits_csv(field)]
    if unfit:
        columns = ", ".join(f"{field.name!r} ({field.type})" for field in unfit)
        raise InvalidArgument(
            f"--output {path} is CSV, which cannot hold the column{'s'[: len(unfit) > 1]} "
            f"{columns}.",
            remedy="Write .parquet or .arrow instead.",
        )


def _fits_csv(field: pa.Field) -> bool:
    row = pa.table([pa.nulls(1, field.type)], schema=pa.schema([field.with_nullable(True)]))
    try:
        csv.write_csv(row, pa.BufferOutputStream())
    except pa.ArrowException:
        return False
    return True


def _sink_of(path: Path) -> Callable[[Any, pa.Schema], Any] | None:
    if path.suffix.lower() in _COMPRESSED:
        sink = _SINKS.get(Path(path.stem).suffix.lower())
        return sink if sink in (_csv, _tsv) else None
    return _SINKS.get(path.suffix.lower())


@contextlib.contextmanager
def open_output(path: str, schema: pa.Schema) -> Iterator[Output]:
    """A file appears under `path` when it is complete; standard output gets rows as they come."""
    if path == "-":
        output = Output(_csv(sys.stdout.buffer, schema), rows_per_write=1)
        yield output
        output.finish()
        sys.stdout.flush()
        return
    final = Path(path)
    growing = final.with_name(f".{final.name}.{os.getpid()}.part")
    sink = _sink_of(final)
    assert sink is not None, "checked before"
    try:
        with contextlib.ExitStack() as stack:
            target: Any = growing
            if final.suffix.lower() in _COMPRESSED:
                packed = pa.output_stream(growing, compression=_COMPRESSED[final.suffix.lower()])
                target = stack.enter_context(packed)
            output = Output(sink(target, schema), _ROWS_PER_GROUP)
            yield output
            output.finish()
        growing.replace(final)
    except (OSError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or str(error).strip().partition("\n")[0]
        raise InvalidArgument(
            f"--output {path} cannot be written ({reason}).",
            remedy="Choose a place that is writable and has space.",
        ) from error
    finally:
        growing.unlink(missing_ok=True)


class Output:
    """Collects small batches and writes them in groups."""

    def __init__(self, sink: Sink, rows_per_write: int) -> None:
        self._sink = sink
        self._rows_per_write = rows_per_write
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._rows += len(batch)
        self._bytes += batch.nbytes
        if self._rows >= self._rows_per_write or self._bytes >= _BYTES_PER_GROUP:
            self._write_waiting()

    def finish(self) -> None:
        self._write_waiting()
        self._sink.close()

    def _write_waiting(self) -> None:
        if self._waiting:
            self._sink.write_batch(pa.concat_batches(self._waiting))
            self._waiting, self._rows, self._bytes = [], 0, 0
