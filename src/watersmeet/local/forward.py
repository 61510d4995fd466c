"""Inputs that can only be read once, from their beginning."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from watersmeet.errors import InvalidArgument
from watersmeet.estimators.order import RowOrder
from watersmeet.local.blocks import BlockTable, MemoryTable
from watersmeet.local.formats import cut
from watersmeet.local.sources import Source
from watersmeet.policies.order import random_order

# Rows that are gathered from a table in memory at a time.
_AT_ONCE = 8192
# Rows in random order look as unlike one once in a million inputs.
_ORDER_TEST = 1e-6


class Forward:
    """An input that is read from its beginning.

    `held` are the batches that were read before it was known that not all of them fit. `rows` is
    how many there are, if the input itself knows.
    `objection` says why its order is no random one, if that is known.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        rest: Iterator[pa.RecordBatch],
        *,
        held: deque[pa.RecordBatch] | None = None,
        rows: int | None = None,
        objection: str = "",
    ) -> None:
        self.name = name
        self.schema = schema
        self.rows = rows
        self.objection = objection
        self._held = held or deque()
        self._rest = rest
        self.held_bytes = sum(batch.nbytes for batch in self._held)
        self.bytes_read = 0

    def next(self) -> pa.RecordBatch | None:
        """The next batch, and None after the last one."""
        if self._held:
            batch = self._held.popleft()
            self.held_bytes -= batch.nbytes
        else:
            found = next(self._rest, None)
            if found is None:
                return None
            batch = found
        self.bytes_read += batch.nbytes
        return batch

    def close(self) -> None:
        self._held.clear()
        close: Any = getattr(self._rest, "close", None)
        if close is not None:
            close()

    @classmethod
    def over(cls, table: BlockTable, names: list[str], *, seed: int, batch_bytes: int) -> Forward:
        """The rows of a table whose blocks can be read in any order, in a random one; what was read
        to be kept is let go, in the order in which it came."""
        if isinstance(table, MemoryTable) and table.ours:
            return cls(table.name, table.schema, iter(()), held=deque(table.batches()))
        if isinstance(table, MemoryTable):
            return cls(table.name, table.schema, table.shuffled(seed, _AT_ONCE))
        count = len(table.blocks(names[0], names))
        order = random_order(count, seed=seed)
        generator = np.random.default_rng(seed)

        def read() -> Iterator[pa.RecordBatch]:
            for block in order:
                for _, batch in table.read([block], names, batch_bytes=batch_bytes):
                    yield batch.take(pa.array(generator.permutation(len(batch))))

        chosen = pa.schema([table.schema.field(name) for name in names])
        objection = f"rows of {table.name} come block by block, and those of a block may be alike"
        return cls(table.name, chosen, read(), objection=objection)


class InputOrder:
    """Whether the rows of an input come in random order, as far as its columns show."""

    def __init__(self, word: str) -> None:
        self._word = word
        self._columns: dict[str, RowOrder] = {}
        # Of texts and the like, one value is followed: how often it comes.
        self._followed: dict[str, pa.Scalar] = {}

    def watch(self, batch: pa.RecordBatch) -> None:
        """The next rows."""
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            values = self._numbers(name, column)
            if values is not None:
                self._columns.setdefault(name, RowOrder()).add(values)

    def objection(self) -> str:
        for name, order in self._columns.items():
            if order.probability() < _ORDER_TEST:
                return (
                    f"column {name!r} changes along the {self._word} input, whose rows do not "
                    "come in random order"
                )
        return ""

    def _numbers(self, name: str, column: pa.Array) -> NDArray[np.float64] | None:
        column = column.drop_null()
        if not len(column) or pt.is_nested(column.type):
            return None
        try:
            if pt.is_temporal(column.type):
                column = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
            elif not (pt.is_integer(column.type) or pt.is_floating(column.type)):
                followed = self._followed.setdefault(name, column[0])
                column = pc.equal(column, followed).cast(pa.int8())
            floats = column.cast(pa.float64(), safe=False)
        except pa.ArrowException:
            return None  # A type that knows neither equality nor numbers.
        return np.asarray(floats.to_numpy(zero_copy_only=False))


def opened(
    source: Source, *, memory: int, batch_bytes: int, rows: int | None = None
) -> MemoryTable | Forward:
    """All of a source in memory, if it fits; else its rows as they come, about so many bytes at a
    time."""
    held: deque[pa.RecordBatch] = deque()
    size = 0
    schema = source.schema
    batches = iter(source.batches())
    for batch in batches:
        schema = schema or batch.schema
        held.append(batch)
        size += batch.nbytes
        if size > memory:
            rest = (piece for each in batches for piece in cut(each, batch_bytes))
            return Forward(source.name, schema, rest, held=held, rows=rows)
    if schema is None:
        raise InvalidArgument(
            f"{source.name} yielded no batch, so its columns are unknown.",
            remedy="Give a pyarrow Table, or at least one batch, which may be empty.",
        )
    table = pa.Table.from_batches(held, schema=schema)
    return MemoryTable(table, name=f"{source.name}, in memory", ours=True)
