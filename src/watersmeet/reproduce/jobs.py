"""Runs of a reproduction, one after the other or several at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

Planned = TypeVar("Planned")
Done = TypeVar("Done")


def each(
    run: Callable[[Planned], Done], planned: Sequence[Planned], *, jobs: int
) -> Iterator[Done]:
    """What `run` returns for each that is planned, in their order, with `jobs` processes."""
    if jobs == 1:
        yield from map(run, planned)
        return
    # Fresh processes: a forked one would inherit threads that Arrow and numba have started.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(run, planned)
