"""What tests of enrichment in this process share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import watersmeet as wm
from tests.local.inputs import sides
from tests.local.oracle import rows_of

STREAM, MASTER = sides(2_000)
TYPES = ("inner", "left", "semi", "anti")
SOON = 0.01
"""Seconds of silence and between looks: tests wait for events, not for times."""


def enriched(stream: Any = STREAM, master: Any = MASTER, how: str = "inner", **more: Any) -> Any:
    return rows_of(wm.local.enrich(stream, master, "k", how, **more).read_all())


def version(number: int, rows: int = 1_000) -> pa.Table:
    """A version whose rows say which it is; each has some keys that the others have not."""
    keys = np.arange(rows) * (number + 1) % rows
    return pa.table({"k": keys[: rows // 2], "b": np.full(rows // 2, number)})
