"""A table in memory against a list of rows."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from watersmeet.kernels.hashing import hash_codes, partition_of
from watersmeet.store.index import PairBuffer
from watersmeet.store.table import Table, batch_bytes, row_bytes

PARTITIONS = 5
SCHEMA = pa.schema({"key": pa.int64(), "text": pa.string(), "list": pa.list_(pa.int8())})
KEYS = st.lists(st.integers(0, 8), max_size=40)


def rows_of(keys: list[int], first: int) -> pa.RecordBatch:
    numbers = range(first, first + len(keys))
    texts = [None if n % 7 == 3 else "x" * (n % 5) for n in numbers]
    return pa.record_batch([keys, texts, [[n % 100] * (n % 3) for n in numbers]], schema=SCHEMA)


def hashes_of(keys: list[int]) -> np.ndarray:
    return np.asarray(hash_codes(np.array(keys, np.uint64)))


class TableAgainstAList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = Table(SCHEMA, rows=4096, nbytes=2**16, partitions=PARTITIONS)
        self.rows: list[tuple[int, int, dict[str, object]]] = []  # partition, stamp, values
        self.stamp = 0

    @rule(keys=KEYS)
    def add(self, keys: list[int]) -> None:
        batch, codes = rows_of(keys, self.stamp), hashes_of(keys)
        stamps = np.arange(self.stamp, self.stamp + len(keys))
        before = self.table.nbytes
        self.table.add(codes, stamps, batch)
        grown = self.table.nbytes - before
        assert abs(grown - batch_bytes(batch)) <= 64  # bitmaps of lists are padded
        partitions = partition_of(codes, PARTITIONS).tolist()
        self.rows += zip(partitions, stamps.tolist(), batch.to_pylist(), strict=True)
        self.stamp += len(keys)

    @rule(wanted=KEYS, room=st.integers(1, 30))
    def find(self, wanted: list[int], room: int) -> None:
        found: Counter[tuple[int, int]] = Counter()
        for rows, asked in self.table.find(hashes_of(wanted), PairBuffer(room)):
            assert 0 < len(rows) <= room
            found.update(zip(rows.tolist(), asked.tolist(), strict=True))
        assert found == Counter(
            (row, asked)
            for asked, key in enumerate(wanted)
            for row, (_, _, values) in enumerate(self.rows)
            if values["key"] == key
        )

    @rule(data=st.data())
    def drop_the_oldest(self, data: st.DataObject) -> None:
        gone = np.array(
            [data.draw(st.integers(0, int(held))) for held in self.table.by_partition], np.int64
        )
        chosen = self.table.oldest(gone)
        for p, index in enumerate(chosen):
            own = [n for n, (partition, _, _) in enumerate(self.rows) if partition == p]
            assert index.tolist() == own[: gone[p]]
        keep = np.ones(len(self.table), np.bool_)
        keep[np.concatenate(chosen)] = False
        self.table.drop(keep, gone)
        self.rows = [row for row, kept in zip(self.rows, keep, strict=True) if kept]

    @rule()
    def clear(self) -> None:
        self.table.clear()
        self.rows = []
        assert self.table.nbytes == 0

    @invariant()
    def holds_the_same_rows(self) -> None:
        assert len(self.table) == len(self.rows)
        assert self.table.stamps.tolist() == [stamp for _, stamp, _ in self.rows]
        counts = Counter(partition for partition, _, _ in self.rows)
        assert self.table.by_partition.tolist() == [counts[p] for p in range(PARTITIONS)]
        every = np.arange(len(self.rows))
        for column, name in enumerate(SCHEMA.names):
            values = [row[name] for _, _, row in self.rows]
            assert self.table.take(column, every).to_pylist() == values
        keys = [int(str(row["key"])) for _, _, row in self.rows]
        assert self.table.codes(every).tolist() == hashes_of(keys).tolist()


TestTableAgainstAList = TableAgainstAList.TestCase


def test_a_table_is_as_large_as_its_rows() -> None:
    schema = pa.schema({"key": pa.int64(), "text": pa.string()})
    table = Table(schema, rows=100, nbytes=100, partitions=2)
    assert table.nbytes == 0
    table.add(hashes_of([1, 2]), np.arange(2), pa.record_batch([[1, 2], ["abc", None]], schema))
    assert table.nbytes == 2 * row_bytes(schema) + 3


def test_few_rows_in_a_table_that_held_many_are_not_long_rows() -> None:
    schema = pa.schema({"k": pa.int64()})
    table = Table(schema, rows=100_000, nbytes=0, partitions=1)
    rows = pa.record_batch({"k": np.arange(100_000)}, schema=schema)
    codes = np.arange(100_000, dtype=np.uint64)
    table.add(codes, np.arange(100_000), rows)
    mean = table.mean_bytes()
    keep = np.zeros(100_000, np.bool_)
    keep[:3] = True
    table.drop(keep, np.array([100_000 - 3]))
    assert table.mean_bytes() == mean
    assert table.nbytes > 3 * mean  # its buckets still count
