"""The stages of an algorithm, in which results are found."""

from __future__ import annotations

from enum import StrEnum


class Stage(StrEnum):
    """The stages of RPJ (Figure 3). Other mechanisms use the same names."""

    MM = "mm"
    MD = "md"
    DD = "dd"
    CLEANUP = "cleanup"
    UNMATCHED = "unmatched"
