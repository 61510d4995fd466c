"""Saves and restores a join by regions: immutable Arrow files and a JSON manifest.

As for the progressive joins (operators/progressive/state.py), with the positions of the nested loop
instead of a history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watersmeet.model import Side
from watersmeet.operators.regions.workspace import RegionWorkspace
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
from watersmeet.policies.regions import Regions

if TYPE_CHECKING:
    from watersmeet.operators.regions.join import RegionJoin


def save(join: RegionJoin, saved: SavedRows, area: StateArea) -> Manifest:
    """Have all of a join's state in the area. The join itself can go on."""
    workspace = join.workspace
    left, right = (blocks.runs for blocks in workspace.blocks)
    rows = saved.save(area, [(left, right)])
    return {
        "format": FORMAT,
        "parameters": _parameters(workspace),
        "stamp": workspace.stamp,
        "ended": list(workspace.ended),
        "regions": [regions.save() for regions in workspace.memory.regions],
        "loop": join.loop.save(),
        "rows": rows,
        "files": rows["files"],
        **save_counters(workspace.metrics),
    }


def load(join: RegionJoin, saved: SavedRows, area: StateArea, manifest: Manifest) -> None:
    """Fill a new join with a saved state, after checking that it is the same join."""
    workspace = join.workspace
    check(manifest, _parameters(workspace))
    workspace.stamp = manifest["stamp"]
    workspace.ended = list(manifest["ended"])
    # Before the rows: they are counted by region.
    workspace.memory.regions[:] = [Regions.load(each) for each in manifest["regions"]]
    (runs,) = saved.load(area, manifest["rows"])
    for side in Side:
        workspace.blocks[side].replace(runs[side])
    join.loop.load(manifest["loop"])
    load_counters(workspace.metrics, manifest)
    workspace.report_memory()


def _parameters(workspace: RegionWorkspace) -> dict[str, Any]:
    return parameters(workspace.algorithm.name, workspace.schema, partitions=1)
