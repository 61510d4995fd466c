"""Counters of a join with a master table, besides those of every join."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.operators.metrics import Metrics


@dataclass
class SemiStreamMetrics(Metrics):
    """`blocks_skipped` are blocks of the master table that the scan passed over unread."""

    COUNTED = (
        "cache_hits", "entries_cached", "entries_evicted", "steps", "blocks_read",
        "blocks_skipped", "bytes_read", "cycles", "versions_met",
    )  # fmt: skip
    STANDING = (
        "waiting_rows", "patient_rows", "cache_entries", "negative_entries", "cache_rows",
        "cache_bytes",
    )  # fmt: skip
    ALIKE = ("cycles", "cycle_seconds", "versions_met")

    waiting_rows: int = 0
    """Stream rows that wait for the scan now."""
    patient_rows: int = 0
    """Stream rows that wait for a newer version now, because they have found no partner."""
    cache_entries: int = 0
    negative_entries: int = 0
    """Entries of codes that no master row has; they are among `cache_entries`."""
    cache_rows: int = 0
    cache_bytes: int = 0
    cache_hits: int = 0
    """Stream rows that the cache served."""
    entries_cached: int = 0
    entries_evicted: int = 0
    steps: int = 0
    """Reads of the master table, each of some neighbouring blocks."""
    blocks_read: int = 0
    bytes_read: int = 0
    cycles: int = 0
    """How often the scan has come to the end of the master table."""
    cycle_seconds: float = 0.0
    """How long the steps of the last whole cycle took together."""
    versions_met: int = 1


SAVED = (*SemiStreamMetrics.COUNTED, "cycle_seconds")
"""Those that a restored join goes on with. The others say what is there now."""
