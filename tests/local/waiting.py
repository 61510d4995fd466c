"""Waits for what another thread will do."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.local.inputs import PATIENCE_S

_LOOK_S = 0.005


def until(satisfied: Callable[[], bool]) -> None:
    """Return when something is so."""
    for _ in range(int(PATIENCE_S / _LOOK_S)):
        if satisfied():
            return
        time.sleep(_LOOK_S)
    raise AssertionError("it never came")
