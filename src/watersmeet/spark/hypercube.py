"""Routes the rows of many inputs: every combination of rows meets in exactly one instance.

Instances are the cells of a cube with one dimension for each group of columns that must be equal
(Afrati and Ullman, EDBT 2010: "Optimizing joins in a map-reduce environment"). A row's key in a
dimension gives its place there; an input that has no column in a dimension sends its rows to all
places of it. So the rows of a result, which have the same keys, are together in the one cell that
their keys name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from operator import or_
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.kernels import spark_hash
from watersmeet.model import Side
from watersmeet.rows.predicates import EqualKeys
from watersmeet.rows.schema import JoinSchema
from watersmeet.rows.types import padding_of
from watersmeet.spark.routing import (
    Grouped,
    SparkHashes,
    compared_columns,
    hash_of,
    instance_by,
    key_field,
    simple_columns,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class Dimension:
    """Columns of some inputs that must be equal: by input, in the types they are compared in."""

    keys: dict[int, pa.Schema]

    def __str__(self) -> str:
        return " = ".join(sorted({name for keys in self.keys.values() for name in keys.names}))


def dimensions_of(join: JoinSchema) -> list[Dimension]:
    """The groups of columns that must be equal. Bands divide nothing."""
    found: list[dict[int, pa.Schema]] = []
    for predicate in join.predicates:
        if not isinstance(predicate, EqualKeys):
            continue
        ends = {
            predicate.ends[side]: pa.schema([key_field(key, side) for key in predicate.keys])
            for side in Side
        }
        same = [
            each
            for each in found
            if any(
                input in each and each[input].equals(keys, check_metadata=True)
                for input, keys in ends.items()
            )
        ]
        together = dict(ends)
        for each in same:
            together |= each
            found.remove(each)
        found.append(together)
    return [Dimension(keys) for keys in found]


@dataclass(frozen=True)
class Cube:
    """How many places each dimension has. Their product is the number of instances."""

    shares: tuple[int, ...]

    @property
    def instances(self) -> int:
        return prod(self.shares)

    def copies(self, input: int, dimensions: Sequence[Dimension]) -> int:
        """To how many instances each row of an input goes."""
        free = (
            share
            for share, dimension in zip(self.shares, dimensions, strict=True)
            if input not in dimension.keys
        )
        return prod(free)

    def firsts(self, input: int, dimensions: Sequence[Dimension]) -> frozenset[int]:
        """The cells that have each row of an input once: the first place in each dimension in which
        the input has no column.

        >>> keys = pa.schema({"x": pa.int64()})
        >>> chain = [Dimension({0: keys, 1: keys}), Dimension({1: keys, 2: keys})]
        >>> sorted(Cube((2, 3)).firsts(0, chain)), sorted(Cube((2, 3)).firsts(2, chain))
        ([0, 1], [0, 2, 4])
        """
        cells, stride = [0], 1
        for share, dimension in zip(self.shares, dimensions, strict=True):
            if input in dimension.keys:
                cells = [cell + place * stride for cell in cells for place in range(share)]
            stride *= share
        return frozenset(cells)

    def sent(self, rows: Sequence[int], dimensions: Sequence[Dimension]) -> int:
        """How many rows all instances get together, if tables have so many."""
        return sum(count * self.copies(input, dimensions) for input, count in enumerate(rows))

    @classmethod
    def of(cls, instances: int, rows: Sequence[int], dimensions: Sequence[Dimension]) -> Cube:
        """The cube of so many instances that gets the fewest rows.

        >>> keys = [pa.schema({"x": pa.int64()}), pa.schema({"y": pa.int64()})]
        >>> chain = [Dimension({0: keys[0], 1: keys[0]}), Dimension({1: keys[1], 2: keys[1]})]
        >>> Cube.of(4, [1_000_000, 1_000_000, 10], chain).shares
        (4, 1)
        """
        cubes = (cls(shares) for shares in _factorisations(instances, len(dimensions)))
        return min(cubes, key=lambda cube: (cube.sent(rows, dimensions), cube.shares))


def _factorisations(number: int, count: int) -> Iterator[tuple[int, ...]]:
    """All lists of `count` numbers whose product is `number`."""
    if count == 1:
        yield (number,)
        return
    for first in range(1, number + 1):
        if number % first == 0:
            for rest in _factorisations(number // first, count - 1):
                yield (first, *rest)


@dataclass(frozen=True)
class HypercubeRouter:
    cube: Cube
    dimensions: tuple[Dimension, ...]
    others: tuple[pa.Schema, ...] = ()
    """By input, the columns by which Spark spreads rows with a null in a key."""

    @classmethod
    def of(cls, join: JoinSchema, cube: Cube) -> HypercubeRouter:
        """The router of a join, for frames that have the columns of its inputs."""
        others = tuple(simple_columns(schema) for schema in join.inputs)
        return cls(cube, tuple(dimensions_of(join)), others)

    @property
    def instances(self) -> int:
        return self.cube.instances

    def group(self, input: int, batch: pa.RecordBatch) -> Grouped:
        """Rows without a value in a key match nothing, and go nowhere."""
        cells = np.zeros(len(batch), np.int64)
        valid = np.ones(len(batch), np.bool_)
        offsets = np.zeros(1, np.int64)
        stride = 1
        for share, dimension in zip(self.cube.shares, self.dimensions, strict=True):
            places = np.arange(share, dtype=np.int64) * stride
            if input in dimension.keys:
                hashed = _hashed(batch, dimension.keys[input])
                if hashed.valid is not None:
                    valid &= hashed.valid
                cells += spark_hash.instance_of(hashed.values, share).astype(np.int64) * stride
            else:
                offsets = (offsets[:, None] + places).ravel()
            stride *= share
        rows = np.flatnonzero(valid)
        instances = (cells[rows, None] + offsets).ravel().astype(np.int32)
        order, starts = spark_hash.group_by_instance(instances, self.instances)
        found: NDArray[np.int64] = rows[order // len(offsets)]
        return found, starts

    @property
    def rule(self) -> str | None:
        shares = (
            f"{dimension} in {share}"
            for share, dimension in zip(self.cube.shares, self.dimensions, strict=True)
        )
        return f"cells of a cube: {', '.join(shares) or 'one'}"

    def is_copied(self, input: int) -> bool:
        return self.cube.copies(input, self.dimensions) > 1

    def column(self, input: int, dataframe: DataFrame) -> Column:
        """As `group`, but a row with a null in a key goes to any one instance: it may be the word
        that its stream has ended, and rows are not dropped before they are counted."""
        from pyspark.sql import functions as sf

        cell, lost, offsets = sf.lit(0), sf.lit(False), [0]
        stride = 1
        for share, dimension in zip(self.cube.shares, self.dimensions, strict=True):
            if input in dimension.keys:
                keys = compared_columns(dataframe, dimension.keys[input])
                lost = reduce(or_, (key.isNull() for key in keys), lost)
                cell = cell + instance_by(sf.xxhash64(*keys), share) * stride
            else:
                offsets = [offset + place * stride for offset in offsets for place in range(share)]
            stride *= share
        anywhere = instance_by(hash_of(dataframe, self.others[input]), self.instances)
        if not self.is_copied(input):
            return sf.when(lost, anywhere).otherwise(cell)
        cells = sf.array(*(cell + offset for offset in offsets))
        return sf.when(lost, sf.array(anywhere)).otherwise(cells)


def _hashed(batch: pa.RecordBatch, keys: pa.Schema) -> SparkHashes:
    hashed = SparkHashes(batch.num_rows)
    for key in keys:
        hashed.add(batch.column(key.name), key.type, padding=padding_of(key))
    return hashed
