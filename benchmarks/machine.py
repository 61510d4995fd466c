"""What the figures were measured on, in terms that mean something elsewhere."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("watersmeet", "pyarrow", "numpy", "numba", "duckdb", "datafusion", "pyspark")


def describe() -> dict[str, str]:
    about = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "processor": _first_value("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{_memory_bytes() / 2**30:.0f} GB",
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }
    for package in _PACKAGES:
        try:
            about[package] = version(package)
        except PackageNotFoundError:
            about[package] = "not installed"
    return about


def load() -> float:
    """Runnable processes beside us, averaged over a minute: a busy machine gives poor figures."""
    return os.getloadavg()[0]


def _first_value(path: str, name: str) -> str | None:
    for line in Path(path).read_text().splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return None


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
