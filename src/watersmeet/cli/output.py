"""Where the command line puts rows: a Parquet, Arrow or CSV file, or CSV on standard output."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

from watersmeet.errors import InvalidArgument

# A progressive join answers in many small batches; files of tiny row groups are slow to read.
_ROWS_PER_GROUP = 65_536


class Sink(Protocol):
    def write_batch(self, batch: pa.RecordBatch) -> None: ...

    def close(self) -> None: ...


_SINKS: dict[str, Any] = {
    ".parquet": pq.ParquetWriter,
    ".pq": pq.ParquetWriter,
    ".arrow": pa.ipc.new_file,
    ".feather": pa.ipc.new_file,
    ".csv": csv.CSVWriter,
}


def check_output(path: str) -> None:
    """Find out before the join, not after it, that its rows cannot be written."""
    if path == "-":
        return
    if Path(path).suffix.lower() not in _SINKS:
        raise InvalidArgument(
            f"--output {path} has an extension that names no format.",
            remedy="Use one of " + ", ".join(_SINKS) + ", or - for CSV on standard output.",
        )
    if not Path(path).absolute().parent.is_dir():
        raise InvalidArgument(
            f"--output {path} is in a directory that does not exist.", remedy="Create it first."
        )


@contextlib.contextmanager
def open_output(path: str, schema: pa.Schema) -> Iterator[Output]:
    """Rows appear under `path` when all are there; on standard output, as they come."""
    if path == "-":
        output = Output(csv.CSVWriter(sys.stdout.buffer, schema), rows_per_write=1)
        yield output
        output.finish()
        sys.stdout.flush()
        return
    final = Path(path)
    growing = final.with_name(f".{final.name}.part")
    try:
        output = Output(_SINKS[final.suffix.lower()](growing, schema), _ROWS_PER_GROUP)
        yield output
        output.finish()
        growing.replace(final)
    except OSError as error:
        raise InvalidArgument(
            f"--output {path} cannot be written ({error.strerror or error}).",
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

    def write(self, batch: pa.RecordBatch) -> None:
        self._waiting.append(batch)
        self._rows += len(batch)
        if self._rows >= self._rows_per_write:
            self._write_waiting()

    def finish(self) -> None:
        self._write_waiting()
        self._sink.close()

    def _write_waiting(self) -> None:
        if self._waiting:
            self._sink.write_batch(pa.concat_batches(self._waiting))
            self._waiting, self._rows = [], 0
