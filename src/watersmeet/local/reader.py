"""One thread for each input, which asks its source for batches and puts them into the inbox."""

from __future__ import annotations

import threading

import pyarrow as pa

from watersmeet.errors import MemoryTooSmall, SchemaError
from watersmeet.local.inbox import Closed, Inbox
from watersmeet.local.sources import Source
from watersmeet.rows.widths import longest_row
from watersmeet.store.leftovers import Leftovers

_PATIENCE_S = 0.25
# Several copies of a row are in memory at a time: in its batch, among the operator's rows, in a
# block that is being written, in a result beside a row of the other side.
_ROWS_IN_MEMORY = 8


class Reader:
    """Reads one source until it ends or fails, or until the join is closed.

    A source that does not return cannot be interrupted from outside. So the thread is a daemon that
    refers to nothing of the join but the inbox, and it ends when the source returns after all.
    """

    def __init__(self, source: Source, input: int, inbox: Inbox, *, memory: int) -> None:
        self._source = source
        self._input = input
        self._inbox = inbox
        self._memory = memory
        name = f"watersmeet-{source.name.partition(' ')[0]}"
        self._thread = threading.Thread(target=self._read, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Wait a moment for the thread; call after the inbox is closed."""
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_PATIENCE_S)

    def _read(self) -> None:
        input, schema = self._input, self._source.schema
        leftovers = Leftovers(self._memory)
        try:
            batches = self._source.batches()
            while True:
                self._inbox.wait_for_room(input)
                batch = next(batches, None)
                if batch is None:
                    break
                if schema is None:
                    schema = batch.schema
                    self._inbox.show_columns(input, schema)
                check_rows(batch, self._source.name, self._memory)
                nbytes = batch.nbytes
                self._inbox.put(input, fitting(batch, schema, self._source.name))
                del batch  # Or it would stay in memory while this thread waits for room.
                leftovers.passed(nbytes)
            self._inbox.end(input)
        except Closed:
            pass
        except BaseException as error:  # Even SystemExit is raised again in the caller's thread.
            self._inbox.fail(input, error)


def check_rows(batch: pa.RecordBatch, name: str, memory: int) -> None:
    """Refuse a row that is too long for the memory: batches are cut into pieces, not rows."""
    most = memory // _ROWS_IN_MEMORY
    if batch.nbytes <= most or (longest := longest_row(batch)) <= most:
        return
    raise MemoryTooSmall(
        f"{name} has a row of {longest:,} bytes, of which several must be held at "
        f"a time; the join has {memory:,} bytes in all.",
        remedy=f'Give it at least memory="{-(-_ROWS_IN_MEMORY * longest // 2**20)}MB", or '
        "leave the longest columns out.",
    )


def fitting(batch: pa.RecordBatch, schema: pa.Schema, name: str) -> pa.RecordBatch:
    """The batch in the schema of the batches before it."""
    if batch.schema.equals(schema):
        return batch
    if batch.schema.names == schema.names and batch.schema.types == schema.types:
        # Only nullability differs, which says something about the rows and changes none.
        return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
    raise SchemaError(
        f"{name} delivered a batch with the columns {_describe(batch.schema)}, "
        f"after others with {_describe(schema)}.",
        remedy="Cast every batch to one schema before joining.",
    )


def _describe(schema: pa.Schema) -> str:
    return "(" + ", ".join(f"{field.name}: {field.type}" for field in schema) + ")"
