"""Where in an algorithm a result was found."""

from __future__ import annotations

from enum import StrEnum


class Stage(StrEnum):
    """The stages of RPJ (Figure 3), whose words other mechanisms use too."""

    MM = "mm"
    MD = "md"
    DD = "dd"
    CLEANUP = "cleanup"
    UNMATCHED = "unmatched"
