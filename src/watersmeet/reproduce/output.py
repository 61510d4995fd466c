"""The directory that a reproduction writes to."""

from __future__ import annotations

from pathlib import Path

from watersmeet.drawing import require_matplotlib
from watersmeet.errors import InvalidArgument


def prepare(out: Path) -> None:
    """Make the directory, and find out before anything runs whether figures can be drawn."""
    require_matplotlib()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgument(
            f"--out {out} cannot be written to ({error.strerror}).",
            remedy="Name a directory that can be created.",
        ) from error
