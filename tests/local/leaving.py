"""Ways to leave a run before its end."""

from __future__ import annotations

import threading

import pytest

from tests.local.inputs import PATIENCE_S, Gate
from watersmeet.errors import RunClosed
from watersmeet.local import LocalJoin


def leave_with(run: LocalJoin) -> None:
    """Raise an error inside its `with` block."""
    with pytest.raises(ZeroDivisionError), run:
        raise ZeroDivisionError


def close_while_it_waits(run: LocalJoin, gate: Gate) -> list[RunClosed]:
    """Close it while another thread reads it and waits for the rows behind the gate; returns what
    that thread was told."""
    told: list[RunClosed] = []

    def read() -> None:
        try:
            list(run)
        except RunClosed as error:
            told.append(error)

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    assert gate.reached.wait(PATIENCE_S)
    run.close()
    reading.join(PATIENCE_S)
    assert not reading.is_alive()
    return told
