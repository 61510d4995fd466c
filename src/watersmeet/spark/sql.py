"""Names and texts as Spark's SQL writes them."""

from __future__ import annotations


def quoted(name: str) -> str:
    """A column's name for places where Spark would take a dot or a backtick in it for syntax.

    >>> quoted("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"
