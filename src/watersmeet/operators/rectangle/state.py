"""Saving a rectangle join and going on elsewhere: immutable Arrow files and a JSON manifest.

As for the progressive joins (operators/state.py), with rectangles instead of a history.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from watersmeet.model import Side
from watersmeet.operators.rectangle.cover import Cover
from watersmeet.operators.rectangle.parts import Parts
from watersmeet.operators.state import (
    COUNTERS,
    FORMAT,
    Manifest,
    check,
    load_marks,
    load_resident,
    load_runs,
    parameters,
    save_marks,
    save_resident,
    save_runs,
)
from watersmeet.rows.address import Stage
from watersmeet.store.spill import SpillArea


def save(parts: Parts, area: SpillArea) -> Manifest:
    """Write all of a join's state to another area. The join itself can go on."""
    moved: dict[str, str] = {}
    return {
        "format": FORMAT,
        "parameters": _parameters(parts),
        "full": parts.full,
        "kept": parts.kept,
        "ended": list(parts.ended),
        "slots": parts.memory.slots.tolist(),
        "progress": parts.progress.save(),
        "covers": [cover.save() for cover in parts.covers],
        "disk": [save_runs(parts, runs, area, moved) for runs in parts.disk],
        "resident": [save_resident(parts, side, area) for side in Side],
        "marks": save_marks(parts, area),
        "counters": {name: copy(getattr(parts.metrics, name)) for name in COUNTERS},
        "results": {str(stage): count for stage, count in parts.metrics.results.items()},
    }


def load(parts: Parts, area: SpillArea, manifest: Manifest) -> None:
    """Fill a new join with a saved state, after checking that it is the same join."""
    check(manifest, _parameters(parts))
    parts.outcome.portions.expect_any_length()
    if manifest["full"]:
        parts.overflow()
    parts.kept = manifest["kept"]
    parts.ended = list(manifest["ended"])
    parts.progress.load(manifest["progress"])
    parts.covers = [Cover.load(saved) for saved in manifest["covers"]]
    moved: dict[str, str] = {}
    parts.take_over([load_runs(parts, saved, area, moved) for saved in manifest["disk"]])
    parts.memory.slots = np.array(manifest["slots"], np.uint16)
    parts.memory.hold_at_least([run["rows"] for run in manifest["resident"]])
    for side, saved in zip(Side, manifest["resident"], strict=True):
        load_resident(parts, side, saved, area)
    load_marks(parts, manifest["marks"], area)
    for name in COUNTERS:
        setattr(parts.metrics, name, copy(manifest["counters"][name]))
    for stage in Stage:
        parts.metrics.results[stage] = manifest["results"][str(stage)]
    parts.tell_memory()


def _parameters(parts: Parts) -> dict[str, Any]:
    return parameters(parts.algorithm.name, parts.schema, parts.partitions)
