"""Keeps one operator in a worker process between its tasks; one only, so that memory is bounded.
For an aggregate, the sums of one side are kept instead.

Spark gives a task to any worker that is free, so the task may find its operator here, or another
one, or none. Another one is closed before the task builds its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, runtime_checkable

Key = tuple[str, int, int]
"""Query, instance and version."""


@runtime_checkable
class Closable(Protocol):
    def close(self) -> None: ...


Kept = TypeVar("Kept")
_kept: tuple[Key, Any] | None = None


def take(key: Key) -> Any | None:
    """Take out the operator that was kept under this key. One under another key is closed."""
    global _kept
    kept, _kept = _kept, None
    if kept is None:
        return None
    if kept[0] == key:
        return kept[1]
    _close(kept[1])
    return None


def keep(key: Key, operator: Any) -> None:
    """Keep an operator for a later task of this worker."""
    global _kept
    before, _kept = _kept, (key, operator)
    if before is not None and before[1] is not operator:
        _close(before[1])


def kept(key: Key, make: Callable[[], Kept]) -> Kept:
    """What was kept under this key, and stays so; else what is made now."""
    found: Kept | None = take(key)
    if found is None:
        found = make()
    keep(key, found)
    return found


def clear() -> None:
    """Close what is kept."""
    take(("", 0, 0))


def _close(operator: Any) -> None:
    if isinstance(operator, Closable):
        operator.close()
