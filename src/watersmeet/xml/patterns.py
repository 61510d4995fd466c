"""What punctuations say about a column: a value, a set of values, a range, anything."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.xml.casting import SPACE, is_text

ANYTHING = "*"
_SET = re.compile(r"\{(.*)\}", re.DOTALL)
_RANGE = re.compile(r"\[([^,]*),([^,]*)\]", re.DOTALL)


def is_special(text: str, kind: pa.DataType) -> bool:
    """Whether a text of a punctuation is no value. Null stands for anything, so a number without
    digits must not become null."""
    text = text.strip(SPACE)
    return text == ANYTHING or not (text or is_text(kind) or pa.types.is_list(kind))


def spread(
    patterns: dict[int, str], read: Callable[[str], list[str | None] | None], count: int
) -> tuple[list[list[str | None] | None], np.ndarray[Any, Any]]:
    """For each row what its pattern says, if it has one; and which texts are no patterns."""
    made: list[list[str | None] | None] = [None] * count
    bad = np.zeros(count, bool)
    for number, text in patterns.items():
        try:
            made[number] = None if text == ANYTHING else read(text)
        except ValueError:
            bad[number] = True
    return made, bad


def members_of(text: str) -> list[str | None]:
    """The members of a set; a value alone is a set of one.

    >>> members_of("{1, 2}"), members_of("3")
    (['1', '2'], ['3'])
    """
    members = _SET.fullmatch(text)
    if members is None:
        return the_one(text)
    found = [member.strip(SPACE) for member in members[1].split(",")]
    if not all(found):
        raise ValueError(text)
    return list(found)


def ends_of(text: str) -> list[str | None]:
    """The first and the last value of a range; a value alone is a range of one.

    >>> ends_of("[1, 5]"), ends_of("[1, *]"), ends_of("3")
    (['1', '5'], ['1', None], ['3', '3'])
    """
    ends = _RANGE.fullmatch(text)
    if ends is None:
        return 2 * the_one(text)
    found = [end.strip(SPACE) for end in ends.groups()]
    return [None if end in ("", ANYTHING) else end for end in found]


def the_one(text: str) -> list[str | None]:
    """A value that is neither a set nor a range."""
    if not text or text[0] in "{[" or text[-1] in "}]":
        raise ValueError(text)
    return [text]
