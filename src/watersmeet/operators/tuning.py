"""Settings of the operators, and what the papers call them."""

from __future__ import annotations

from dataclasses import dataclass, field

from watersmeet.policies.caching import NO_HYSTERESIS
from watersmeet.policies.invoke import Invocation
from watersmeet.store.device import Costs

__all__ = ["Costs", "Invocation", "Tuning"]


@dataclass(frozen=True)
class Tuning:
    """Settings with good defaults; the simulator sets them to the papers' values.

    partitions: npart. flush_share: the fraction of memory that one flush frees (nflush); with 0 it
    flushes a single victim. fan_in: how many runs of a side are merged at once (f); as many as
    memory allows if None. chunk_rows: the most rows in one `Matches`. decay: lambda, per time_unit
    seconds. costs: c_ran and c_seq in seconds a page, measured on the spill device if None.
    page_rows: rows of a page; those of a block if None. whole_tasks: a reactive task runs to its
    end, as in the papers, instead of pausing after a block when rows have arrived. memory_rows: the
    limit of memory is this number of rows of both sides, as in the papers, instead of bytes.
    distinct: |A_join| if known, estimated if None. purge_share: rows on disk are read to drop those
    that may go when this many rows have come since the last time, as a fraction of those on disk.
    purge_after: rows in memory are looked through for those that may go after so many promises
    (1 is immediate purging, more is batch purging).

    For rectangle joins: expected_rows: |A| and |B|, if known. invocation: when PR-Join joins a
    partition (policies/invoke.py). remaps: whether PR-Join makes its partitions even when memory
    is half full.

    For joins by regions: outer_blocks: the most outer blocks that the nested loop has loaded during
    a stall (MaxOuterMem); as many as memory allows if None.

    For joins with a master table: portion_bytes: bytes of the master table that one step reads at
    most (b pages, the disk buffer); the share of memory for loading if None. switching_factor: sf,
    by how much a value must cost less in the cache to be moved there.
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
    purge_after: int = 1
    expected_rows: tuple[int, int] | None = None
    invocation: Invocation = field(default_factory=Invocation)
    remaps: bool = True
    outer_blocks: int | None = None
    portion_bytes: int | None = None
    switching_factor: float = NO_HYSTERESIS
