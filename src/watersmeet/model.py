"""The nouns every layer shares: sides, join types, sizes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum, StrEnum
from operator import index
from typing import Any

from watersmeet.errors import InvalidArgument


class Side(IntEnum):
    """One of the two inputs. The papers' R1 is `LEFT`, their R2 is `RIGHT`."""

    LEFT = 0
    RIGHT = 1

    @property
    def other(self) -> Side:
        return _OTHER[self]


_OTHER = (
    Side.RIGHT,
    Side.LEFT,
)  # a look-up: to make a member of its number takes four times as long


def inputs_of(count: int) -> Sequence[int]:
    """The numbers of so many inputs; if there are two, they are sides."""
    return tuple(Side) if count == 2 else range(count)


class JoinType(StrEnum):
    """What becomes of rows with and without a partner, as SQL and Spark define it."""

    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"

    @classmethod
    def parse(cls, how: str) -> JoinType:
        """Accept Spark's spellings: `left_outer`, `leftsemi`, `fullouter`, `outer` ...

        >>> JoinType.parse("Left_Outer")
        <JoinType.LEFT: 'left'>
        """
        word = how.lower().replace("_", "").replace(" ", "")
        try:
            return cls(_SPELLINGS.get(word, word))
        except ValueError:
            raise InvalidArgument(
                f"how={how!r} is no join type.",
                remedy="Use one of " + ", ".join(cls) + ".",
            ) from None

    @property
    def emits_pairs(self) -> bool:
        return self not in (JoinType.SEMI, JoinType.ANTI)

    def keeps_unmatched(self, side: Side) -> bool:
        """Whether a row of `side` that never finds a partner is in the result."""
        if side is Side.LEFT:
            return self in (JoinType.LEFT, JoinType.FULL, JoinType.ANTI)
        return self in (JoinType.RIGHT, JoinType.FULL)


_SPELLINGS = {
    "outer": "full",
    "fullouter": "full",
    "leftouter": "left",
    "rightouter": "right",
    "leftsemi": "semi",
    "leftanti": "anti",
}


def parse_seed(seed: Any) -> int:
    """A whole number; NumPy's are as good as Python's.

    >>> parse_seed(7)
    7
    """
    if isinstance(seed, bool) or not hasattr(seed, "__index__"):
        raise InvalidArgument(
            f"seed={seed!r} is no whole number.", remedy="Give one, such as seed=7."
        )
    return index(seed)


_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE)
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def parse_bytes(size: int | str, *, name: str = "memory") -> int:
    """Bytes in a size such as `64MB`. Units are powers of 1024, as in Spark's settings.

    >>> parse_bytes("1.5g")
    1610612736
    """
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    parsed = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if parsed is None:
        raise InvalidArgument(
            f"{name}={size!r} is no size in bytes.",
            remedy=f'Give a number of bytes or a text such as {name}="256MB".',
        )
    return int(float(parsed[1]) * _UNITS[parsed[2].lower()])
