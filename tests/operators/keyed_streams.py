"""Streams whose keys have no codes of their own, with promises, and all that comes out of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

import watersmeet as wm
from watersmeet.model import Side
from watersmeet.operators.family import make_promised, restore_promised
from watersmeet.operators.progressive.join import ProgressiveJoin
from watersmeet.operators.promised.join import PromisedJoin
from watersmeet.operators.tuning import Costs, Tuning
from watersmeet.promises.kinds import PromiseOfValues
from watersmeet.rows.address import Matches
from watersmeet.rows.keys import Hashes
from watersmeet.rows.schema import JoinSchema
from watersmeet.rows.types import with_padding
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import IoKind, SpillArea
from watersmeet.testing.schedule import StateFolder

L, R = Side


def uuid(number: int) -> UUID:
    """UUIDs of which some have the same first bytes."""
    return UUID(int=(number % 3 << 120) + number)


KeyOf = Callable[[int], tuple[Any, ...]]
Fields = list[tuple[pa.Field, pa.Field]]


def both(*kinds: pa.DataType) -> Fields:
    return [(pa.field(f"k{n}", kind), pa.field(f"k{n}", kind)) for n, kind in enumerate(kinds)]


KEYS: dict[str, tuple[Fields, KeyOf]] = {
    "uuid text": (both(pa.string()), lambda n: (str(uuid(n)),)),
    "uuid bytes": (
        [(pa.field("k0", pa.binary(16)), pa.field("k0", pa.binary()))],
        lambda n: (uuid(n).bytes,),
    ),
    "texts, short and long": (both(pa.large_string()), lambda n: ("abcdef"[: n % 7] + "g" * n,)),
    "text and number": (both(pa.string(), pa.int64()), lambda n: (f"user number {n % 4}", n // 4)),
    "wide decimal and text": (
        [
            (pa.field("k0", pa.decimal128(38, 2)), pa.field("k0", pa.decimal128(36, 2))),
            (pa.field("k1", pa.string()), pa.field("k1", pa.large_string())),
        ],
        lambda n: (Decimal(10**30 + n // 3), "abc"[n % 3]),
    ),
    "three columns": (
        both(pa.string(), pa.int64(), pa.decimal128(38, 4)),
        lambda n: (f"a long text {n % 4}", n, Decimal(10**30 + n % 2)),
    ),
    "wide decimal": (both(pa.decimal128(38, 4)), lambda n: (Decimal(10**30 + n),)),
    "padded text": (
        [(with_padding(pa.field("k0", pa.string()), 12), pa.field("k0", pa.string()))],
        lambda n: (f"name {n:07}",),
    ),
    "struct": (
        both(pa.struct({"a": pa.string(), "b": pa.int64()})),
        lambda n: ({"a": f"part {n % 3}", "b": n},),
    ),
}


_MORE = [("t", pa.int64()), ("n", pa.int64()), ("over", pa.bool_())]
"""The number of the key, that of the row, and whether it is a marker row."""


def two_bits(hashes: Hashes) -> Hashes:
    return (hashes % np.uint64(4)) << np.uint64(62)


REHASHES: dict[str, Any] = {
    "true hashes": None,
    "two bits": two_bits,
    "one hash": lambda hashes: np.full_like(hashes, 7),
}
COSTS = Costs(random=0.01, sequential=0.001)
SPILLING = Tuning(partitions=2, costs=COSTS, memory_rows=24, purge_share=0.0)
IN_MEMORY = Tuning(partitions=2, costs=COSTS)


class Stream:
    """A join of two inputs with keys of one kind, and all that has come out of it."""

    def __init__(
        self,
        kind: str,
        promises: list[PromiseOfValues],
        directory: Path,
        *,
        how: str = "full",
        codes: str = "true hashes",
        tuning: Tuning = IN_MEMORY,
        on: list[Any] | None = None,
    ) -> None:
        self._kind = kind
        fields, self._key_of = KEYS[kind]
        names = [mine.name for mine, _ in fields]
        self._inputs = [pa.schema([*(pair[side] for pair in fields), *_MORE]) for side in Side]
        self.schema = JoinSchema.resolve(
            self._inputs[L], self._inputs[R], on or names, how, rehash=REHASHES[codes]
        )
        self._promises = promises
        self._directory, self._tuning = directory, tuning
        self._area = StateFolder(directory / "state")
        self.found: Counter[tuple[Any, Any]] = Counter()
        self.rows: tuple[list[int], list[int]] = ([], [])
        """The numbers of the keys that came, by side."""
        self.join = make_promised("rpj", self.schema, promises, **self._settings())

    def _settings(self) -> dict[str, Any]:
        memory, spill = MemoryAccount(2**26), SpillArea(self._directory)
        return {"memory": memory, "spill": spill, "tuning": self._tuning, "purge": "memory"}

    def push(self, side: Side, numbers: list[int], *, over: list[int] | None = None) -> None:
        """Rows with the keys of these numbers, and marker rows after them."""
        over, first = over or [], len(self.rows[side])
        schema = self._inputs[side]
        keys = [self._key_of(number) for number in [*numbers, *over]]
        columns = [
            pa.array([key[n] for key in keys], schema.field(n).type)
            for n in range(len(KEYS[self._kind][0]))
        ]
        count = [*range(first, first + len(numbers)), *[None] * len(over)]
        columns += [
            pa.array([*numbers, *over], pa.int64()),
            pa.array(count, pa.int64()),
            pa.array([n is None for n in count]),
        ]
        self.rows[side].extend(numbers)
        self.take(self.join.push(side, pa.RecordBatch.from_arrays(columns, schema=schema)))

    def take(self, matches: Iterator[Matches]) -> None:
        for each in matches:
            batch = self.schema.materialise(each)
            numbers = (batch.column(name).to_pylist() for name in ("n", "n_right"))
            self.found.update(zip(*numbers, strict=True))

    def settle(self) -> None:
        self.take(self.join.settle())
        self.take(self.join.tidy())

    def save(self, *, restores: bool) -> int:
        """The bytes of what the join saved beside rows, without what the keeper did."""
        manifest = self.join.save(self._area)
        self._area.keep(manifest["files"])
        text = json.dumps(manifest)
        if restores:
            self.join.close()
            self.join = restore_promised(
                "rpj", self.schema, self._promises, area=self._area, manifest=json.loads(text),
                **self._settings(),
            )  # fmt: skip
        del manifest["promised"]
        return len(json.dumps(manifest))

    @property
    def inner(self) -> ProgressiveJoin:
        assert isinstance(self.join, PromisedJoin)
        assert isinstance(self.join.inner, ProgressiveJoin)
        return self.join.inner

    def kept(self, side: Side) -> Counter[int]:
        """The numbers of the keys of the rows that are there, in memory and on disk."""
        workspace = self.inner.workspace
        table = workspace.memory.tables[side]
        batches = [table.batch(np.arange(len(table)))]
        for disk in workspace.disk.partitions:
            for run in disk.runs[side]:
                read = run.open(IoKind.SCAN)
                batches += [read(number).rows for number in range(run.block_count)]
        return Counter(n for batch in batches for n in batch.column("t").to_pylist())

    def finish(self) -> None:
        """End both inputs, and compare the result with that of a loop."""
        for side in Side:
            self.take(self.join.end(side))
        self.take(self.join.finish())
        self.join.close()
        pairs: Counter[tuple[Any, Any]] = Counter(
            (mine, other)
            for mine, left in enumerate(self.rows[L])
            for other, right in enumerate(self.rows[R])
            if left == right
        )
        if self.schema.how.keeps_unmatched(L):
            matched = {mine for mine, _ in pairs}
            pairs.update((n, None) for n in range(len(self.rows[L])) if n not in matched)
        if self.schema.how.keeps_unmatched(R):
            matched = {other for _, other in pairs}
            pairs.update((None, n) for n in range(len(self.rows[R])) if n not in matched)
        assert self.found == pairs


def over(kind: str, *sides: str) -> list[PromiseOfValues]:
    """Marker rows of these sides say which keys do not come any more."""
    pattern = {mine.name: "equal" for mine, _ in KEYS[kind][0]}
    return [wm.punctuated(side, "over", pattern) for side in sides]


def play(
    kind: str,
    directory: Path,
    *,
    codes: str,
    tuning: Tuning,
    how: str = "full",
    seed: int = 1,
    turns: int = 10,
) -> None:
    """Keys that come and go on both sides. What is there is looked at after each turn: exactly the
    rows whose key the other side has not promised away."""
    random = Random(seed)
    stream = Stream(
        kind, over(kind, "left", "right"), directory, how=how, codes=codes, tuning=tuning
    )
    promised: tuple[set[int], set[int]] = (set(), set())
    for turn in range(turns):
        for side in random.sample([L, R], 2):
            keys = [3 * turn + random.randrange(9) for _ in range(random.randint(1, 8))]
            old = {random.randrange(3 * turn + 4) for _ in range(random.randint(0, 6))}
            stream.push(side, [k for k in keys if k not in promised[side]], over=sorted(old))
            promised[side].update(old)
            if random.random() < 0.4:
                stream.save(restores=random.random() < 0.6)
        stream.settle()
        for side in Side:
            there = Counter(n for n in stream.rows[side] if n not in promised[side.other])
            assert stream.kept(side) == there, f"turn {turn}"
    stream.finish()
