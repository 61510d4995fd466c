"""Saves and restores a join of many inputs: immutable Arrow files and a JSON manifest.

As for the joins by regions, with the boxes of the nested loop and the order of each run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
from watersmeet.operators.tree.workspace import TreeWorkspace
from watersmeet.policies.regions import Regions

if TYPE_CHECKING:
    from watersmeet.operators.tree.join import TreeJoin


def save(join: TreeJoin, saved: SavedRows, area: StateArea) -> Manifest:
    """Have all of a join's state in the area. The join itself can go on."""
    workspace = join.workspace
    rows = saved.save(area, [[blocks.runs for blocks in workspace.blocks]])
    return {
        "format": FORMAT,
        "parameters": _parameters(workspace),
        "stamp": workspace.stamp,
        "ended": list(workspace.ended),
        "regions": [[each.save() for each in orders] for orders in workspace.memory.regions],
        "orders": [list(blocks.orders) for blocks in workspace.blocks],
        "selectivity": workspace.selectivity.save(),
        "turn": join.flushing.turn,
        "loop": join.loop.save(),
        "rows": rows,
        "files": rows["files"],
        **save_counters(workspace.metrics),
    }


def load(join: TreeJoin, saved: SavedRows, area: StateArea, manifest: Manifest) -> None:
    """Fill a new join with a saved state, after checking that it is the same join."""
    workspace = join.workspace
    check(manifest, _parameters(workspace))
    workspace.stamp = manifest["stamp"]
    workspace.ended = list(manifest["ended"])
    # Before the rows: they are counted by region.
    workspace.memory.regions[:] = [
        [Regions.load(each) for each in orders] for orders in manifest["regions"]
    ]
    (runs,) = saved.load(area, manifest["rows"])
    for blocks, mine, orders in zip(workspace.blocks, runs, manifest["orders"], strict=True):
        blocks.replace(mine, orders)
    workspace.selectivity.load(manifest["selectivity"])
    join.flushing.turn = manifest["turn"]
    join.loop.load(manifest["loop"])
    load_counters(workspace.metrics, manifest)
    workspace.report_memory()


def _parameters(workspace: TreeWorkspace) -> dict[str, Any]:
    return parameters(workspace.algorithm.name, workspace.schema, partitions=1)
