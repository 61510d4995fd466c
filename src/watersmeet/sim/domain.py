"""Which integers the operators' own hash puts into which partition.

The RPJ paper partitions by `key mod 20`, so that each of 20 partitions covers 500 of the keys
1..10000 and P(j|R) can be chosen freely. Our operators partition by the high bits of a hash.
Taking, for each partition, the first 500 integers from 1 on that hash to it gives the same
thing: 20 partitions, 500 keys in each, 10,000 keys in all. The largest are a little above 10,000.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.kernels.hashing import partition_of
from watersmeet.model import Side
from watersmeet.rows.address import Index
from watersmeet.rows.on import On
from watersmeet.rows.schema import JoinSchema
from watersmeet.sim.schedule import SCHEMA


def join_schema(on: On = "key") -> JoinSchema:
    return JoinSchema.resolve(SCHEMA, SCHEMA, on, "inner")


def partition_members(partitions: int, keys_each: int) -> Index:
    """Row j holds the `keys_each` smallest positive integers of partition j."""
    schema = join_schema()
    highest = 2 * partitions * keys_each
    while True:
        integers = np.arange(1, highest + 1, dtype=np.int64)
        batch = pa.RecordBatch.from_arrays([pa.array(integers)], schema=SCHEMA)
        partition = partition_of(schema.encode(Side.LEFT, batch).codes, partitions)
        order = np.argsort(partition, kind="stable")
        starts = np.searchsorted(partition[order], np.arange(partitions + 1))
        if np.diff(starts).min() >= keys_each:
            chosen = starts[:-1, np.newaxis] + np.arange(keys_each)
            members: Index = integers[order[chosen]]
            return members
        highest *= 2
