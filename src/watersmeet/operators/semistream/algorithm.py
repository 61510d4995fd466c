"""What makes one algorithm of the semi-stream mechanism different from another."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Caching(StrEnum):
    """How master rows come into the cache."""

    NONE = "none"
    UNIQUE = "unique"
    """Where a master row is met, if the cache inequality holds with m = 1 (CMESHJOIN)."""
    ROTATING = "rotating"
    """By the three rotating states: incrementing, switching, phase-out (SSBJ 3.1)."""
    ADAPTIVE = "adaptive"
    """Where waiting rows leave: all while memory is free, then by the cache inequality."""


@dataclass(frozen=True)
class SemiStreamAlgorithm:
    """A row of settings for the semi-stream mechanism.

    skips: the scan reads only blocks that somebody waits for. Without it, it is the papers': all of
    the master table, portion by portion.
    """

    name: str
    words: str
    caching: Caching
    skips: bool = False
    spills: bool = True
    reacts: bool = True


DEFAULT = "skipping"
"""What `auto` is."""

SEMI_STREAM = {
    algorithm.name: algorithm
    for algorithm in (
        SemiStreamAlgorithm(
            DEFAULT,
            "stream rows wait in order of their codes; a scan goes round the master table, reads "
            "the blocks that somebody waits for, and caches what is asked for often",
            Caching.ADAPTIVE,
            skips=True,
        ),
        SemiStreamAlgorithm(
            "ssbj",
            "the semi-stream balanced join: a scan goes round the master table without end, and "
            "values that take less memory in the cache than waiting are moved there",
            Caching.ROTATING,
        ),
        SemiStreamAlgorithm(
            "cmeshjoin",
            "MESHJOIN with a cache in front, for master tables whose keys are unique",
            Caching.UNIQUE,
        ),
        SemiStreamAlgorithm(
            "meshjoin",
            "every stream row waits while a scan goes round the master table once",
            Caching.NONE,
        ),
    )
}
