"""Generates two tables of the TPC-H benchmark, in several Parquet files each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from watersmeet.reproduce.tpch import generate

_FILES = 16


@dataclass(frozen=True)
class Table:
    """A directory of Parquet files."""

    name: str
    path: Path

    @property
    def files(self) -> list[Path]:
        return sorted(self.path.iterdir())

    @property
    def rows(self) -> int:
        return sum(pq.read_metadata(file).num_rows for file in self.files)

    @property
    def nbytes(self) -> int:
        return sum(file.stat().st_size for file in self.files)


def make_tables(directory: Path, *, scale: float) -> tuple[Table, Table]:
    """Orders and lineitem; at scale 1 they have 1.5 and 6 million rows."""
    names = "orders", "lineitem"
    made = generate(directory, names, scale=scale, parts=_FILES)
    orders, lineitem = (Table(name, path) for name, path in zip(names, made, strict=True))
    return orders, lineitem
