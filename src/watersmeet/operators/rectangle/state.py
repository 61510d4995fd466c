"""Saving a rectangle join and going on elsewhere: immutable Arrow files and a JSON manifest.

As for the progressive joins (operators/state.py), with rectangles instead of a history.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from watersmeet.operators.rectangle.cover import Cover
from watersmeet.operators.rectangle.parts import Parts
from watersmeet.operators.saved import (
    FORMAT,
    Manifest,
    SavedRows,
    StateArea,
    check,
    load_counters,
    parameters,
    save_counters,
)


def save(parts: Parts, saved: SavedRows, area: StateArea) -> Manifest:
    """Have all of a join's state in the area. The join itself can go on."""
    rows = saved.save(area, parts.disk)
    return {
        "format": FORMAT,
        "parameters": _parameters(parts),
        "full": parts.full,
        "kept": parts.kept,
        "ended": list(parts.ended),
        "slots": parts.memory.slots.tolist(),
        "progress": parts.progress.save(),
        "covers": [cover.save() for cover in parts.covers],
        "rows": rows,
        "files": rows["files"],
        **save_counters(parts.metrics),
    }


def load(parts: Parts, saved: SavedRows, area: StateArea, manifest: Manifest) -> None:
    """Fill a new join with a saved state, after checking that it is the same join."""
    check(manifest, _parameters(parts))
    parts.outcome.portions.expect_any_length()
    if manifest["full"]:
        parts.overflow()
    parts.kept = manifest["kept"]
    parts.ended = list(manifest["ended"])
    parts.progress.load(manifest["progress"])
    parts.covers = [Cover.load(cover) for cover in manifest["covers"]]
    # Before the rows: which of them are in memory still is known by partition.
    parts.memory.slots = np.array(manifest["slots"], np.uint16)
    parts.take_over(saved.load(area, manifest["rows"]))
    load_counters(parts.metrics, manifest)
    parts.tell_memory()


def _parameters(parts: Parts) -> dict[str, Any]:
    return parameters(parts.algorithm.name, parts.schema, parts.partitions)
