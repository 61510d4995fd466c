"""What a worker process keeps between its tasks: one operator, so that memory stays bounded.

Spark hands tasks to whichever worker is free, so the next task may find its operator here, or
another one, or none. One that is not asked for is in the way: it is closed before its successor
is built.
"""

from __future__ import annotations

from typing import Any, Protocol

Key = tuple[str, int, int]
"""Query, instance and version."""


class Closable(Protocol):
    def close(self) -> None: ...


_kept: tuple[Key, Any] | None = None


def take(key: Key) -> Any | None:
    """What was kept under this key, now the caller's; anything else that was kept is closed."""
    global _kept
    kept, _kept = _kept, None
    if kept is None:
        return None
    if kept[0] == key:
        return kept[1]
    kept[1].close()
    return None


def keep(key: Key, operator: Closable) -> None:
    """Leave an operator for a later task of this worker."""
    global _kept
    before, _kept = _kept, (key, operator)
    if before is not None and before[1] is not operator:
        before[1].close()
