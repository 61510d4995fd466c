"""Why a DataFrame is not read straight from its files."""

from __future__ import annotations


class Refused(Exception):
    """Its rows must come through Spark. The text completes "it is no plain scan: ..."; `remedy`,
    if there is one, completes "to read it from its files, ..."."""

    def __init__(self, text: str, *, remedy: str = "") -> None:
        super().__init__(text)
        self.remedy = remedy
