"""Keeps one operator in a worker process between its tasks; one only, so that memory is bounded.

Spark gives a task to any worker that is free, so the task may find its operator here, or another
one, or none. Another one is closed before the task builds its own.
"""

from __future__ import annotations

from typing import Any, Protocol

Key = tuple[str, int, int]
"""Query, instance and version."""


class Closable(Protocol):
    def close(self) -> None: ...


_kept: tuple[Key, Any] | None = None


def take(key: Key) -> Any | None:
    """Take out the operator that was kept under this key. One under another key is closed."""
    global _kept
    kept, _kept = _kept, None
    if kept is None:
        return None
    if kept[0] == key:
        return kept[1]
    kept[1].close()
    return None


def keep(key: Key, operator: Closable) -> None:
    """Keep an operator for a later task of this worker."""
    global _kept
    before, _kept = _kept, (key, operator)
    if before is not None and before[1] is not operator:
        before[1].close()
