"""The one algorithm of the reference mechanism."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReferenceAlgorithm:
    """It has no settings: it never spills and does nothing while inputs stall."""

    name: str
    words: str
    spills: bool = False
    reacts: bool = False


REFERENCE = {
    "nested-loop": ReferenceAlgorithm(
        "nested-loop", "the nested-loop join: everything stays in memory, and all is compared"
    )
}
