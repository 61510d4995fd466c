"""Generates two tables of the TPC-H benchmark, in several Parquet files each."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from watersmeet.errors import WatersmeetError

_TOOL = "tpchgen-cli"
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
    command = [_tool(), "parquet", "--scale-factor", str(scale), "--tables", ",".join(names)]
    made = subprocess.run(
        [*command, "--parts", str(_FILES), "--output-dir", str(directory), "--quiet"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if made.returncode:
        raise WatersmeetError(
            f"{_TOOL} could not make the tables ({made.stderr.strip()}).",
            remedy="Set TMPDIR to a directory with enough room, or use a smaller --scale.",
        )
    orders, lineitem = (Table(name, directory / name) for name in names)
    return orders, lineitem


def _tool() -> str:
    """The generator, from the environment that this program runs in, or from the system."""
    found = shutil.which(_TOOL, path=sysconfig.get_path("scripts")) or shutil.which(_TOOL)
    if found is None:
        raise WatersmeetError(
            f"{_TOOL}, which makes the tables, is not installed.",
            remedy="Install it with `pip install tpchgen-cli`, or use `watersmeet demo --local`.",
        )
    return found
