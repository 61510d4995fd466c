"""Saves and restores a join with a master table: waiting rows, where the scan stands, the version.

The cache is not saved: a restored join fills it anew while it scans. Master tables are files of
their own that never change; a state names their versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watersmeet.errors import StateError
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
from watersmeet.operators.semistream.metrics import SAVED
from watersmeet.operators.semistream.workspace import SemiStreamWorkspace

if TYPE_CHECKING:
    from watersmeet.operators.semistream.join import SemiStreamJoin


def save(join: SemiStreamJoin, saved: SavedRows, area: StateArea) -> Manifest:
    """Have all of a join's state in the area. The join itself can go on."""
    workspace = join.workspace
    patient = workspace.patient
    if patient is not None:
        patient.write()
    rows = saved.save(area, [] if patient is None else [[patient.runs]])
    counted = {name: getattr(workspace.metrics, name) for name in SAVED}
    return {
        "format": FORMAT,
        "parameters": _parameters(workspace),
        "versions": join.versions,
        "stamp": workspace.stamp,
        "scan": join.scan.save(),
        "rows": rows,
        "files": rows["files"],
        "enriched": counted,
        **save_counters(workspace.metrics),
    }


def load(join: SemiStreamJoin, saved: SavedRows, area: StateArea, manifest: Manifest) -> None:
    """Fill a new join with a saved state, after checking that it is the same join."""
    workspace = join.workspace
    check(manifest, _parameters(workspace))
    if manifest["versions"] != join.versions:
        raise StateError(
            f"The saved state has rows that wait for {_named(manifest['versions'])} of the master "
            f"table, not for {_named(join.versions)}.",
            remedy="Restore it with the versions that it names, or start anew.",
        )
    workspace.stamp = manifest["stamp"]
    runs = saved.load(area, manifest["rows"])
    if workspace.patient is not None:
        (workspace.patient.runs,) = runs[0]
    join.scan.begin_anew(manifest["scan"])
    load_counters(workspace.metrics, manifest)
    for name in SAVED:
        setattr(workspace.metrics, name, manifest["enriched"][name])
    workspace.report_memory()


def _named(versions: list[str]) -> str:
    return ("version " if len(versions) == 1 else "versions ") + " and ".join(map(repr, versions))


def _parameters(workspace: SemiStreamWorkspace) -> dict[str, Any]:
    waits = "for the scan" if workspace.patient is None else "until a deadline"
    return parameters(workspace.algorithm.name, workspace.schema, partitions=1) | {"waits": waits}
