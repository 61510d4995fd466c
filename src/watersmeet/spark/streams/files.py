"""Streams of which only the names of files travel through Spark: each instance reads the files.

Every instance is told every name, reads all rows and takes those that are its own, by the rule by
which Spark would have sent them (`watersmeet.spark.routing`). To decode a row in each of a few
instances costs less than to send it through the JVM once, and nothing has to be kept between two
tasks. What comes out are the rows as Spark would have put them on the wire, so nobody behind it
notices the difference, and a batch is known again whichever way it came.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from watersmeet.errors import InputChanged, SchemaError, one_line
from watersmeet.model import Side
from watersmeet.spark.microbatches.task import Task, check_instance
from watersmeet.spark.microbatches.wire import Wire
from watersmeet.spark.routing import HashRouter
from watersmeet.spark.scans.files import DataFile
from watersmeet.spark.scans.refusal import Refused
from watersmeet.spark.scans.selection import Selection
from watersmeet.spark.streams.refused import note_refused
from watersmeet.spark.streams.watermarks import Clock

if TYPE_CHECKING:
    from watersmeet.spark.streams.plan import StreamPlan

Mask = NDArray[np.bool_]

MOST_INSTANCES = 8
"""Each instance decodes all rows: with more of them than this, Spark's shuffle is cheaper."""

# Of 1 M rows of 24 bytes a batch, or 200,000 with watermarks, an instance took 20% less of the
# processor's time with this than with ten times as many batches, and no more than with a fourth.
_PUSHED_BYTES = 2**20
_MEMORY_SHARE = 16
_MILLISECOND = 1_000_000


@dataclass(frozen=True)
class FileInput:
    """An input that instances read. Sent with every task."""

    selection: Selection
    """Gives the input's columns, and behind them those that say what is a word: the end, then one
    for each promise with marker rows."""
    columns: int
    """How many columns the input has."""
    has_end: bool
    markers: tuple[tuple[int, bool], ...]
    """The promises that have marker rows: their numbers, and whether a marker row fixes the key, so
    that it goes to one instance."""
    times: tuple[int, ...] = ()
    """The columns by which Spark has a watermark."""
    flat: bool = False
    """Whether no column is in the paths, and folders may say nothing of any."""


@dataclass(frozen=True)
class Carried:
    """How streams travel, if of some of them only names do."""

    wire: Wire
    inputs: tuple[FileInput | None, ...]
    clock: Clock | None = None
    """Spark's own watermark, if it has to hear of it."""

    def first_time(self, input: int) -> int:
        """The place of an input's first watermark among those of all inputs."""
        return sum(len(each.times) for each in self.inputs[:input] if each is not None)


class FileRows:
    """Makes rows of the names that come to one instance in one batch."""

    def __init__(self, plan: StreamPlan, carried: Carried, task: Task) -> None:
        self.times: dict[str, int] = {}
        """The latest time that came in each column by which Spark has a watermark, by its place
        among all such columns."""
        self._plan = plan
        self._carried = carried
        self._task = task
        router = plan.router
        assert isinstance(router, HashRouter)
        self._router = router

    def of(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches with rows instead of names."""
        tags = self._plan.wire.tags
        for batch in batches:
            kinds = check_instance(batch, tags, self._task)
            for input, files in enumerate(self._carried.inputs):
                if files is not None:
                    names = batch.filter(pa.array(kinds == input))
                    for file in self._named(input, names):
                        yield from self._rows(input, files, file)
            yield from self._others(batch, kinds)

    def _others(self, batch: pa.RecordBatch, kinds: NDArray[np.int32]) -> Iterator[pa.RecordBatch]:
        """Rows of the inputs that Spark reads, and words, as the wire without names has them."""
        tags, wire = self._plan.wire.tags, self._plan.wire
        rest = np.ones(len(batch), np.bool_)
        for input, files in enumerate(self._carried.inputs):
            mine = kinds == input
            if files is None:
                mine |= kinds == tags.end(input)
                for number, side in enumerate(wire.markers):
                    if side == input:
                        mine |= kinds == tags.marker(number)
                if mine.any():
                    rows = batch.filter(pa.array(mine))
                    columns = [rows.column(slot + 1) for slot in self._carried.wire.places[input]]
                    yield wire.laid_out(rows.column(0), input, columns)
            rest &= ~mine
        if rest.any():
            yield wire.laid_out(batch.column(0).filter(pa.array(rest)), None, ())

    # ---- files ----------------------------------------------------------------------------------

    def _named(self, input: int, names: pa.RecordBatch) -> Iterator[DataFile]:
        """The files of these names, each as it was when Spark looked at it."""
        columns = [names.column(slot + 1).to_pylist() for slot in self._carried.wire.places[input]]
        for path, length, modified, *partition in zip(*columns, strict=True):
            if not length:  # Spark passes over empty files.
                continue
            place = path.removeprefix("file:")
            try:
                found = DataFile.find(place, tuple(partition))
            except OSError as error:
                raise _changed(place, f"cannot be read ({one_line(error)})") from error
            if (found.size, found.modified // _MILLISECOND) != (length, modified):
                raise _changed(place, "has changed")
            yield found

    def _rows(self, input: int, files: FileInput, file: DataFile) -> Iterator[pa.RecordBatch]:
        if files.flat:
            _check_folders(file.path, self._plan.folders[input])
        try:
            batch_bytes = pushed_bytes(self._plan.memory)
            for batch in files.selection.whole(file, batch_bytes=batch_bytes):
                yield from self._mine(input, files, batch)
        except Refused as refused:
            name = self._plan.names[input]
            note_refused(self._plan.state, name, f"{refused} ({file.path})")
            raise SchemaError(
                f"The file {file.path} of the {name} stream cannot be read as Spark would: "
                f"{refused}.",
                remedy="Start the query again: it is noted in the state that Spark is to read this "
                "stream, and no row is lost.",
            ) from refused
        except (OSError, pa.ArrowException) as error:
            raise _changed(file.path, f"cannot be read ({one_line(error)})") from error

    # ---- rows -----------------------------------------------------------------------------------

    def _mine(
        self, input: int, files: FileInput, batch: pa.RecordBatch
    ) -> Iterator[pa.RecordBatch]:
        """What this instance gets of some rows: by kind, as on the wire."""
        tags = self._plan.wire.tags
        for place, column in enumerate(files.times):
            self._note_time(self._carried.first_time(input) + place, batch.column(column))
        columns = batch.columns[: files.columns]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._schemas[input])
        here: Mask = self._router.assign(Side(input), rows) == self._task.instance
        words = [_true(column) for column in batch.columns[files.columns :]]
        data = here
        if words:
            data = here & ~np.logical_or.reduce(words)
        yield from self._tagged(rows, data, input, kind=input)
        ended = words.pop(0) if files.has_end else np.zeros(len(batch), np.bool_)
        for (number, fixed), said in zip(files.markers, words, strict=True):
            reached = here | ~self._has_key(input, rows) if fixed else True
            mine = said & ~ended & reached
            yield from self._tagged(rows, mine, input, kind=tags.marker(number))
        yield from self._tagged(rows, ended, input, kind=tags.end(input))

    def _tagged(
        self, rows: pa.RecordBatch, mine: Mask, input: int, *, kind: int
    ) -> Iterator[pa.RecordBatch]:
        count = int(np.count_nonzero(mine))
        if not count:
            return
        if count < len(mine):
            rows = rows.filter(pa.array(mine))
        number = self._plan.wire.tags.number(self._task.instance, kind)
        tags = pa.array(np.full(count, number, np.int32))
        yield self._plan.wire.laid_out(tags, input, rows.columns)

    @cached_property
    def _schemas(self) -> Sequence[pa.Schema]:
        return self._plan.join.inputs

    def _has_key(self, input: int, rows: pa.RecordBatch) -> Mask:
        found = np.ones(len(rows), np.bool_)
        for key in self._plan.join.keys:
            column = rows.column(rows.schema.get_field_index(key.of(Side(input))))
            found &= column.is_valid().to_numpy(zero_copy_only=False)
        return found

    def _note_time(self, place: int, times: pa.Array) -> None:
        last = pc.max(times)
        if last.is_valid:
            # Keys of what is noted as JSON are texts.
            self.times = latest(self.times, {str(place): last.value})


def latest(times: Mapping[str, int], others: Mapping[str, int]) -> dict[str, int]:
    """The later of two times in each place."""
    return {
        place: max(known[place] for known in (times, others) if place in known)
        for place in sorted({*times, *others})
    }


def pushed_bytes(memory: int) -> int:
    """How many bytes of rows are pushed to an operator at a time that has so much memory."""
    return min(_PUSHED_BYTES, memory // _MEMORY_SHARE)


def _true(column: pa.Array) -> Mask:
    """Where a condition is true: a null is not."""
    found: Mask = column.fill_null(False).to_numpy(zero_copy_only=False)
    return found


def _check_folders(path: str, folder: str) -> None:
    """Columns that are in paths are known from the folders that were there when the stream was
    opened."""
    for part in PurePosixPath(path).parent.parts[len(PurePosixPath(folder).parts) :]:
        if "=" in part:
            raise InputChanged(
                f"The file {path} is in a folder {part!r}, which names a column, and there was "
                "no such folder when the stream was opened.",
                remedy="Read the stream anew and start the query again.",
            )


def _changed(path: str, what: str) -> InputChanged:
    return InputChanged(
        f"The file {path} {what}, after Spark had found it.",
        remedy="Keep files as they are until they have been read, where every executor can read "
        "them, and move them there when they are complete. No row was taken in: put the file back "
        "and start the query again.",
    )
