"""Two tables in Parquet files, for Spark to join, and what their join must add up to."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.checksum import Words

# How a row is weighed: see `blend`.
FACTOR, SHIFT = 0x9E3779B97F4A7C15, 32
# A double that is a whole number of these can be checked without rounding.
DOUBLE_UNIT = 8
_ROW_GROUP_ROWS = 250_000
_FIRST_FILE = 1_700_000_000


@dataclass(frozen=True, kw_only=True)
class Table:
    """Parquet files in a folder, and the columns of theirs that take part; the key comes first."""

    folder: str
    columns: tuple[str, ...]

    def files(self) -> list[Path]:
        return sorted(Path(self.folder).glob("*.parquet"))

    @property
    def rows(self) -> int:
        return sum(pq.read_metadata(file).num_rows for file in self.files())

    @property
    def arrow_bytes(self) -> int:
        """What the rows take in Arrow; all columns here have a fixed width."""
        schema = pq.read_schema(self.files()[0])
        bits = sum(int(schema.field(name).type.bit_width) for name in self.columns)
        return bits // 8 * self.rows

    def batches(self) -> Iterator[pa.RecordBatch]:
        for file in self.files():
            yield from pq.ParquetFile(file).iter_batches(1 << 20, columns=list(self.columns))


@dataclass(frozen=True, kw_only=True)
class Relations:
    """Two tables that are joined on their keys, which are whole numbers from 0."""

    left: Table
    right: Table

    @property
    def rows(self) -> int:
        return self.left.rows + self.right.rows

    @property
    def arrow_bytes(self) -> int:
        return self.left.arrow_bytes + self.right.arrow_bytes

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Self:
        left, right = (
            Table(folder=plain[side]["folder"], columns=tuple(plain[side]["columns"]))
            for side in ("left", "right")
        )
        return cls(left=left, right=right)


def expected(relations: Relations) -> tuple[int, int]:
    """Rows and checksum of the inner join, without joining: sums per key, multiplied by key.

    As in `benchmarks.checksum`: the sum over result rows of a product of both partners' weights,
    modulo 2^64. Spark can compute this one (`spark_checksum`).
    """
    (count, weight), (other_count, other_weight) = map(_sums, (relations.left, relations.right))
    keys = min(len(count), len(other_count))
    products = weight[:keys] * other_weight[:keys]
    rows = int((count[:keys] * other_count[:keys]).sum())
    return rows, int(products.sum(dtype=np.uint64))


def blend(weight: Words, column: Words) -> Words:
    """A weight that depends on one more column."""
    product = (weight ^ column) * np.uint64(FACTOR)
    blended: Words = product ^ (product >> np.uint64(SHIFT))
    return blended


def _sums(table: Table) -> tuple[NDArray[np.int64], Words]:
    """By key, how many rows there are and what their weights add up to."""
    count = np.zeros(1, np.int64)
    total = np.zeros(1, np.uint64)
    for batch in table.batches():
        columns = [_words(batch.column(name)) for name in table.columns]
        weight = np.zeros(batch.num_rows, np.uint64)
        for column in columns:
            weight = blend(weight, column)
        keys = columns[0].astype(np.int64)
        if keys.max() >= len(count):
            more = max(int(keys.max()) + 1, 2 * len(count)) - len(count)
            count, total = np.pad(count, (0, more)), np.pad(total, (0, more))
        np.add.at(count, keys, 1)
        np.add.at(total, keys, weight)
    return count, total


def _words(column: pa.Array) -> Words:
    """A column as whole numbers, the same as `spark_checksum.number` makes of it."""
    numbers: NDArray[Any]
    if pa.types.is_floating(column.type):
        numbers = column.to_numpy(zero_copy_only=False) * DOUBLE_UNIT
    elif pa.types.is_decimal(column.type):
        # The lower of two words, which holds amounts of money in cents.
        words = np.frombuffer(column.buffers()[1], np.int64)
        numbers = words[2 * column.offset : 2 * (column.offset + len(column)) : 2]
    elif pa.types.is_date32(column.type):
        numbers = column.cast(pa.int32()).to_numpy(zero_copy_only=False)
    else:
        numbers = column.to_numpy(zero_copy_only=False)
    return numbers.astype(np.int64).view(np.uint64)


def uniform(folder: Path, *, rows: int, files: int) -> Relations:
    """Every key once on either side, in random order, with a row number and a random double."""
    tables = []
    for number, name in enumerate(("left", "right")):
        rng = np.random.default_rng([rows, number])
        table = pa.table(
            {
                "key": rng.permutation(rows),
                f"{name}_id": np.arange(rows),
                f"{name}_value": rng.integers(0, 2**40, rows) / DOUBLE_UNIT,
            }
        )
        _write(table, folder / name, files=files)
        tables.append(Table(folder=str(folder / name), columns=tuple(table.column_names)))
    return Relations(left=tables[0], right=tables[1])


def skewed(folder: Path, *, rows: int, files: int, master_rows: int, columns: int) -> Relations:
    """A stream whose keys come by Zipf's law with exponent 1, in no order of the keys, and a master
    table with every key once, in random order, and so many columns of eight bytes."""
    rng = np.random.default_rng([rows, master_rows])
    shares = np.cumsum(1.0 / np.arange(1, master_rows + 1))
    drawn = np.searchsorted(shares, rng.random(rows) * shares[-1])
    left = {"key": rng.permutation(master_rows)[drawn], "left_id": np.arange(rows)}
    right = {"key": rng.permutation(master_rows)}
    right |= {f"right_{n}": rng.integers(0, 2**40, master_rows) for n in range(1, columns)}
    tables = []
    for name, table in (("left", pa.table(left)), ("right", pa.table(right))):
        _write(table, folder / name, files=files)
        tables.append(Table(folder=str(folder / name), columns=tuple(table.column_names)))
    return Relations(left=tables[0], right=tables[1])


def close(folder: Path, *, rows: int, files: int, width: int, keys: int = 0) -> Relations:
    """Values in random order, of which each has about one within `width` on the other side: among
    all, or among the rows of its key if there are `keys`."""
    spread = (2 * width + 1) * rows // max(keys, 1)
    tables = []
    for number, name in enumerate(("left", "right")):
        rng = np.random.default_rng([rows, keys, number])
        columns = {"key": rng.integers(0, keys, rows)} if keys else {}
        columns |= {f"{name}_time": rng.integers(0, spread, rows), f"{name}_id": np.arange(rows)}
        _write(pa.table(columns), folder / name, files=files)
        tables.append(Table(folder=str(folder / name), columns=tuple(columns)))
    return Relations(left=tables[0], right=tables[1])


BEGINS = 1_700_000_000
"""The first second of events: one of our days. Spark's watermark begins at the first moment of
1970, and rows that are not later are late to it: of events that began there, it dropped those of
the first second."""


def passing(folder: Path, *, rows: int, files: int, keys: int, span: int, late: int) -> Relations:
    """Events of a `span` of seconds since `BEGINS`, with random keys. They come in the order of
    their times, but for some that come later, by up to `late` seconds."""
    tables = []
    for number, name in enumerate(("left", "right")):
        rng = np.random.default_rng([rows, keys, number])
        moments = np.sort(rng.integers(0, span, rows))
        order = np.argsort(moments + rng.integers(0, late + 1, rows), kind="stable")
        columns = {"key": rng.integers(0, keys, rows), f"{name}_time": BEGINS + moments[order]}
        columns |= {f"{name}_id": np.arange(rows)}
        _write(pa.table(columns), folder / name, files=files)
        tables.append(Table(folder=str(folder / name), columns=tuple(columns)))
    return Relations(left=tables[0], right=tables[1])


def expected_close(relations: Relations, *, width: int) -> tuple[int, int]:
    """Rows and checksum of the join of relations that are `close`, without joining.

    A row's partners are neighbours in the order of keys and values, so that sums over them are
    differences of sums.
    """
    (place, weight), (other_place, other_weight) = (
        _placed(table, apart=2**40) for table in (relations.left, relations.right)
    )
    last = _sums_to(other_place, other_weight, place + width, "right")
    first = _sums_to(other_place, other_weight, place - width, "left")
    total = (weight * (last[1] - first[1])).sum(dtype=np.uint64)
    return int((last[0] - first[0]).sum()), int(total)


def stretched(folder: Path, *, rows: int, files: int, decades: int) -> Relations:
    """Intervals whose lengths are of several decades, in random order."""
    tables = []
    for number, name in enumerate(("left", "right")):
        rng = np.random.default_rng([rows, number])
        starts = rng.integers(0, 50 * rows, rows)
        lengths = (10 ** rng.uniform(0, decades, rows)).astype(np.int64)
        columns = {f"{name}_start": starts, f"{name}_end": starts + lengths}
        columns |= {f"{name}_id": np.arange(rows)}
        _write(pa.table(columns), folder / name, files=files)
        tables.append(Table(folder=str(folder / name), columns=tuple(columns)))
    return Relations(left=tables[0], right=tables[1])


def expected_overlaps(relations: Relations, *, points: bool) -> tuple[int, int]:
    """Rows and checksum of the join on intervals that overlap, or on `points`, the left starts.

    Without joining: the partners of a row are those that start up to its end, but for those that
    end before its start.
    """
    (start, end, weight), (other_start, other_end, other_weight) = (
        _intervals(table) for table in (relations.left, relations.right)
    )
    if points:
        end = start
    begun = _sums_to(other_start, other_weight, end, "right")
    ended = _sums_to(other_end, other_weight, start, "left")
    total = (weight * (begun[1] - ended[1])).sum(dtype=np.uint64)
    return int((begun[0] - ended[0]).sum()), int(total)


def _sums_to(
    places: NDArray[np.int64],
    weights: Words,
    ends: NDArray[np.int64],
    side: Literal["left", "right"],
) -> tuple[NDArray[np.int64], Words]:
    """For each end, how many places come before it, and what their weights add up to."""
    order = np.argsort(places)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(weights[order])])
    found = np.searchsorted(places[order], ends, side)
    return found, sums[found]


def _intervals(table: Table) -> tuple[NDArray[np.int64], NDArray[np.int64], Words]:
    (start, end, _), weight = _weighed(table)
    return start, end, weight


def _placed(table: Table, *, apart: int) -> tuple[NDArray[np.int64], Words]:
    """The place of each row in the order of keys, which are `apart`, and values; and its weight."""
    (*keys, values, _), weight = _weighed(table)
    return (keys[0] * apart + values if keys else values), weight


def _weighed(table: Table) -> tuple[list[NDArray[np.int64]], Words]:
    """The columns of a table of whole numbers, and the weight of each row."""
    rows = pa.Table.from_batches(table.batches()).combine_chunks()
    columns = [_words(rows.column(name).chunk(0)) for name in table.columns]
    weight = np.zeros(len(rows), np.uint64)
    for column in columns:
        weight = blend(weight, column)
    return [column.view(np.int64) for column in columns], weight


def beginning(relations: Relations, folder: Path, *, files: int) -> Relations:
    """The first so many files of both tables."""
    tables = []
    for table in (relations.left, relations.right):
        part = folder / Path(table.folder).name
        part.mkdir(parents=True)
        for file in table.files()[:files]:
            (part / file.name).hardlink_to(file)
        tables.append(replace(table, folder=str(part)))
    return Relations(left=tables[0], right=tables[1])


def generated(folder: Path, *, scale: float, files: int, tables: str, form: str) -> None:
    """Tables of TPC-H, in the order of their keys."""
    command = [str(Path(sys.executable).with_name("tpchgen-cli")), form, "-s", str(scale)]
    command += ["--parts", str(files), "-T", tables, "-o", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def tpch(folder: Path, *, scale: float, files: int, shuffled: bool) -> Relations:
    """Orders and lineitem, four columns each; in the order of keys unless `shuffled`."""
    generated(folder, scale=scale, files=files, tables="lineitem,orders", form="parquet")
    left = Table(
        folder=str(folder / "orders"),
        columns=("o_orderkey", "o_custkey", "o_totalprice", "o_orderdate"),
    )
    right = Table(
        folder=str(folder / "lineitem"),
        columns=("l_orderkey", "l_partkey", "l_extendedprice", "l_shipdate"),
    )
    if shuffled:
        left, right = (_shuffled(table, files=files) for table in (left, right))
    return Relations(left=left, right=right)


def _shuffled(table: Table, *, files: int) -> Table:
    rows = pa.Table.from_batches(table.batches()).combine_chunks()
    folder = Path(f"{table.folder}-shuffled")
    _write(rows.take(np.random.default_rng(0).permutation(len(rows))), folder, files=files)
    return replace(table, folder=str(folder))


def _write(table: pa.Table, folder: Path, *, files: int) -> None:
    folder.mkdir(parents=True)
    ends = np.linspace(0, len(table), files + 1, dtype=int)
    for number, (start, end) in enumerate(pairwise(ends)):
        part = table.slice(start, end - start)
        path = folder / f"part-{number:03}.parquet"
        pq.write_table(part, path, row_group_size=_ROW_GROUP_ROWS)
        # Spark takes files of one millisecond in any order, and times have to rise.
        os.utime(path, (_FIRST_FILE + number,) * 2)
