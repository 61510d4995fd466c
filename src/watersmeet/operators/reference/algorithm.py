"""The one algorithm of the reference mechanism."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReferenceAlgorithm:
    """It has no settings: it never spills and does nothing while inputs stall."""

    name: str
    spills: bool = False
    reacts: bool = False
