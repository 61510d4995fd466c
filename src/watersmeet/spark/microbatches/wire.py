"""How streams travel as one: a tag that says whose a row is, and as few columns as possible.

Moving rows from the JVM into Python costs more than joining them, and every column costs, filled
or not. So columns of equal type share a slot, and all streams together are about as wide as the
widest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from watersmeet.spark.sql import quoted

TAG = "tag"


@dataclass(frozen=True)
class Tags:
    """Where a row goes and what it is, in one number. A row of an input is of the kind that is the
    input's number."""

    inputs: int
    markers: int = 0
    """How many promises have marker rows, which are of a kind of their own each."""

    def end(self, input: int) -> int:
        """The kind that is the word that an input has ended."""
        return self.inputs + input

    @property
    def settle(self) -> int:
        """The kind that is the word that everything owed shall come out with this batch."""
        return 2 * self.inputs

    @property
    def newer(self) -> int:
        """The kind that is the word that a newer version of a master table is there."""
        return 2 * self.inputs + 1

    def marker(self, number: int) -> int:
        """The kind that is a marker row of the promise of this number among those that have any."""
        return self.newer + 1 + number

    @property
    def _bits(self) -> int:
        return (self.newer + self.markers).bit_length()

    def column(self, instance: Column, kind: int) -> Column:
        shifted = sf.shiftleft(instance.cast("int"), self._bits)
        return shifted.bitwiseOR(sf.lit(kind).cast("int")).alias(TAG)

    def number(self, instance: int, kind: int) -> int:
        return instance << self._bits | kind

    def instance_of(self, tags: Column) -> Column:
        return sf.shiftright(tags, self._bits)

    def split(self, tags: pa.Array) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Instances and kinds."""
        numbers = tags.to_numpy()
        return numbers >> self._bits, numbers & (2**self._bits - 1)


@dataclass(frozen=True)
class Wire:
    """The slots, and for each input which slot holds which of its columns."""

    slots: tuple[DataType, ...]
    places: tuple[tuple[int, ...], ...]
    markers: tuple[int, ...] = ()
    """Of each promise that has marker rows, the input that they come with."""

    @classmethod
    def of(cls, *schemas: StructType, markers: tuple[int, ...] = ()) -> Wire:
        slots: list[DataType] = []
        places = []
        for schema in schemas:
            used: Counter[str] = Counter()
            mine = []
            for field in schema:
                sharers = [n for n, slot in enumerate(slots) if _shareable(slot, field.dataType)]
                turn = used[field.dataType.simpleString()]
                used[field.dataType.simpleString()] += 1
                if turn < len(sharers):
                    mine.append(sharers[turn])
                else:
                    mine.append(len(slots))
                    slots.append(field.dataType)
            places.append(tuple(mine))
        return cls(tuple(slots), tuple(places), markers)

    @property
    def tags(self) -> Tags:
        return Tags(len(self.places), len(self.markers))

    @property
    def schema(self) -> StructType:
        return StructType([StructField(f"c{n}", slot) for n, slot in enumerate(self.slots)])

    def load(self, input: int, stream: DataFrame, tags: Column) -> DataFrame:
        """A stream's rows on the wire."""
        at = {slot: column for column, slot in enumerate(self.places[input])}
        columns = [
            sf.col(quoted(stream.columns[at[slot]])) if slot in at else sf.lit(None).cast(kind)
            for slot, kind in enumerate(self.slots)
        ]
        named = [column.alias(f"c{slot}") for slot, column in enumerate(columns)]
        return stream.select(tags, *named)

    @cached_property
    def _kinds(self) -> list[pa.DataType]:
        return [to_arrow_type(slot, timezone="UTC") for slot in self.slots]

    def laid_out(
        self, tags: pa.Array, input: int | None, columns: Sequence[pa.Array]
    ) -> pa.RecordBatch:
        """Columns of an input as they come on the wire; without an input, words without values."""
        at = {} if input is None else dict(zip(self.places[input], columns, strict=True))
        slots = [
            at[slot] if slot in at else pa.nulls(len(tags), kind)
            for slot, kind in enumerate(self._kinds)
        ]
        return pa.RecordBatch.from_arrays([tags, *slots], names=[TAG, *self.schema.names])

    def unload(self, input: int, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """An input's rows off the wire, where `schema` is what that input looks like."""
        return as_declared([batch.column(slot + 1) for slot in self.places[input]], schema)


def as_declared(columns: Sequence[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """Columns that came from Spark, in the types of a schema: the session's time zone and its
    choice of text types are no part of the rows."""
    cast = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(cast, schema=schema)


def _shareable(slot: DataType, kind: DataType) -> bool:
    nested = isinstance(kind, ArrayType | MapType | StructType)
    return not nested and slot.simpleString() == kind.simpleString()
