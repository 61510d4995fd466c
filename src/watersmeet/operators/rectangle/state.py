"""Saves and restores a rectangle join: immutable Arrow files and a JSON manifest.

As for the progressive joins (operators/progressive/state.py), with rectangles instead of a history.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from watersmeet.operators.rectangle.cover import Cover
from watersmeet.operators.rectangle.workspace import RectangleWorkspace
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


def save(workspace: RectangleWorkspace, saved: SavedRows, area: StateArea) -> Manifest:
    """Save all of a join's state in the area. The join itself can go on."""
    rows = saved.save(area, workspace.disk)
    return {
        "format": FORMAT,
        "parameters": _parameters(workspace),
        "full": workspace.full,
        "kept": workspace.kept,
        "ended": list(workspace.ended),
        "slots": workspace.memory.slots.tolist(),
        "progress": workspace.progress.save(),
        "covers": [cover.save() for cover in workspace.covers],
        "rows": rows,
        "files": rows["files"],
        **save_counters(workspace.metrics),
    }


def load(
    workspace: RectangleWorkspace, saved: SavedRows, area: StateArea, manifest: Manifest
) -> None:
    """Fill a new join with a saved state, after checking that it is the same join."""
    check(manifest, _parameters(workspace))
    if manifest["full"]:
        workspace.overflow()
    workspace.kept = manifest["kept"]
    workspace.ended = list(manifest["ended"])
    workspace.progress.load(manifest["progress"])
    workspace.covers = [Cover.load(cover) for cover in manifest["covers"]]
    # Before the rows are loaded: which of them are in memory depends on their partitions.
    workspace.memory.slots = np.array(manifest["slots"], np.uint16)
    workspace.take_over(saved.load(area, manifest["rows"]))
    load_counters(workspace.metrics, manifest)
    workspace.report_memory()


def _parameters(workspace: RectangleWorkspace) -> dict[str, Any]:
    return parameters(workspace.algorithm.name, workspace.schema, workspace.partitions)
