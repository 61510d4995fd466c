"""The tables that situations are made of.

Sales `s` (key k, value p, group g, day t) and articles with the key `id`. What differs between the
data "tuned", "judged" and the others: distributions, sizes, factors, seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import watersmeet as wm
from watersmeet.aggregates.ask.specification import Aggregate

Columns = dict[str, Any]
Generator = np.random.Generator


@dataclass(frozen=True)
class Data:
    """What the situations are made of."""

    seed: int
    first_order: int
    blocks: int
    rows: int  # of a block
    keys: int
    groups: int
    usual: Callable[[Generator, int], Any]  # values without a heavy tail
    skewed: Callable[[Generator, int], Any]
    factor: float  # how much larger the different ones are

    @property
    def all_rows(self) -> int:
        return self.blocks * self.rows

    def generator(self, name: str) -> Generator:
        return np.random.default_rng([self.seed, *name.encode()])


DATA = {
    "tuned": Data(
        seed=1, first_order=0, blocks=200, rows=500, keys=4_000, groups=6, factor=5.0,
        usual=lambda rng, n: rng.gamma(2.0, 20.0, n),
        skewed=lambda rng, n: rng.lognormal(3, 1.2, n),
    ),
    "judged": Data(
        seed=2, first_order=10_000, blocks=240, rows=400, keys=7_000, groups=5, factor=8.0,
        usual=lambda rng, n: rng.lognormal(1, 0.6, n),
        skewed=lambda rng, n: rng.lognormal(2, 1.35, n),
    ),
    "fresh": Data(
        seed=3, first_order=50_000, blocks=260, rows=450, keys=3_000, groups=4, factor=6.0,
        usual=lambda rng, n: rng.weibull(1.3, n) * 30,
        skewed=lambda rng, n: rng.lognormal(0, 1.1, n),
    ),
    "last": Data(
        seed=4, first_order=90_000, blocks=220, rows=550, keys=5_500, groups=7, factor=4.0,
        usual=lambda rng, n: rng.exponential(12.0, n) + 2,
        skewed=lambda rng, n: rng.lognormal(4, 1.25, n),
    ),
    "once": Data(
        seed=5, first_order=130_000, blocks=210, rows=480, keys=6_200, groups=5, factor=7.0,
        usual=lambda rng, n: rng.gamma(3.0, 8.0, n) + 1,
        skewed=lambda rng, n: rng.lognormal(1, 1.3, n),
    ),
}  # fmt: skip

ALL: Mapping[str, Aggregate] = {
    "n": wm.count(), "total": wm.sum("p"), "mean": wm.avg("p"), "spread": wm.stddev("p"),
}  # fmt: skip


@dataclass(frozen=True)
class Asked:
    left: Path
    right: Path
    on: dict[str, str] = field(default_factory=lambda: {"k": "id"})
    group_by: str | None = None
    where: str | None = None
    aggregates: Mapping[str, Aggregate] = field(default_factory=lambda: ALL)


def base(data: Data, rng: Generator, *, skewed: bool = False, rows: int | None = None) -> Columns:
    rows = rows or data.all_rows
    shares = 0.7 ** np.arange(data.groups)
    return {
        "k": rng.integers(0, data.keys, rows),
        "p": (data.skewed if skewed else data.usual)(rng, rows),
        "g": rng.choice(data.groups, rows, p=shares / shares.sum()),
        "t": np.sort(rng.integers(0, 1_000, rows)),
    }


def written(
    folder: Path, columns: Columns, sizes: Sequence[int], data: Data, **options: Any
) -> tuple[Path, Path]:
    """Row groups of these sizes, and the articles, of which one in five matches nothing."""
    left, right = folder / "s.parquet", folder / "articles.parquet"
    table = pa.table(columns)
    with pq.ParquetWriter(left, table.schema, **options) as writer:
        start = 0
        for size in sizes:
            writer.write_table(table.slice(start, size), row_group_size=size)
            start += size
    rng = np.random.default_rng(9)
    identities = rng.permutation(data.keys)[: data.keys * 4 // 5]
    pq.write_table(pa.table({"id": identities, "kind": identities % 3}), right)
    return left, right


def even(data: Data) -> list[int]:
    return [data.rows] * data.blocks


def asked(
    folder: Path, columns: Columns, data: Data, *, sizes: Sequence[int] | None = None,
    group_by: str | None = None, where: str | None = None, **options: Any,
) -> Asked:  # fmt: skip
    left, right = written(folder, columns, sizes or even(data), data, **options)
    return Asked(left, right, group_by=group_by, where=where)


def in_block(data: Data, block: int) -> slice:
    return slice(block * data.rows, (block + 1) * data.rows)


def some_blocks(data: Data, rng: Generator, count: int) -> list[int]:
    return [int(block) for block in rng.choice(data.blocks, count, replace=False)]
