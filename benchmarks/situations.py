"""Parquet files on which an interval may fail, each in its own way.

A situation is a function from a kind of data to files and a question.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import watersmeet as wm
from benchmarks.sales import (
    ALL,
    Asked,
    Data,
    asked,
    base,
    even,
    in_block,
    some_blocks,
    written,
)

Make = Callable[[Data, Path], Asked]
SITUATIONS: dict[str, Make] = {}


def situation(name: str) -> Callable[[Make], Make]:
    def named(make: Make) -> Make:
        SITUATIONS[name] = make
        return make

    return named


# ---- controls --------------------------------------------------------------------------------


def _control(*, skewed: bool, grouped: bool) -> Make:
    def make(data: Data, folder: Path) -> Asked:
        columns = base(data, data.generator(f"control {skewed}"), skewed=skewed)
        return asked(folder, columns, data, group_by="g" if grouped else None)

    return make


SITUATIONS["control"] = _control(skewed=False, grouped=False)
SITUATIONS["control, by groups"] = _control(skewed=False, grouped=True)
SITUATIONS["control, skewed"] = _control(skewed=True, grouped=False)
SITUATIONS["control, skewed, by groups"] = _control(skewed=True, grouped=True)


@situation("control, both signs")
def _signs(data: Data, folder: Path) -> Asked:
    rng = data.generator("signs")
    columns = base(data, rng)
    columns["p"] = rng.normal(1, 5, data.all_rows)
    return asked(folder, columns, data)


@situation("control, text groups and nulls")
def _texts(data: Data, folder: Path) -> Asked:
    rng = data.generator("texts")
    columns = base(data, rng)
    columns["p"] = pa.array(columns["p"], mask=rng.random(data.all_rows) < 0.1)
    columns["g"] = pa.array([f"kind of {number}" for number in columns["g"]])
    return asked(folder, columns, data, group_by="g")


@situation("control, filter of a tenth")
def _tenth(data: Data, folder: Path) -> Asked:
    rng = data.generator("tenth")
    columns = base(data, rng) | {"f": rng.integers(0, 100, data.all_rows)}
    return asked(folder, columns, data, where="f < 10")


# ---- orders of rows --------------------------------------------------------------------------


def _sorted(by: str, *, skewed: bool, grouped: bool) -> Make:
    def make(data: Data, folder: Path) -> Asked:
        columns = base(data, data.generator(f"sorted {by} {skewed}"), skewed=skewed)
        order = np.argsort(columns[by], kind="stable")
        columns = {name: values[order] for name, values in columns.items()}
        return asked(folder, columns, data, group_by="g" if grouped else None)

    return make


SITUATIONS["sorted by value"] = _sorted("p", skewed=False, grouped=False)
SITUATIONS["sorted by value, skewed"] = _sorted("p", skewed=True, grouped=False)
SITUATIONS["sorted by value, by groups"] = _sorted("p", skewed=True, grouped=True)
SITUATIONS["sorted by group"] = _sorted("g", skewed=False, grouped=True)
SITUATIONS["sorted by group, skewed"] = _sorted("g", skewed=True, grouped=True)
SITUATIONS["sorted by key"] = _sorted("k", skewed=False, grouped=True)


@situation("sorted by value, downwards, in several files' runs")
def _runs(data: Data, folder: Path) -> Asked:
    columns = base(data, data.generator("runs"), skewed=True)
    part = np.arange(data.all_rows) * 5 // data.all_rows
    order = np.lexsort([-columns["p"], part])
    return asked(folder, {name: values[order] for name, values in columns.items()}, data)


@situation("sorted by value, both signs")
def _sorted_signs(data: Data, folder: Path) -> Asked:
    columns = base(data, data.generator("sorted signs"), skewed=True)
    columns["p"] = np.sort(columns["p"] - np.quantile(columns["p"], 0.2))
    return asked(folder, columns, data)


def _drifting(factor: float, *, grouped: bool) -> Make:
    def make(data: Data, folder: Path) -> Asked:
        columns = base(data, data.generator("drift"))
        columns["p"] = columns["p"] * np.linspace(1, factor, data.all_rows)
        return asked(folder, columns, data, group_by="g" if grouped else None)

    return make


SITUATIONS["values drift threefold"] = _drifting(3, grouped=False)
SITUATIONS["values drift twentyfold, by groups"] = _drifting(20, grouped=True)


@situation("season: values by day of the week")
def _season(data: Data, folder: Path) -> Asked:
    columns = base(data, data.generator("season"))
    block = np.arange(data.all_rows) // data.rows
    columns["p"] = columns["p"] * np.array([1, 1, 1, 1, 2, 4, 3])[block % 7]
    return asked(folder, columns, data, group_by="g")


# ---- few blocks that differ ------------------------------------------------------------------


def _larger(count: int, factor: float | None, *, skewed: bool = False) -> Make:
    def make(data: Data, folder: Path) -> Asked:
        rng = data.generator(f"larger {count} {factor}")
        columns = base(data, rng, skewed=skewed)
        for block in some_blocks(data, rng, count):
            columns["p"][in_block(data, block)] *= factor or data.factor
        return asked(folder, columns, data)

    return make


SITUATIONS["1 block 3 times larger"] = _larger(1, 3.0)
SITUATIONS["1 block larger"] = _larger(1, None)
SITUATIONS["1 block 50 times larger"] = _larger(1, 50.0)
SITUATIONS["1 block larger, skewed"] = _larger(1, 10.0, skewed=True)
SITUATIONS["5 blocks larger"] = _larger(5, None)
SITUATIONS["5 blocks 3 times larger"] = _larger(5, 3.0)
SITUATIONS["5 blocks larger, skewed"] = _larger(5, 10.0, skewed=True)


def _refunds(count: int) -> Make:
    def make(data: Data, folder: Path) -> Asked:
        rng = data.generator(f"refunds {count}")
        columns = base(data, rng)
        for block in some_blocks(data, rng, count):
            columns["p"][in_block(data, block)] *= -1
        return asked(folder, columns, data)

    return make


SITUATIONS["1 block of refunds"] = _refunds(1)
SITUATIONS["5 blocks of refunds"] = _refunds(5)


@situation("larger blocks, refunds and sizes at once")
def _several(data: Data, folder: Path) -> Asked:
    """Refunds and sizes stand out most; the blocks that are only 2.5 times larger hide."""
    rng = data.generator("several")
    sizes = even(data)
    chosen = some_blocks(data, rng, 14)
    for block in chosen[:4]:
        sizes[block] = 3 * data.rows
    columns = base(data, rng, rows=sum(sizes))
    starts = np.cumsum([0, *sizes])
    for place, block in enumerate(chosen[4:]):
        columns["p"][starts[block] : starts[block + 1]] *= 2.5 if place < 7 else -0.5
    return asked(folder, columns, data, sizes=sizes)


def _every(step: int, factor: float | None) -> Make:
    def make(data: Data, folder: Path) -> Asked:
        columns = base(data, data.generator(f"every {step}"))
        block = np.arange(data.all_rows) // data.rows
        columns["p"][block % step == 0] *= factor or data.factor
        return asked(folder, columns, data)

    return make


SITUATIONS["every tenth block larger"] = _every(10, None)
SITUATIONS["every tenth block 50 times larger"] = _every(10, 50.0)
SITUATIONS["every third block larger"] = _every(3, None)


@situation("a few huge values in 2 blocks")
def _huge(data: Data, folder: Path) -> Asked:
    rng = data.generator("huge")
    columns = base(data, rng)
    for block in some_blocks(data, rng, 2):
        columns["p"][in_block(data, block)][:20] *= 1_000
    return asked(folder, columns, data)


@situation("3 blocks of nulls")
def _nulls(data: Data, folder: Path) -> Asked:
    rng = data.generator("nulls")
    columns = base(data, rng)
    mask = np.zeros(data.all_rows, np.bool_)
    for number, block in enumerate(some_blocks(data, rng, 3)):
        mask[in_block(data, block)] = rng.random(data.rows) < (1.0, 0.9, 0.5)[number]
    columns["p"] = pa.array(columns["p"], mask=mask)
    return Asked(
        *written(folder, columns, even(data), data),
        aggregates=dict(ALL) | {"filled": wm.count("p")},
    )


@situation("4 blocks without a match")
def _unmatched(data: Data, folder: Path) -> Asked:
    rng = data.generator("unmatched")
    columns = base(data, rng)
    for block in some_blocks(data, rng, 4):
        columns["k"][in_block(data, block)] += data.keys
    return asked(folder, columns, data)


@situation("2 blocks of one key")
def _one_key(data: Data, folder: Path) -> Asked:
    rng = data.generator("one key")
    columns = base(data, rng)
    for block in some_blocks(data, rng, 2):
        columns["k"][in_block(data, block)] = 7
    left, right = written(folder, columns, even(data), data)
    identities = np.concatenate([np.arange(data.keys), np.full(200, 7)])
    pq.write_table(pa.table({"id": identities}), right)
    return Asked(left, right)


@situation("three keys with 60 partners")
def _sixty(data: Data, folder: Path) -> Asked:
    rng = data.generator("sixty")
    columns = base(data, rng)
    columns["p"] *= np.where(rng.random(data.all_rows) < 0.02, -3, 1)
    left, right = written(folder, columns, even(data), data)
    identities = np.concatenate([np.arange(data.keys), np.repeat([11, 12, 13], 60)])
    pq.write_table(pa.table({"id": identities}), right)
    return Asked(left, right)


@situation("hot keys everywhere")
def _hot(data: Data, folder: Path) -> Asked:
    rng = data.generator("hot")
    columns = base(data, rng)
    shares = np.arange(1, data.keys + 1) ** -0.9
    columns["k"] = rng.choice(data.keys, data.all_rows, p=shares / shares.sum())
    left, right = written(folder, columns, even(data), data)
    identities = rng.choice(data.keys, data.keys, p=shares / shares.sum())
    pq.write_table(pa.table({"id": identities}), right)
    return Asked(left, right)


@situation("a rare key with many partners")
def _rare(data: Data, folder: Path) -> Asked:
    rng = data.generator("rare")
    columns = base(data, rng)
    rare = data.keys // 2
    columns["k"] += columns["k"] == rare
    for block in some_blocks(data, rng, 3):
        columns["k"][in_block(data, block)][:5] = rare
    left, right = written(folder, columns, even(data), data)
    identities = np.concatenate([np.arange(data.keys), np.full(data.rows * 8, rare)])
    pq.write_table(pa.table({"id": identities}), right)
    return Asked(left, right)


@situation("6 blocks of one group")
def _one_group(data: Data, folder: Path) -> Asked:
    rng = data.generator("one group")
    columns = base(data, rng)
    for block in some_blocks(data, rng, 6):
        columns["g"][in_block(data, block)] = data.groups - 1
    return asked(folder, columns, data, group_by="g")


@situation("a filter that few blocks pass")
def _filtered(data: Data, folder: Path) -> Asked:
    rng = data.generator("filtered")
    return asked(folder, base(data, rng), data, where="t >= 400 AND t < 480")


@situation("a filter that follows the file")
def _followed(data: Data, folder: Path) -> Asked:
    rng = data.generator("followed")
    return asked(folder, base(data, rng), data, where="t >= 300", group_by="g")


@situation("a filter with an edge inside large row groups")
def _edge(data: Data, folder: Path) -> Asked:
    """Days follow the file, another condition is open everywhere; large row groups are cut."""
    rng = data.generator("edge")
    sizes: list[int] = []
    while sum(sizes) < data.all_rows:
        share = rng.random()
        sizes.append(
            18 * data.rows if share < 0.05 else data.rows if share < 0.6 else data.rows // 2
        )
    columns = base(data, rng, rows=sum(sizes)) | {"f": rng.integers(0, 50, sum(sizes))}
    return asked(
        folder, columns, data, sizes=sizes, where="t >= 250 AND t < 700 AND f < 40", group_by="g"
    )


# ---- tails -----------------------------------------------------------------------------------


def _masked(tail: str) -> Make:
    def make(data: Data, folder: Path) -> Asked:
        rng = data.generator(f"masked {tail}")
        columns = base(data, rng)
        mine = columns["g"] == 1
        if tail == "pareto":
            columns["p"][mine] = (rng.pareto(1.3, data.all_rows) + 1)[mine]
        elif tail == "lognormal":
            columns["p"][mine] = rng.lognormal(0, 2, data.all_rows)[mine]
        else:
            rare = mine & (rng.random(data.all_rows) < 1 / (20 * data.rows))
            columns["p"][rare] *= 300
        most = float(columns["p"].max())
        columns["p"][columns["g"] == 0] *= 3 * most / data.usual(rng, 1_000).max()
        return asked(folder, columns, data, group_by="g")

    return make


SITUATIONS["a Pareto tail behind a larger group"] = _masked("pareto")
SITUATIONS["a lognormal tail behind a larger group"] = _masked("lognormal")
SITUATIONS["rare huge values behind a larger group"] = _masked("rare")


@situation("Pareto 1.5 in random order")
def _pareto(data: Data, folder: Path) -> Asked:
    rng = data.generator("pareto")
    columns = base(data, rng)
    columns["p"] = rng.pareto(1.5, data.all_rows) + 1
    return asked(folder, columns, data)


@situation("lognormal 1.2 by groups of geometric size")
def _geometric(data: Data, folder: Path) -> Asked:
    rng = data.generator("geometric")
    columns = base(data, rng)
    shares = 2.0 ** -np.arange(12)
    columns["p"] = rng.lognormal(3, 1.2, data.all_rows)
    columns["g"] = rng.choice(12, data.all_rows, p=shares / shares.sum())
    return asked(folder, columns, data, group_by="g")


# ---- sizes -----------------------------------------------------------------------------------


def _uneven(large: int, times: int, small: int, rows: int, *, values: bool = False) -> Make:
    def make(data: Data, folder: Path) -> Asked:
        rng = data.generator(f"uneven {large} {times}")
        sizes = [rows * times] * large + [rows] * small
        order = rng.permutation(len(sizes))
        columns = base(data, rng, rows=sum(sizes))
        if values:
            differ = np.repeat([data.factor] * large + [1.0] * small, sizes)
            columns["p"] = columns["p"] * differ
        # Row groups of both kinds, in any order.
        starts = np.concatenate([[0], np.cumsum(sizes)])
        rows_of = np.concatenate([np.arange(starts[n], starts[n + 1]) for n in order])
        columns = {name: array[rows_of] for name, array in columns.items()}
        return asked(folder, columns, data, sizes=[sizes[n] for n in order])

    return make


SITUATIONS["3 of 150,000 rows, 120 of 400"] = _uneven(3, 375, 120, 400)
SITUATIONS["3 of 150,000, larger values"] = _uneven(3, 375, 120, 400, values=True)
SITUATIONS["1 of 400,000 rows, 200 of 500"] = _uneven(1, 800, 200, 500)
SITUATIONS["1 of 400,000, larger values"] = _uneven(1, 800, 200, 500, values=True)
SITUATIONS["30 of 8,000 rows, 120 of 400"] = _uneven(30, 20, 120, 400)
SITUATIONS["30 of 8,000, larger values"] = _uneven(30, 20, 120, 400, values=True)
SITUATIONS["5 of 100,000 rows, 3,000 of 50"] = _uneven(5, 2_000, 3_000, 50)


@situation("sizes from 100 to 10,000, values with them")
def _sizes(data: Data, folder: Path) -> Asked:
    rng = data.generator("sizes")
    sizes = [int(size) for size in np.exp(rng.uniform(np.log(100), np.log(5_000), data.blocks))]
    columns = base(data, rng, rows=sum(sizes))
    columns["p"] = columns["p"] * np.repeat(np.sqrt(sizes), sizes) / 30
    return asked(folder, columns, data, sizes=sizes, group_by="g")


@situation("sizes with a long tail, smaller values in larger blocks")
def _long(data: Data, folder: Path) -> Asked:
    rng = data.generator("long")
    sizes = [int(size) for size in np.minimum(60 + rng.pareto(1.1, data.blocks) * 150, 30_000)]
    columns = base(data, rng, rows=sum(sizes))
    columns["p"] = columns["p"] * np.repeat(np.array(sizes) ** -0.3, sizes)
    return asked(folder, columns, data, sizes=sizes, group_by="g")


@situation("larger values in small blocks")
def _small(data: Data, folder: Path) -> Asked:
    rng = data.generator("small")
    sizes = [data.rows if number % 4 else data.rows // 10 for number in range(data.blocks)]
    columns = base(data, rng, rows=sum(sizes))
    columns["p"] = columns["p"] * np.repeat([1 if n == data.rows else 12 for n in sizes], sizes)
    return asked(folder, columns, data, sizes=sizes)


# ---- files that say less -----------------------------------------------------------------------


@situation("no statistics, control")
def _silent(data: Data, folder: Path) -> Asked:
    columns = base(data, data.generator("silent"))
    return asked(folder, columns, data, write_statistics=False)


@situation("no statistics, 1 block larger")
def _silent_larger(data: Data, folder: Path) -> Asked:
    rng = data.generator("silent larger")
    columns = base(data, rng)
    columns["p"][in_block(data, some_blocks(data, rng, 1)[0])] *= data.factor
    return asked(folder, columns, data, write_statistics=False)


@situation("no statistics, uneven sizes")
def _silent_uneven(data: Data, folder: Path) -> Asked:
    rng = data.generator("silent uneven")
    sizes = [data.rows if number % 10 else data.rows * 20 for number in range(data.blocks)]
    columns = base(data, rng, rows=sum(sizes))
    return asked(folder, columns, data, sizes=sizes, write_statistics=False)


@situation("a condition instead of a column")
def _condition(data: Data, folder: Path) -> Asked:
    rng = data.generator("condition")
    columns = base(data, rng)
    columns["p"][in_block(data, some_blocks(data, rng, 1)[0])] *= data.factor
    left, right = written(folder, columns, even(data), data)
    most = float(np.quantile(columns["p"], 0.9))
    return Asked(
        left, right,
        aggregates={
            "cheap": wm.sum(f"CASE WHEN p < {most} THEN p ELSE 0 END"),
            "dear": wm.sum(f"CASE WHEN p >= {most} THEN 1 ELSE 0 END"),
            "rest": wm.avg("p % 7"),
        },
    )  # fmt: skip


# ---- orders and their items --------------------------------------------------------------------


def _tpch(*, grouped: bool) -> Make:
    """Lineitem as generated, in the order of its key, with large and small row groups mixed."""

    def make(data: Data, folder: Path) -> Asked:
        rng = data.generator("tpch")
        command = Path(sys.executable).with_name("tpchgen-cli")
        scale = "0.03" if data.seed % 2 else "0.04"
        subprocess.run(
            [command, "parquet", "-s", scale, "--tables", "lineitem,orders", "-o", folder],
            check=True, capture_output=True,
        )  # fmt: skip
        names = ["l_orderkey", "l_extendedprice", "l_discount"]
        rows = pq.read_table(folder / "lineitem.parquet", columns=names)
        sizes: list[int] = []
        while sum(sizes) < len(rows):
            size = 15_000 if rng.random() < 0.05 else data.rows
            sizes.append(min(size, len(rows) - sum(sizes)))
        left = folder / "items.parquet"
        with pq.ParquetWriter(left, rows.schema) as writer:
            start = 0
            for size in sizes:
                writer.write_table(rows.slice(start, size), row_group_size=size)
                start += size
        revenue = "l_extendedprice * (1 - l_discount)"
        return Asked(
            left, folder / "orders.parquet", on={"l_orderkey": "o_orderkey"},
            group_by="o_orderpriority" if grouped else None,
            where="o_orderdate >= DATE '1995-01-01' AND o_orderdate < DATE '1996-01-01'",
            aggregates={"n": wm.count(), "total": wm.sum(revenue), "mean": wm.avg(revenue)},
        )  # fmt: skip

    return make


SITUATIONS["TPC-H, large and small row groups"] = _tpch(grouped=False)
SITUATIONS["TPC-H, large and small, by groups"] = _tpch(grouped=True)
