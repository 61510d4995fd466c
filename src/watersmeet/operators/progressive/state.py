"""Saving a progressive join and going on elsewhere: immutable Arrow files and a JSON manifest.

Nothing is pickled. Every block that the manifest names carries a checksum, so a damaged file is
found before any of its rows is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watersmeet.operators.progressive.history import History
from watersmeet.operators.progressive.workspace import ProgressiveWorkspace
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

if TYPE_CHECKING:
    from watersmeet.operators.progressive.join import ProgressiveJoin


def save(join: ProgressiveJoin, saved: SavedRows, area: StateArea) -> Manifest:
    """Have all of a join's state in the area. The join itself can go on."""
    workspace, running = join.workspace, join.reactive.running
    if join.purging.spent is not None:
        saved.begin_anew()
    rows = saved.save(area, [disk.runs for disk in workspace.disk.partitions])
    join.purging.forget_spent()
    return {
        "format": FORMAT,
        "parameters": _parameters(workspace),
        "stamp": workspace.stamp,
        "newest": workspace.newest.tolist(),
        "rates": workspace.rates.save(),
        "expected": workspace.expected.save(),
        "distinct": workspace.distinct.save(),
        "running": None if running is None else running.save(),
        "purging": join.purging.save(),
        "histories": {
            str(p): disk.history.save()
            for p, disk in enumerate(workspace.disk.partitions)
            if len(disk.history)
        },
        "rows": rows,
        "files": rows["files"],
        **save_counters(workspace.metrics),
    }


def load(join: ProgressiveJoin, saved: SavedRows, area: StateArea, manifest: Manifest) -> None:
    """Fill a new join with a saved state, after checking that it is the same join."""
    workspace = join.workspace
    others = {"watched": None, "one_partner": None, "names_keys": None}
    check(manifest, others | _parameters(workspace))
    workspace.stamp = manifest["stamp"]
    workspace.newest[:] = manifest["newest"]
    join.purging.load(manifest["purging"])  # before the rows: it says which of them are there
    workspace.rates.load(manifest["rates"])
    workspace.expected.load(manifest["expected"])
    workspace.distinct.load(manifest["distinct"])
    for p, runs in enumerate(saved.load(area, manifest["rows"])):
        disk = workspace.disk.partitions[p]
        disk.runs = (runs[0], runs[1])
        if str(p) in manifest["histories"]:
            disk.history = History.load(manifest["histories"][str(p)])
        workspace.disk.changed(p)
    load_counters(workspace.metrics, manifest)
    if manifest["running"] is not None:
        join.reactive.resume(manifest["running"])
    workspace.report_memory()


def _parameters(workspace: ProgressiveWorkspace) -> dict[str, Any]:
    """Those of every join and, where they are not those of a join without promises, the watched
    predicates, the sides whose rows have one partner at most, and whether promises name keys."""
    schema, watched = workspace.schema, workspace.watching.predicates
    more: dict[str, Any] = {}
    if watched != schema.predicates:
        more["watched"] = [each.describe() for each in watched]
    if workspace.emitter.one_partner:
        more["one_partner"] = [int(side) for side in workspace.emitter.one_partner]
    if workspace.watching.remembers_keys:
        more["names_keys"] = True
    return parameters(workspace.algorithm.name, schema, workspace.tuning.partitions) | more
