"""Names and texts as Spark's SQL writes them."""

from __future__ import annotations


def quoted(name: str) -> str:
    """A column's name where Spark would read a dot or a backtick as a sign.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"
