"""The numbers that a progressive join can be tuned by, with what they stand for in the papers."""

from __future__ import annotations

from dataclasses import dataclass, field

from watersmeet.policies.invoke import Invocation
from watersmeet.store.device import Costs

__all__ = ["Costs", "Invocation", "Tuning"]


@dataclass(frozen=True)
class Tuning:
    """Settings with good defaults; the simulator sets them to the papers' values.

    partitions: npart. flush_share: the share of memory that one flush gives up (nflush); 0 gives
    up a single victim. fan_in: runs of a side merged at once (f), from memory if None.
    chunk_rows: the most rows in one `Matches`. decay: lambda, per time_unit seconds.
    costs: c_ran and c_seq in seconds a page, measured on the spill device if None. page_rows:
    rows a page, a block if None. whole_tasks: a reactive task runs to its end, as in the papers,
    instead of giving way after a block. memory_rows: count rows of both sides instead of bytes,
    as the papers do. distinct: |A_join| if known, estimated if None. purge_share: what is on disk
    is read for rows that may go when so many rows have come since, as a share of it.

    Of the rectangle joins: expected_rows: |A| and |B|, if known. invocation: when PR-Join joins a
    partition (policies/invoke.py). remaps: whether PR-Join evens out its partitions when memory
    is half full.
    """

    partitions: int = 32
    flush_share: float = 0.25
    fan_in: int | None = None
    chunk_rows: int = 32_768
    decay: float = 0.8
    time_unit: float = 1.0
    costs: Costs | None = None
    page_rows: int | None = None
    whole_tasks: bool = False
    memory_rows: int | None = None
    distinct: int | None = None
    purge_share: float = 0.5
    expected_rows: tuple[int, int] | None = None
    invocation: Invocation = field(default_factory=Invocation)
    remaps: bool = True
