"""Saving a progressive join and going on elsewhere: immutable Arrow files and a JSON manifest.

Nothing is pickled. Every block that the manifest names carries a checksum, so a damaged file is
found before any of its rows is used.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from watersmeet.errors import StateError
from watersmeet.model import Side
from watersmeet.operators.disk import DiskPartition
from watersmeet.operators.history import History
from watersmeet.operators.memory import MemoryPart
from watersmeet.operators.outcome import Outcome
from watersmeet.operators.parts import Parts
from watersmeet.rows.address import Stage
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.runs import STILL_HERE, RunWriter, SpilledRun, write_run
from watersmeet.store.spill import Block, IoKind, SpillArea

if TYPE_CHECKING:
    from watersmeet.operators.progressive import ProgressiveJoin

Manifest = dict[str, Any]
Runs = tuple[list[SpilledRun], list[SpilledRun]]

FORMAT = 2
_BITS = pa.schema([("bits", pa.uint8())])
COUNTERS = (
    "rows_in", "null_keys", "candidates", "flush_count", "rows_spilled", "bytes_spilled",
    "md_tasks", "dd_tasks",
)  # fmt: skip


class Keeper(Protocol):
    """What every join has that keeps rows in tables and runs."""

    @property
    def schema(self) -> JoinSchema: ...
    @property
    def spill(self) -> SpillArea: ...
    @property
    def memory(self) -> MemoryPart: ...
    @property
    def outcome(self) -> Outcome: ...
    @property
    def block_bytes(self) -> int: ...


def save(join: ProgressiveJoin, area: SpillArea) -> Manifest:
    """Write all of a join's state to another area. The join itself can go on."""
    parts = join.parts
    moved: dict[str, str] = {}
    return describe(join) | {
        "partitions": [
            {"runs": save_runs(parts, disk.runs, area, moved), "history": disk.history.save()}
            for disk in parts.disk.partitions
        ],
        "resident": [save_resident(parts, side, area) for side in Side],
        "marks": save_marks(parts, area),
    }


def load(join: ProgressiveJoin, area: SpillArea, manifest: Manifest) -> None:
    """Fill a new join with a saved state, after checking that it is the same join."""
    parts = join.parts
    begin(join, manifest)
    moved: dict[str, str] = {}
    for p, saved in enumerate(manifest["partitions"]):
        runs = load_runs(parts, saved["runs"], area, moved)
        parts.disk.partitions[p] = DiskPartition(runs, History.load(saved["history"]))
        parts.disk.changed(p)
    parts.memory.hold_at_least([run["rows"] for run in manifest["resident"]])
    for side, saved in zip(Side, manifest["resident"], strict=True):
        load_resident(parts, side, saved, area)
    load_marks(parts, manifest["marks"], area)
    complete(join, manifest)


def describe(join: ProgressiveJoin) -> Manifest:
    """All of a join's state but its rows."""
    parts, running = join.parts, join.reactive.running
    return {
        "format": FORMAT,
        "parameters": _parameters(parts),
        "stamp": parts.stamp,
        "newest": parts.newest.tolist(),
        "rates": parts.rates.save(),
        "expected": parts.expected.save(),
        "distinct": parts.distinct.save(),
        "running": None if running is None else running.save(),
        "counters": {name: copy(getattr(parts.metrics, name)) for name in COUNTERS},
        "results": {str(stage): count for stage, count in parts.metrics.results.items()},
    }


def begin(join: ProgressiveJoin, manifest: Manifest) -> None:
    """Check that a saved state is this join's, and take up what it knew about its inputs."""
    parts = join.parts
    check(manifest, _parameters(parts))
    parts.stamp = manifest["stamp"]
    parts.newest[:] = manifest["newest"]
    parts.outcome.portions.expect_any_length()
    parts.rates.load(manifest["rates"])
    parts.expected.load(manifest["expected"])
    parts.distinct.load(manifest["distinct"])


def check(manifest: Manifest, parameters: dict[str, Any]) -> None:
    """Refuse a state that another version or another join has saved."""
    if manifest.get("format") != FORMAT:
        raise StateError(
            f"The saved state has format {manifest.get('format')!r}, this version reads {FORMAT}.",
            remedy="Restore it with the version that wrote it, or start anew.",
        )
    for name, value in parameters.items():
        if manifest["parameters"].get(name) != value:
            raise StateError(
                f"The saved state was made with {name}={manifest['parameters'].get(name)!r}, "
                f"not {value!r}.",
                remedy="Restore it with the same parameters, or start anew.",
            )


def complete(join: ProgressiveJoin, manifest: Manifest) -> None:
    """Take up the counters and the task that was under way, once the rows are in place."""
    parts = join.parts
    for name in COUNTERS:
        setattr(parts.metrics, name, copy(manifest["counters"][name]))
    for stage in Stage:
        parts.metrics.results[stage] = manifest["results"][str(stage)]
    if manifest["running"] is not None:
        join.reactive.resume(manifest["running"])
    parts.tell_memory()


def _parameters(parts: Parts) -> dict[str, Any]:
    return parameters(parts.algorithm.name, parts.schema, parts.tuning.partitions)


def parameters(algorithm: str, schema: JoinSchema, partitions: int) -> dict[str, Any]:
    """What may not change between saving and restoring. Memory and policies' tuning may."""
    return {
        "algorithm": algorithm,
        "how": str(schema.how),
        "keys": [[key.left, key.right] for key in schema.keys],
        "left": [f"{field.name}: {field.type}" for field in schema.left],
        "right": [f"{field.name}: {field.type}" for field in schema.right],
        "partitions": partitions,
    }


# ---- rows, wherever a join keeps them -----------------------------------------------------------


def save_runs(
    parts: Keeper, runs: Runs, area: SpillArea, moved: dict[str, str]
) -> list[list[Manifest]]:
    """`moved` has the names of files that were copied already: runs share files."""
    described = [[run.describe() for run in runs[side]] for side in Side]
    for run in (run for side in described for run in side):
        if run["name"] not in moved:
            moved[run["name"]] = area.adopt(parts.spill.path, run["name"])
        run["name"] = moved[run["name"]]
    return described


def load_runs(
    parts: Keeper, saved: list[list[Manifest]], area: SpillArea, moved: dict[str, str]
) -> Runs:
    runs: Runs = ([], [])
    for side in Side:
        for described in saved[side]:
            run = SpilledRun.from_description(described, parts.schema.stored(side), parts.spill)
            if run.name not in moved:
                moved[run.name] = parts.spill.adopt(area.path, run.name)
            run.name = moved[run.name]
            parts.spill.retain(run.name)
            runs[side].append(run)
    return runs


def save_resident(parts: Keeper, side: Side, area: SpillArea) -> Manifest:
    table = parts.memory.tables[side]
    rows = parts.memory.block_rows(side, parts.block_bytes)
    writer = RunWriter(area, table.schema, IoKind.FLUSH, block_rows=rows)
    run = write_run(writer, table, np.arange(len(table)), departed=STILL_HERE)
    writer.close()
    return run.describe()


def load_resident(parts: Keeper, side: Side, saved: Manifest, area: SpillArea) -> None:
    run = SpilledRun.from_description(saved, parts.schema.stored(side), area)
    read = run.open(IoKind.SCAN)
    for number in range(run.block_count):
        piece = read(number)
        parts.memory.tables[side].add(piece.hashes, piece.ats, piece.rows)


def save_marks(parts: Keeper, area: SpillArea) -> Manifest:
    writer = area.create(_BITS, IoKind.FLUSH)
    batch = pa.RecordBatch.from_arrays([pa.array(parts.outcome.marks.bits)], schema=_BITS)
    block = writer.append(batch, (0, 0), first=True)
    return {"name": writer.finish(), "block": [block.offset, block.length, block.checksum]}


def load_marks(parts: Keeper, saved: Manifest, area: SpillArea) -> None:
    reader = area.open(saved["name"], _BITS, IoKind.SCAN)
    offset, length, checksum = saved["block"]
    batch = reader.read(Block(offset, length, checksum, rows=0, first_hash=0, last_hash=0))
    reader.close()
    parts.outcome.marks.bits = batch.column(0).to_numpy().copy()
    if any(parts.outcome.marked):
        parts.memory.reserved = parts.outcome.marks.nbytes
