"""How we write sizes and facts, whoever writes them: `explain`, errors, the command line."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

_WIDTH = 88
_MB = 2**20


def paragraph(name: str, text: str, *, indent: int = 11, hanging: int = 0) -> str:
    """A fact of an `explain`: its name in a column of its own, its text beside it.

    Lines after the first are `hanging` further to the right.

    >>> print(paragraph("memory", "as much as it takes", indent=8))
    memory  as much as it takes
    >>> print(paragraph("a long name", "has its text behind it", indent=8))
    a long name has its text behind it
    """
    return textwrap.fill(
        text,
        width=_WIDTH,
        initial_indent=f"{name} ".ljust(indent),
        subsequent_indent=" " * (indent + hanging),
        break_long_words=False,
        break_on_hyphens=False,
    )


def listed(items: Sequence[str]) -> str:
    """
    >>> listed(["5 left", "7 right"]), listed(["a", "b", "c"])
    ('5 left and 7 right', 'a, b and c')
    """
    *others, last = items
    return f"{', '.join(others)} and {last}" if others else last


def megabytes(nbytes: float) -> str:
    """Memory, counted as `memory=` is: 1 MB is 2**20 bytes.

    >>> megabytes(300 * 2**20), megabytes(1_572_864), megabytes(3 * 2**20), megabytes(2**18)
    ('300 MB', '1.5 MB', '3 MB', '0.2 MB')
    """
    size = nbytes / _MB
    whole = size >= 10 or (size >= 1 and size == int(size))
    return f"{size:,.0f} MB" if whole else f"{size:.1f} MB"


def size_text(nbytes: float) -> str:
    """Data, counted in powers of ten as disks and networks are.

    >>> size_text(3.1e9), size_text(52_400_000), size_text(812)
    ('3.1 GB', '52 MB', '1 kB')
    """
    for size, unit in ((1e9, "GB"), (1e6, "MB")):
        if nbytes >= size:
            return (
                f"{nbytes / size:.1f} {unit}"
                if nbytes < 10 * size
                else f"{nbytes / size:,.0f} {unit}"
            )
    return f"{nbytes / 1e3:.0f} kB"


def seconds_text(seconds: float) -> str:
    """
    >>> seconds_text(0.042), seconds_text(4.21), seconds_text(31.4)
    ('0.04 s', '4.2 s', '31 s')
    """
    return f"{seconds:.{2 if seconds < 1 else 1 if seconds < 10 else 0}f} s"


def count_text(number: int, noun: str) -> str:
    """
    >>> count_text(1, "block"), count_text(2000, "block")
    ('1 block', '2,000 blocks')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
