"""What the tasks of one run need to know: the question, the memory, the storage, the routes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

import pyarrow as pa

from watersmeet.model import Side
from watersmeet.operators.question import Question
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.cluster import TaskSlots
from watersmeet.spark.routing import HashRouter, Router
from watersmeet.store.exchange import ExchangeDir
from watersmeet.store.shares import MemoryShares
from watersmeet.store.table import row_bytes

# Beyond this many, a scan task's blocks for one instance become too small to be worth reading.
_MOST_INSTANCES = 256
# Rows of a string or a list are counted with so many bytes more, until a row has been seen.
_VARIABLE_BYTES = 24
_BLOCK_BYTES = 2 * 2**20
# Join tasks over 75 M rows took 6.8 s with instances of this size and 11.1 s with one for each of
# two tasks; presumably because a smaller index stays in the processor's cache.
_ROWS_IN_CACHE = 2_000_000
_LEAST_MEMORY = 16 * 2**20
# Enough that the cost of a push does not show.
_PUSHED_ROWS = 16_384


@dataclass(frozen=True)
class Plan:
    """One run as its tasks see it. Sent with every job, so it holds values only."""

    query: str
    question: Question
    schemas: tuple[pa.Schema, pa.Schema]
    memory: int
    """Bytes for one task."""
    instances: int
    asked_instances: int | None
    """How many the user wants, whatever the size of the tables."""
    keeps_operators: bool
    """Whether operators stay in their workers between waves: all of them fit side by side.

    Otherwise one at a time has a task's whole memory, and is built again in the next wave.
    """
    slots: TaskSlots
    storage: ExchangeDir
    spill_dir: str | None

    @cached_property
    def join(self) -> JoinSchema:
        return self.question.resolve(*self.schemas)

    @cached_property
    def router(self) -> Router:
        return HashRouter.of(self.join, instances=self.instances)

    @property
    def bundles(self) -> list[range]:
        """Which instances are joined by one task after the other, and kept together."""
        size = ceil(self.instances / self.slots.tasks) if self.keeps_operators else 1
        return [
            range(start, min(start + size, self.instances))
            for start in range(0, self.instances, size)
        ]

    @property
    def operator_memory(self) -> int:
        """Bytes for one operator."""
        return self.memory // len(self.bundles[0])

    @property
    def block_rows(self) -> int:
        """Rows that a scan task partitions at a time, and holds in a few copies."""
        width = max(_row_bytes(schema) for schema in self.schemas)
        # The more instances, the larger: each takes a part of a block, and pushes it at once.
        most = min(self.memory // 6, _BLOCK_BYTES * max(self.instances // 4, 1))
        return max(most // width, 1024)

    @property
    def pushed_rows(self) -> int:
        """Rows that an operator is given at a time, where its blocks are smaller."""
        width = max(_row_bytes(schema) for schema in self.schemas)
        return min(max(self.memory // 64 // width, 1), _PUSHED_ROWS)

    def fitted(self, sizes: Sizes) -> Plan:
        """The same for tables of these sizes, as many instances as they need."""
        parts = _times_too_large(self.join, sizes, memory=self.memory, slots=self.slots)
        instances = self.asked_instances or instances_for(
            sizes.rows, parts, memory=self.memory, slots=self.slots
        )
        return replace(self, instances=instances, keeps_operators=parts == 1)

    def __getstate__(self) -> dict[str, object]:
        # What can be made again from the rest is large, and some of it cannot travel.
        return {name: value for name, value in vars(self).items() if name not in _DERIVED}


_DERIVED = ("join", "router")


@dataclass(frozen=True)
class Sizes:
    """How large both tables are: rows, and bytes as far as they have been counted."""

    rows: tuple[int, int]
    nbytes: tuple[int, int] = (0, 0)


def bytes_of(schemas: tuple[pa.Schema, pa.Schema], sizes: Sizes) -> int:
    """About what the columns of both tables take; texts that nobody has seen count little."""
    return sum(
        max(sizes.rows[side] * _payload_bytes(schemas[side]), sizes.nbytes[side]) for side in Side
    )


def _times_too_large(join: JoinSchema, sizes: Sizes, *, memory: int, slots: TaskSlots) -> int:
    """How many times the memory of all tasks is needed to hold all rows; 1 if they fit."""
    held = sum(
        max(sizes.rows[side] * _row_bytes(join.stored(side)), sizes.nbytes[side]) for side in Side
    )
    room = MemoryShares.split(memory).store * slots.tasks
    return max(ceil(held / room), 1)


def instances_for(rows: tuple[int, int], parts: int, *, memory: int, slots: TaskSlots) -> int:
    """So many that one of them fits in a task's memory, and its index in the processor's cache.

    `parts` is how many times the memory they need. At least one for each task at a time, and that
    times a power of two: what was divided among more can then be taken for divided among fewer.
    """
    each = max(parts, ceil(sum(rows) / (_ROWS_IN_CACHE * slots.tasks)))
    most = max(_MOST_INSTANCES // slots.tasks, 1)
    if parts == 1:  # They share a task's memory.
        most = min(most, max(memory // _LEAST_MEMORY, 1))
    power = 1 << (each - 1).bit_length()
    return slots.tasks * (power if power <= most else 1 << (most.bit_length() - 1))


def _payload_bytes(schema: pa.Schema) -> int:
    fixed = (kind.bit_width / 8 if _is_fixed(kind) else _VARIABLE_BYTES for kind in schema.types)
    return ceil(sum(fixed))


def _row_bytes(schema: pa.Schema) -> int:
    variable = sum(not _is_fixed(kind) for kind in schema.types)
    return row_bytes(schema) + _VARIABLE_BYTES * variable


def _is_fixed(kind: pa.DataType) -> bool:
    try:
        return bool(kind.bit_width)
    except ValueError:
        return False
