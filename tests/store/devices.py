"""A real device that is soon full."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_device(directory: Path, *, kilobytes: int) -> Iterator[Path]:
    """A file system of so many kilobytes, where this process may mount one."""
    mounted = directory / "small"
    mounted.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(mounted)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("mounting a small file system needs root")
    try:
        yield mounted
    finally:
        # Lazily, since a failed test may still hold a file open.
        subprocess.run(["umount", "--lazy", str(mounted)], check=True)
