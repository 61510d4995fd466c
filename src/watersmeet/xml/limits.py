"""What elements of a stream that is not hostile stay below, and the error for those that do not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    row_bytes: int = 2**24
    """Of a row's element, and of a tag or a comment outside of rows."""
    depth: int = 200
    """Of elements in elements."""
    attributes: int = 1000
    name: int = 1000
    """Characters of a name."""


class Refused(Exception):
    """The stream does what hostile ones do. `place` counts bytes of UTF-8."""

    def __init__(self, what: str, place: int) -> None:
        super().__init__(what)
        self.place = place
