"""Divides the rows of all inputs among the instances of a join, by their keys."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from watersmeet.kernels.hashing import partition_of
from watersmeet.kernels.spark_hash import group_by_instance
from watersmeet.model import Side
from watersmeet.rows.batch import BatchRows
from watersmeet.rows.predicates import EqualKeys
from watersmeet.rows.schema import JoinSchema

# The high bits of a code choose the partition inside an instance, and its low bits the place in an
# index. If instances were chosen by either, some partitions or places of each would stay empty.
_MIDDLE = np.uint64(16)


class Divider:
    """Sends each row to the instance that has all rows of its key.

    Keys that are equal have equal codes, whatever the types of the two sides. A row with a null in
    its key matches nothing, and may go to any instance.
    """

    def __init__(self, schema: JoinSchema, instances: int) -> None:
        (equal,) = (each for each in schema.predicates if isinstance(each, EqualKeys))
        self._schema = schema
        self._instances = instances
        self._encode = [equal.encoder(side) for side in Side]

    def divide(self, input: int, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """The rows of each instance, in their old order and in the types in which they are kept."""
        rows = self._schema.accept(input, batch)
        codes = self._encode[input](rows).codes
        instances = partition_of(codes << _MIDDLE, self._instances).astype(np.int32)
        order, starts = group_by_instance(instances, self._instances)
        source, columns = BatchRows(rows), range(rows.num_columns)
        parts = []
        for first, last in pairwise(starts.tolist()):
            taken = [source.take(column, order[first:last]) for column in columns]
            parts.append(pa.RecordBatch.from_arrays(taken, schema=rows.schema))
        return parts


def end_to_end(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The same rows in one batch, or in the batches as they are if Arrow cannot copy their types
    end to end."""
    if len(batches) < 2:
        return list(batches)
    try:
        return [pa.concat_batches(batches)]
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
        return list(batches)
