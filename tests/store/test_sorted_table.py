"""A table in order of codes against a list of rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from watersmeet.kernels import sorting
from watersmeet.rows.address import Index
from watersmeet.store.index import Codes, PairBuffer
from watersmeet.store.sorted_table import NewOrder, SortedTable, sorted_bytes

SCHEMA = pa.schema({"key": pa.int64(), "text": pa.string()})
KEYS = st.lists(st.integers(0, 12), max_size=30)


@dataclass(frozen=True)
class Row:
    key: int
    text: str
    stamp: int
    region: int
    joined: int


class SortedTableAgainstAList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = SortedTable(SCHEMA, rows=4096, nbytes=2**20, encode=self.encoded)
        self.rows: list[Row] = []
        self.stamp = 0

    def encoded(self, index: Index) -> Codes:
        codes: Codes = self.table.batch(index).column("key").to_numpy().astype(np.uint64)
        return codes

    @rule(keys=KEYS)
    def add(self, keys: list[int]) -> None:
        new = [
            Row(key, "x" * (n % 5), self.stamp + n, region=key % 3, joined=n % 2)
            for n, key in enumerate(keys)
        ]
        before = self.table.nbytes
        self.table.add(
            np.arange(self.stamp, self.stamp + len(keys)),
            pa.record_batch([keys, [row.text for row in new]], schema=SCHEMA),
            [
                NewOrder(
                    sorting.sort(np.array(keys, np.uint64)),
                    np.array([row.region for row in new], np.uint8),
                    np.array([row.joined for row in new], np.uint8),
                )
            ],
        )
        text = sum(len(row.text) for row in new)
        assert abs(self.table.nbytes - before - len(keys) * sorted_bytes(SCHEMA) - text) <= 64
        self.rows += new
        self.stamp += len(keys)

    @rule(seed=st.integers(0, 99))
    def drop(self, seed: int) -> None:
        keep = np.random.default_rng(seed).random(len(self.rows)) < 0.6
        self.table.drop(keep)
        self.rows = [row for row, kept in zip(self.rows, keep, strict=True) if kept]

    @rule()
    def clear(self) -> None:
        self.table.clear()
        self.rows = []

    @rule(seed=st.integers(0, 99))
    def change_flags(self, seed: int) -> None:
        """They are views: who has them can change them."""
        drawn = np.random.default_rng(seed).integers(0, 2, len(self.rows))
        self.table.joined[:] = drawn
        self.rows = [
            replace(row, joined=int(bit)) for row, bit in zip(self.rows, drawn, strict=True)
        ]

    @rule(low=st.integers(0, 12), high=st.integers(0, 12), room=st.integers(1, 9))
    def find(self, low: int, high: int, room: int) -> None:
        first, last = np.array([low], np.uint64), np.array([high], np.uint64)
        found = [
            row
            for rows, _ in self.table.index.find(first, PairBuffer(room), until=last)
            for row in rows.tolist()
        ]
        assert sorted(found) == [n for n, row in enumerate(self.rows) if low <= row.key <= high]

    @rule()
    def rows_are_in_order(self) -> None:
        codes, rows = self.table.index.in_order()
        assert codes.tolist() == sorted(row.key for row in self.rows)
        assert [self.rows[row].key for row in rows.tolist()] == codes.tolist()

    @invariant()
    def all_is_there(self) -> None:
        assert len(self.table) == len(self.rows)
        every = np.arange(len(self.rows))
        assert self.table.regions.tolist() == [row.region for row in self.rows]
        assert self.table.joined.tolist() == [row.joined for row in self.rows]
        assert self.table.stamps.tolist() == [row.stamp for row in self.rows]
        got = self.table.batch(every).to_pylist()
        assert got == [{"key": row.key, "text": row.text} for row in self.rows]
        assert self.table.codes(every).tolist() == [row.key for row in self.rows]


TestSortedTableAgainstAList = SortedTableAgainstAList.TestCase
