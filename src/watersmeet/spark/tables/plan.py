"""What the tasks of one join need to know: the question, memory, storage and routing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil

import pyarrow as pa

from watersmeet.model import Side, inputs_of
from watersmeet.operators.many import ManyQuestion
from watersmeet.operators.question import Question
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.cluster import TaskSlots
from watersmeet.spark.hypercube import Cube, Dimension, HypercubeRouter, dimensions_of
from watersmeet.spark.placing import Placing, placing_of, placings_of
from watersmeet.spark.ranges import RangeRouter, Ranges
from watersmeet.spark.routing import HashRouter, Router
from watersmeet.spark.tables.balance import Division
from watersmeet.store.exchange import ExchangeDir
from watersmeet.store.shares import MemoryShares
from watersmeet.store.table import row_bytes

# With more instances, the sections that a scan task writes for each would be too small.
_MOST_INSTANCES = 256
# A join of many tables has at most the tasks at a time, times two to the power of one less.
_MOST_CUBES = 6
# Bytes that a string or a list is taken to have before a row has been seen.
_VARIABLE_BYTES = 24
_BLOCK_BYTES = 2 * 2**20
# Join tasks over 75 M rows took 6.8 s with instances of this size and 11.1 s with one for each of
# two tasks; presumably because a smaller index stays in the processor's cache.
_ROWS_IN_CACHE = 2_000_000
_LEAST_MEMORY = 16 * 2**20
# With this many rows, the cost of a push hardly matters.
_PUSHED_ROWS = 16_384


@dataclass(frozen=True)
class Plan:
    """One join, as its tasks need to know it. It is pickled and sent with every job."""

    query: str
    question: Question | ManyQuestion
    schemas: tuple[pa.Schema, ...]
    memory: int
    """Bytes that one task may use."""
    instances: int
    asked_instances: int | None
    """How many the user asked for, whatever the size of the tables; None if not."""
    keeps_operators: bool
    """Whether operators are kept between waves, because all of them fit in memory.

    Otherwise a task has one operator at a time, with all of its memory, and builds it again in the
    next wave.
    """
    slots: TaskSlots
    storage: ExchangeDir
    spill_dir: str | None
    division: Division | None = None
    """The ranges of values that instances have without equal keys, once they are chosen."""
    cube: Cube | None = None
    """How the instances of a join of many tables are divided among its keys."""
    coming: tuple[int, ...] | None = None
    """About how many rows of each table come to an instance, once that is known."""

    @cached_property
    def join(self) -> JoinSchema:
        return self.question.resolve(*self.schemas)

    @property
    def inputs(self) -> Sequence[int]:
        return inputs_of(len(self.schemas))

    @property
    def names(self) -> Sequence[str]:
        """What the inputs are called: left and right, or the names of relations."""
        return self.question.names

    @cached_property
    def router(self) -> Router:
        if self.cube is not None:
            return HypercubeRouter(self.cube, self.dimensions)
        if self.placing is None:
            return HashRouter.of(self.join, instances=self.instances)
        # Before ranges are chosen, all values are one.
        ranges = Ranges(Side.LEFT) if self.division is None else self.division.ranges
        return RangeRouter(ranges, self.placing)

    @cached_property
    def placing(self) -> Placing | None:
        """How rows are placed in ranges; None if they are divided by equal keys."""
        return None if isinstance(self.question, ManyQuestion) else placing_of(self.join)

    @cached_property
    def dimensions(self) -> tuple[Dimension, ...]:
        """The groups of equal columns by which the rows of many tables are divided."""
        return tuple(dimensions_of(self.join))

    @property
    def placings(self) -> list[Placing]:
        """All ways in which rows can be placed."""
        return placings_of(self.join)

    @property
    def bundles(self) -> list[range]:
        """The instances that one task joins one after the other, and that are kept together."""
        size = ceil(self.instances / self.slots.tasks) if self.keeps_operators else 1
        return [
            range(start, min(start + size, self.instances))
            for start in range(0, self.instances, size)
        ]

    @property
    def has_homes(self) -> bool:
        """Whether operators that are kept live in homes. Not on several machines: one that got
        another task would build the operator again, and both would have it."""
        return self.keeps_operators and self.slots.tasks <= self.slots.tasks_a_machine

    @property
    def operator_memory(self) -> int:
        """Bytes that one operator may use."""
        return self.memory // len(self.bundles[0])

    @property
    def block_rows(self) -> int:
        """How many rows a scan task divides among instances at a time; it has a few copies of
        them."""
        return max(self.block_bytes // self._widest, 1024)

    @property
    def block_bytes(self) -> int:
        """About how many bytes these have, also if texts turn out to be long."""
        # More if there are more instances, because the rows of each are written as one section.
        return min(self.memory // 6, _BLOCK_BYTES * max(self.instances // 4, 1))

    @property
    def pushed_rows(self) -> int:
        """How many rows are pushed to an operator at a time, if sections are smaller."""
        return min(max(self.pushed_bytes // self._widest, 1), _PUSHED_ROWS)

    @property
    def pushed_bytes(self) -> int:
        """About how many bytes these have, also if texts turn out to be long."""
        return self.memory // 64

    @property
    def _widest(self) -> int:
        """Bytes of a row of the widest table, if texts are short."""
        return max(_row_bytes(schema) for schema in self.schemas)

    def fitted(self, sizes: Sizes) -> Plan:
        """The plan for tables of these sizes, with as many instances as they need."""
        if isinstance(self.question, ManyQuestion):
            return self._with_cube(sizes)
        parts = _times_too_large(self.join, sizes, memory=self.memory, slots=self.slots)
        instances = self.asked_instances or instances_for(
            sizes.rows, parts, memory=self.memory, slots=self.slots
        )
        coming = None
        if self.placing is None:
            coming = tuple(ceil(rows / instances) for rows in sizes.rows)
        return replace(self, instances=instances, keeps_operators=parts == 1, coming=coming)

    def _with_cube(self, sizes: Sizes) -> Plan:
        """The plan of a join of many tables.

        More instances need less memory each, but more copies of rows in all. So there are as many
        as tasks at a time, or the fewest with which a task has memory for all rows of one of its
        instances; or those with the fewest rows each, if none is small enough.
        """
        if not self.dimensions:
            return replace(self, instances=1, keeps_operators=True, cube=Cube(()))
        counts = [self.slots.tasks * 2**power for power in range(_MOST_CUBES)]
        cubes = [
            Cube.of(count, sizes.rows, self.dimensions)
            for count in ([self.asked_instances] if self.asked_instances else counts)
        ]
        store = MemoryShares.split(self.memory).store
        held = [self._held(cube, sizes) for cube in cubes]
        fits = [n for n, cube in enumerate(cubes) if held[n] <= store * cube.instances]
        chosen = (
            fits[0] if fits else min(range(len(cubes)), key=lambda n: held[n] / cubes[n].instances)
        )
        together = held[chosen] <= store * self.slots.tasks
        cube = cubes[chosen]
        return replace(self, instances=cube.instances, keeps_operators=together, cube=cube)

    def _held(self, cube: Cube, sizes: Sizes) -> int:
        """Bytes of all rows in all instances of a cube."""
        return sum(
            cube.copies(n, self.dimensions)
            * max(sizes.rows[n] * _row_bytes(self.join.stored(n)), sizes.nbytes[n])
            for n in self.inputs
        )

    def __getstate__(self) -> dict[str, object]:
        # Without what can be computed from the rest: it is large, and some of it cannot be pickled.
        return {name: value for name, value in vars(self).items() if name not in _DERIVED}


_DERIVED = ("join", "router", "placing", "dimensions")


@dataclass(frozen=True)
class Sizes:
    """How large the tables are: rows, and bytes, which are 0 until they have been counted."""

    rows: tuple[int, ...]
    nbytes: tuple[int, ...]

    @classmethod
    def guessed(cls, rows: Sequence[int]) -> Sizes:
        return cls(tuple(rows), (0,) * len(rows))

    def times(self, factor: float) -> Sizes:
        rows, nbytes = (
            tuple(ceil(each * factor) for each in sizes) for sizes in (self.rows, self.nbytes)
        )
        return Sizes(rows, nbytes)


def bytes_of(schemas: Sequence[pa.Schema], sizes: Sizes) -> int:
    """About how many bytes all tables have; texts count little before they have been read."""
    return sum(
        max(rows * _payload_bytes(schema), nbytes)
        for schema, rows, nbytes in zip(schemas, sizes.rows, sizes.nbytes, strict=True)
    )


def _times_too_large(join: JoinSchema, sizes: Sizes, *, memory: int, slots: TaskSlots) -> int:
    """How many times the memory of all tasks is needed to hold all rows; 1 if they fit."""
    held = sum(
        max(sizes.rows[side] * _row_bytes(join.stored(side)), sizes.nbytes[side]) for side in Side
    )
    room = MemoryShares.split(memory).store * slots.tasks
    return max(ceil(held / room), 1)


def instances_for(rows: Sequence[int], parts: int, *, memory: int, slots: TaskSlots) -> int:
    """As many instances that one of them fits a task's memory, and its index the processor's cache.

    `parts` is how many times the memory of all tasks the rows need. The number is that of tasks at
    a time, times a power of two, so that rows that were divided among more instances are divided
    among fewer, too (`staging._merged`).
    """
    each = max(parts, ceil(sum(rows) / (_ROWS_IN_CACHE * slots.tasks)))
    most = max(_MOST_INSTANCES // slots.tasks, 1)
    if parts == 1:  # The instances of a task have a part of its memory each.
        most = min(most, max(memory // _LEAST_MEMORY, 1))
    power = 1 << (each - 1).bit_length()
    return slots.tasks * (power if power <= most else 1 << (most.bit_length() - 1))


def _payload_bytes(schema: pa.Schema) -> int:
    fixed = (kind.bit_width / 8 if is_fixed(kind) else _VARIABLE_BYTES for kind in schema.types)
    return ceil(sum(fixed))


def _row_bytes(schema: pa.Schema) -> int:
    variable = sum(not is_fixed(kind) for kind in schema.types)
    return row_bytes(schema) + _VARIABLE_BYTES * variable


def is_fixed(kind: pa.DataType) -> bool:
    """Whether all values of a type have the same width."""
    try:
        return bool(kind.bit_width)
    except ValueError:
        return False
