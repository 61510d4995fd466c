"""Measures how long the spill device takes to read a page: the papers' c_ran and c_seq."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from watersmeet.store.spill import unusable

_PAGES = 16


@dataclass(frozen=True)
class Costs:
    """Seconds for one page read at random and in sequence."""

    random: float
    sequential: float


def measure_costs(directory: Path, page_bytes: int) -> Costs:
    """Write a few megabytes, drop them from the page cache, read them in both orders.

    Takes some milliseconds on a local disk. If the system does not drop the pages, both costs are
    alike; they are for spilled runs, too, since those are then read from the cache as well.
    """
    # Of a name of its own: a thread that asks what a join has learnt may measure beside it.
    path = directory / f"measure-{threading.get_ident()}"
    try:
        with path.open("xb+", buffering=0) as file:
            file.write(bytes(page_bytes * _PAGES))
            os.fdatasync(file)
            shuffled = np.random.default_rng(0).permutation(_PAGES)
            random = _seconds_per_page(file.fileno(), shuffled, page_bytes)
            sequential = _seconds_per_page(file.fileno(), np.arange(_PAGES), page_bytes)
    except OSError as error:
        raise unusable(directory, error) from error
    finally:
        path.unlink(missing_ok=True)
    return Costs(random=max(random, sequential), sequential=sequential)


def _seconds_per_page(descriptor: int, pages: np.ndarray, page_bytes: int) -> float:
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    began = time.perf_counter()
    for page in pages.tolist():
        os.pread(descriptor, page_bytes, page * page_bytes)
    return (time.perf_counter() - began) / len(pages)
