"""Two tables of TPC-H, made on the spot: a few columns of each, and their rows in no order.

The generator writes both in the order of their common key. Tables that were filled by many hands
are not like that, and a sample of two such tables has few keys in common.
"""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from watersmeet.errors import WatersmeetError

_TOOL = "tpchgen-cli"
_FILES = 16
_GROUP_ROWS = 100_000
_SEED = 1

# What is kept of each table, and what it is called here.
_COLUMNS = {
    "orders": {
        "o_orderkey": "orderkey",
        "o_custkey": "custkey",
        "o_orderdate": "orderdate",
        "o_totalprice": "total",
    },
    "lineitem": {
        "l_orderkey": "orderkey",
        "l_partkey": "partkey",
        "l_quantity": "quantity",
        "l_extendedprice": "price",
    },
}


@dataclass(frozen=True)
class Table:
    """A directory of Parquet files."""

    name: str
    path: Path
    rows: int

    @property
    def files(self) -> list[Path]:
        return sorted(self.path.iterdir())

    @property
    def nbytes(self) -> int:
        return sum(file.stat().st_size for file in self.files)


def make_tables(directory: Path, *, scale: float) -> tuple[Table, Table]:
    """Orders and lineitem; at scale 1 they have 1.5 and 6 million rows."""
    ordered = directory / "ordered"
    command = [_tool(), "parquet", "--scale-factor", str(scale), "--tables", ",".join(_COLUMNS)]
    made = subprocess.run(
        [*command, "--output-dir", str(ordered), "--quiet", "--no-progress"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if made.returncode:
        raise WatersmeetError(
            f"{_TOOL} could not make the tables ({made.stderr.strip()}).",
            remedy="Set TMPDIR to a directory with enough room, or use a smaller --scale.",
        )
    orders, lineitem = (_shuffled(name, ordered, directory) for name in _COLUMNS)
    shutil.rmtree(ordered)
    return orders, lineitem


def _tool() -> str:
    """The generator, from the environment that this program runs in, or from the system."""
    found = shutil.which(_TOOL, path=sysconfig.get_path("scripts")) or shutil.which(_TOOL)
    if found is None:
        raise WatersmeetError(
            f"{_TOOL}, which makes the tables, is not installed.",
            remedy="pip install 'watersmeet[demo]', or use `watersmeet demo --local`.",
        )
    return found


def _shuffled(name: str, source: Path, target: Path) -> Table:
    columns = _COLUMNS[name]
    table = pq.read_table(source / f"{name}.parquet", columns=list(columns))
    table = table.rename_columns(list(columns.values())).combine_chunks()
    order = np.random.default_rng(_SEED).permutation(table.num_rows)
    path = target / name
    path.mkdir()
    for number, rows in enumerate(np.array_split(order, _FILES)):
        part = path / f"{number:02}.parquet"
        pq.write_table(table.take(rows), part, row_group_size=_GROUP_ROWS)
    return Table(name, path, table.num_rows)
