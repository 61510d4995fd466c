"""Which instances of a join does a row go to? One set of rules, for Spark and for our own tasks.

If Spark moves the rows, the rule is a Spark expression; if our tasks read them, it is a kernel, and
both give the same answer. Equal keys of both sides must go to the same instance, so both sides are
cast to the type in which they are compared before Spark's `xxhash64` is taken.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from watersmeet.errors import InvalidArgument
from watersmeet.kernels import spark_hash
from watersmeet.model import JoinType, Side
from watersmeet.rows.buffers import has_offsets
from watersmeet.rows.leaves import Fixed, Leaves, Mask
from watersmeet.rows.output import KeyPair, Schemas
from watersmeet.rows.schema import JoinSchema
from watersmeet.rows.types import Incomparable, common_type, padding_of, with_padding
from watersmeet.spark.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Instances = NDArray[np.int32]
Grouped = tuple[NDArray[np.int64], NDArray[np.int64]]

_EVERY_ROW: Mask = np.empty(0, np.bool_)


class Router(Protocol):
    """Sends the rows of all inputs to instances, such that each result is made in exactly one.

    A row may go to several instances, as for joins on a range of values or of several relations.
    """

    @property
    def instances(self) -> int: ...

    def group(self, input: int, batch: pa.RecordBatch) -> Grouped:
        """Row numbers grouped by instance, in their old order inside one, and where each starts.

        Those of instance `i` are `order[offsets[i]:offsets[i + 1]]`.
        """
        ...


class StreamRouter(Protocol):
    """The same for rows that Spark moves."""

    @property
    def rule(self) -> str | None:
        """What a state must have been made by, if there is more than one rule: rows have to go
        where their partners went."""
        ...

    def column(self, input: int, dataframe: DataFrame) -> Column:
        """The instance of a row, an int; or all its instances, an array, for `explode`."""
        ...

    def is_copied(self, input: int) -> bool:
        """Whether rows of an input may go to several instances, and `column` is an array."""
        ...


def owner_of(how: JoinType) -> Side | None:
    """The side whose rows may go to one instance only, because rows without a partner are told
    there; None if both sides would have to be it."""
    if how is JoinType.FULL:
        return None
    return Side.RIGHT if how is JoinType.RIGHT else Side.LEFT


def check_owner(how: JoinType, instances: int) -> None:
    """Refuse a join without equal keys that cannot run in so many instances."""
    if owner_of(how) is None and instances > 1:
        raise InvalidArgument(
            f"A {how} join without equal keys cannot be divided among {instances} instances: rows "
            "of one side are copied to several, and would be told several times to have no "
            "partner.",
            remedy="Add a pair of equal columns, give instances=1, or take a left join and, for "
            "the rows of the right side without a partner, an anti join of the right with the "
            "left.",
        )


@dataclass(frozen=True)
class HashRouter:
    """Each row to one instance by its key: `pmod(xxhash64(key), instances)`.

    A row with a null in its key matches nothing, so it may go to any instance. If all such rows
    went to one, it could have too many, so they are spread by the values of other columns.
    """

    instances: int
    # By side: the key's columns in the types in which they are compared, and the columns by which
    # rows with null keys are spread.
    keys: Schemas
    others: Schemas

    def __post_init__(self) -> None:
        _check_count(self.instances)

    @classmethod
    def of(cls, schema: JoinSchema, *, instances: int) -> HashRouter:
        """The router of a join, for frames and batches that have the columns of its inputs."""
        left, right = (pa.schema([key_field(pair, side) for pair in schema.keys]) for side in Side)
        others = (simple_columns(schema.left), simple_columns(schema.right))
        return cls(instances, (left, right), others)

    def assign(self, side: Side, batch: pa.RecordBatch) -> Instances:
        """The instance of every row."""
        hashed = SparkHashes(batch.num_rows)
        for key in self.keys[side]:
            hashed.add(batch.column(key.name), key.type, padding=padding_of(key))
        if hashed.valid is not None and not hashed.valid.all():
            lost = np.flatnonzero(~hashed.valid)
            hashed.values[lost] = self._spread(side, batch, rows=lost)
        assigned: Instances = spark_hash.instance_of(hashed.values, self.instances)
        return assigned

    @property
    def rule(self) -> str | None:
        return None

    def is_copied(self, input: int) -> bool:
        return False

    def group(self, input: int, batch: pa.RecordBatch) -> Grouped:
        assigned = self.assign(Side(input), batch)
        grouped: Grouped = spark_hash.group_by_instance(assigned, self.instances)
        return grouped

    def column(self, input: int, dataframe: DataFrame) -> Column:
        from pyspark.sql import functions

        keys = compared_columns(dataframe, self.keys[input])
        lost = reduce(or_, (key.isNull() for key in keys))
        spread = hash_of(dataframe, self.others[input])
        hashed = functions.when(lost, spread).otherwise(functions.xxhash64(*keys))
        return instance_by(hashed, self.instances)

    def _spread(
        self, side: Side, batch: pa.RecordBatch, *, rows: NDArray[np.int64]
    ) -> NDArray[np.uint64]:
        hashed = SparkHashes(len(rows))
        for column in self.others[side]:
            hashed.add(batch.column(column.name).take(pa.array(rows)), column.type)
        return hashed.values


def compared_columns(dataframe: DataFrame, keys: pa.Schema) -> list[Column]:
    """Key columns of a DataFrame in the types in which they are compared."""
    from pyspark.sql import functions
    from pyspark.sql.pandas.types import from_arrow_type

    found = []
    for key in keys:
        column = dataframe[quoted(key.name)].cast(from_arrow_type(key.type))
        length = padding_of(key)
        found.append(functions.rpad(column, length, " ") if length else column)
    return found


def hash_of(dataframe: DataFrame, columns: pa.Schema) -> Column:
    """Spark's hash of some columns, by which rows that may go anywhere are spread."""
    from pyspark.sql import functions

    named = [dataframe[quoted(name)] for name in columns.names]
    # `_spread` uses the seed if there are no columns; Spark needs a column, and a null keeps it.
    return functions.xxhash64(*named or [functions.lit(None)])


def instance_by(hashed: Column, instances: int) -> Column:
    from pyspark.sql import functions

    return functions.pmod(hashed, functions.lit(instances)).cast("int")


def _check_count(instances: int) -> None:
    if not 0 < instances < 2**31:
        raise InvalidArgument(
            f"A join cannot run in {instances} instances.", remedy="Give it one or more."
        )


def key_field(pair: KeyPair, side: Side) -> pa.Field:
    field = pa.field(pair.of(side), pair.kind)
    return with_padding(field, pair.padding[side]) if pair.padding[side] else field


def simple_columns(schema: pa.Schema) -> pa.Schema:
    """The columns that both Spark and we can hash; not nested ones, which may be Spark variants."""
    found = []
    for field in schema:
        if pt.is_nested(field.type):
            continue
        try:
            found.append((field.name, common_type(field.type, field.type)))
        except Incomparable:
            continue
    return pa.schema(found)


class SparkHashes:
    """Spark's `xxhash64` of the columns added so far, and which rows have a value in each."""

    def __init__(self, rows: int) -> None:
        self.values = np.full(rows, spark_hash.SEED, np.uint64)
        self.valid: Mask | None = None

    def add(self, array: pa.Array, kind: pa.DataType, *, padding: int = 0) -> None:
        leaves = Leaves()
        leaves.add(array, kind, padding=padding)
        self._fixed, self._variable = iter(leaves.fixed), iter(leaves.variable)
        if leaves.valid is not None:
            self.valid = leaves.valid if self.valid is None else self.valid & leaves.valid
        self._take(kind, _EVERY_ROW if leaves.valid is None else leaves.valid)

    def _take(self, kind: pa.DataType, present: Mask) -> None:
        """Hash one column's leaves, in the order of `Leaves`."""
        if pt.is_struct(kind):
            for child in kind:
                flags = next(self._fixed)
                self._take(child.type, flags.view(np.bool_))
        elif has_offsets(kind):
            spark_hash.take_bytes(self.values, *next(self._variable), present)
        else:
            self._take_fixed(kind, next(self._fixed), present=present)

    def _take_fixed(self, kind: pa.DataType, values: Fixed, *, present: Mask) -> None:
        if pt.is_null(kind):
            return
        if pt.is_decimal(kind) and values.dtype.kind == "V":
            data = np.ascontiguousarray(values).view(np.uint8)
            spark_hash.take_decimals(self.values, data, kind.byte_width, present)
        elif pt.is_fixed_size_binary(kind):
            offsets = np.arange(len(values) + 1) * kind.byte_width
            spark_hash.take_bytes(self.values, values.view(np.uint8), offsets, present)
        elif pt.is_decimal(kind) or values.itemsize == 8:
            spark_hash.take_longs(self.values, _signed(values, np.int64), present)
        else:
            spark_hash.take_ints(self.values, _signed(values, np.int32), present)


def _signed(values: Fixed, wanted: type[np.int32] | type[np.int64]) -> Fixed:
    """The same bits as a signed number, or a shorter number in the wider type."""
    if values.dtype.itemsize == np.dtype(wanted).itemsize:
        return values.view(wanted)
    return values.astype(wanted)
