"""Functions that the user wrote in Python, called on rows that our tasks have read.

PySpark makes of a function what Spark's workers call, from batches to batches: conversions of types
and checks of what a function returns are its own. So values are Spark's, and only the way of the
rows through Java and back is spared.

Everything here can be sent to tasks, and loads in a worker without pyspark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from watersmeet.errors import FunctionFailed, one_line
from watersmeet.spark.scans.formulas import Computed

# Of what a function's error says.
_LONGEST = 500

_Called = Callable[[int, Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Function:
    """One function, or several of which each is given what the one before it returns."""

    commands: tuple[bytes, ...]
    """As PySpark pickled them, with the types of their results."""
    arguments: tuple[int, ...]
    """Their places among the arguments of all functions that are called together."""
    keywords: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Calls:
    """Functions that Spark calls together. Their results are columns, by names that the table does
    not have."""

    text: str
    """How Spark writes them."""
    functions: tuple[Function, ...]
    results: tuple[pa.Field, ...]
    arguments: tuple[Computed, ...]
    kinds: tuple[pa.DataType, ...]
    """What Spark hands arguments over as: timestamps with the session's time zone."""
    spark_kinds: str
    """The same in Spark's JSON."""
    form: int
    """What a function takes and returns: pandas' series, Arrow's arrays, or value by value."""
    settings: tuple[tuple[str, str], ...]
    """Of the session, as far as PySpark's conversions ask for them."""
    batch_rows: int
    """A function is given at most so many rows at a time."""
    batch_bytes: int
    """About so many bytes of rows at most, as Spark hands over no more either."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_called"}

    @property
    def names(self) -> frozenset[str]:
        """The columns that they look at."""
        return frozenset().union(*(argument.names for argument in self.arguments))

    def of(self, columns: Mapping[str, pa.Array], rows: int) -> dict[str, pa.Array]:
        """Their results, by name."""
        if not rows:
            return {field.name: pa.array([], field.type) for field in self.results}
        given = [
            argument.of(columns, rows).cast(kind)
            for argument, kind in zip(self.arguments, self.kinds, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(given, [f"_{place}" for place in range(len(given))])
        try:
            return self._results(batch)
        except BaseException as error:  # Whatever it is: it ends a function, and not our task.
            raise FunctionFailed(
                f"{self.text} cannot be computed. {type(error).__name__}: {_said(error)}.",
                remedy="Mend the function: the DataFrame's own collect() meets the same error.",
            ) from error

    def _results(self, batch: pa.RecordBatch) -> dict[str, pa.Array]:
        rows = self._rows_at_once(batch)
        pieces = (batch.slice(at, rows) for at in range(0, len(batch), rows))
        found = pa.Table.from_batches(self._called(0, pieces))
        return {
            field.name: _as_said(column.combine_chunks(), field.type)
            for field, column in zip(self.results, found.columns, strict=True)
        }

    def _rows_at_once(self, batch: pa.RecordBatch) -> int:
        """Python's objects of wide rows would take far more memory than the rows."""
        room: int = self.batch_bytes * len(batch) // max(batch.nbytes, 1)
        return min(self.batch_rows, max(room, 1))

    @cached_property
    def _called(self) -> _Called:
        # A worker has it, but loads it when it starts, which a plan in the driver need not.
        from pyspark import worker
        from pyspark.serializers import CPickleSerializer
        from pyspark.worker_message import UDFInfo

        told = [
            UDFInfo(
                [memoryview(command) for command in each.commands],
                list(each.arguments),
                dict(each.keywords),
                0,
            )
            for each in self.functions
        ]
        session = worker.RunnerConf(dict(self.settings))
        given = worker.EvalConf({"input_type": self.spark_kinds})
        read: Any = worker.read_udfs
        called: _Called = read(CPickleSerializer(), told, self.form, session, given)[0]
        return called


def _as_said(found: pa.Array, kind: pa.DataType) -> pa.Array:
    """PySpark does not convert all that functions return; Spark refuses the rest when it comes."""
    if found.type != kind and not (pt.is_timestamp(found.type) and pt.is_timestamp(kind)):
        raise TypeError(f"it returned {found.type}, and {kind} was said")
    return found.cast(kind)


def _said(error: BaseException) -> str:
    """A function's own error may be unable to say anything, or say what cannot be printed."""
    try:
        text = one_line(error)
    except Exception:
        return "it cannot be put into words"
    text = text.encode(errors="backslashreplace").decode()
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
