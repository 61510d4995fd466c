"""Saving a progressive join and going on elsewhere: immutable Arrow files and a JSON manifest.

Nothing is pickled. Every block that the manifest names carries a checksum, so a damaged file is
found before any of its rows is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watersmeet.operators.history import History
from watersmeet.operators.parts import Parts
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
    from watersmeet.operators.progressive import ProgressiveJoin


def save(join: ProgressiveJoin, saved: SavedRows, area: StateArea) -> Manifest:
    """Have all of a join's state in the area. The join itself can go on."""
    parts, running = join.parts, join.reactive.running
    rows = saved.save(area, [disk.runs for disk in parts.disk.partitions])
    return {
        "format": FORMAT,
        "parameters": _parameters(parts),
        "stamp": parts.stamp,
        "newest": parts.newest.tolist(),
        "rates": parts.rates.save(),
        "expected": parts.expected.save(),
        "distinct": parts.distinct.save(),
        "running": None if running is None else running.save(),
        "histories": [disk.history.save() for disk in parts.disk.partitions],
        "rows": rows,
        "files": rows["files"],
        **save_counters(parts.metrics),
    }


def load(join: ProgressiveJoin, saved: SavedRows, area: StateArea, manifest: Manifest) -> None:
    """Fill a new join with a saved state, after checking that it is the same join."""
    parts = join.parts
    check(manifest, _parameters(parts))
    parts.stamp = manifest["stamp"]
    parts.newest[:] = manifest["newest"]
    parts.outcome.portions.expect_any_length()
    parts.rates.load(manifest["rates"])
    parts.expected.load(manifest["expected"])
    parts.distinct.load(manifest["distinct"])
    for p, runs in enumerate(saved.load(area, manifest["rows"])):
        disk = parts.disk.partitions[p]
        disk.runs, disk.history = runs, History.load(manifest["histories"][p])
        parts.disk.changed(p)
    load_counters(parts.metrics, manifest)
    if manifest["running"] is not None:
        join.reactive.resume(manifest["running"])
    parts.tell_memory()


def _parameters(parts: Parts) -> dict[str, Any]:
    return parameters(parts.algorithm.name, parts.schema, parts.tuning.partitions)
