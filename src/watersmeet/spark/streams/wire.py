"""How two streams travel as one: a tag that says whose a row is, and as few columns as possible.

Moving rows from the JVM into Python costs more than joining them, and every column costs, filled
or not. So columns of equal type share a slot, and a stream is as wide as its wider side.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from watersmeet.model import Side
from watersmeet.spark.sql import quoted

TAG = "tag"
ENDS = 2
"""What a row is: `Side` for a row of that side, `ENDS + Side` for the word that it has ended."""
SETTLE = 4
"""The word that everything owed shall come out with this batch."""
_KIND_BITS = 3


def tag(instance: Column, kind: Column) -> Column:
    """Where a row goes and what it is, in one number."""
    shifted = sf.shiftleft(instance.cast("int"), _KIND_BITS)
    return shifted.bitwiseOR(kind.cast("int")).alias(TAG)


def settle_tag(instance: int) -> int:
    return instance << _KIND_BITS | SETTLE


def instance_of(tags: Column) -> Column:
    return sf.shiftright(tags, _KIND_BITS)


def split_tags(tags: pa.Array) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Instances and kinds."""
    numbers = tags.to_numpy()
    return numbers >> _KIND_BITS, numbers & (2**_KIND_BITS - 1)


@dataclass(frozen=True)
class Wire:
    """The slots, and for each side which slot holds which of its columns."""

    slots: tuple[DataType, ...]
    places: tuple[tuple[int, ...], tuple[int, ...]]

    @classmethod
    def of(cls, left: StructType, right: StructType) -> Wire:
        slots: list[DataType] = []
        places = []
        for schema in (left, right):
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
        return cls(tuple(slots), (places[0], places[1]))

    @property
    def schema(self) -> StructType:
        return StructType([StructField(f"c{n}", slot) for n, slot in enumerate(self.slots)])

    def load(self, side: Side, stream: DataFrame, tags: Column) -> DataFrame:
        """A stream's rows on the wire."""
        at = {slot: column for column, slot in enumerate(self.places[side])}
        columns = [
            sf.col(quoted(stream.columns[at[slot]])) if slot in at else sf.lit(None).cast(kind)
            for slot, kind in enumerate(self.slots)
        ]
        named = [column.alias(f"c{slot}") for slot, column in enumerate(columns)]
        return stream.select(tags, *named)

    def unload(self, side: Side, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """A side's rows off the wire, where `schema` is what that side looks like."""
        columns = []
        for field, slot in zip(schema, self.places[side], strict=True):
            column = batch.column(slot + 1)
            # The session's time zone and its choice of text types are no part of the rows.
            columns.append(column if column.type == field.type else column.cast(field.type))
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def _shareable(slot: DataType, kind: DataType) -> bool:
    nested = isinstance(kind, ArrayType | MapType | StructType)
    return not nested and slot.simpleString() == kind.simpleString()
