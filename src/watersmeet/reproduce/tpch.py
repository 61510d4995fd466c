"""Tables of the TPC-H benchmark, as Parquet files."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from watersmeet.errors import WatersmeetError

_TOOL = "tpchgen-cli"


def generate(directory: Path, names: Sequence[str], *, scale: float, parts: int) -> list[Path]:
    """Directories with the tables of these names, in so many files each."""
    command = [_tool(), "parquet", "--scale-factor", str(scale), "--tables", ",".join(names)]
    made = subprocess.run(
        [*command, "--parts", str(parts), "--output-dir", str(directory), "--quiet"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if made.returncode:
        raise WatersmeetError(
            f"{_TOOL} could not make the tables ({made.stderr.strip()}).",
            remedy="Set TMPDIR to a directory with enough room, or use a smaller --scale.",
        )
    return [directory / name for name in names]


def _tool() -> str:
    """The generator, from the environment that this program runs in, or from the system."""
    found = shutil.which(_TOOL, path=sysconfig.get_path("scripts")) or shutil.which(_TOOL)
    if found is None:
        raise WatersmeetError(
            f"{_TOOL}, which makes the tables, is not installed.",
            remedy="Install it with `pip install tpchgen-cli`, or use `watersmeet demo --local`.",
        )
    return found
