"""Saving a join after every batch of a stream: only what the last save did not have is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import numpy as np

from watersmeet.kernels.hashing import partition_of
from watersmeet.model import Side
from watersmeet.operators import state
from watersmeet.operators.disk import DiskPartition
from watersmeet.operators.history import History
from watersmeet.operators.progressive import ProgressiveJoin
from watersmeet.operators.state import Manifest
from watersmeet.store.runs import STILL_HERE, RunWriter, SpilledRun, write_run
from watersmeet.store.spill import IoKind

# Each segment is a file to open when the state is read. All of memory is written again when
# there are so many, which adds this fraction of it to an average save.
_MOST_SEGMENTS = 64


class StateArea(Protocol):
    """Where saved files go: never changed, each under a name of its own."""

    def put(self, path: Path) -> str:
        """Take over a file that is complete; its name there."""
        ...

    def get(self, name: str, path: Path) -> None:
        """Make a file available at this new path, after checking that it is what was put."""
        ...


class Increments:
    """A join together with what has been saved of it.

    Rows get rising stamps as they come and leave memory oldest first in each partition. So a row
    that was written to a segment is still in memory exactly if its stamp is not below that of its
    partition's oldest row, and a save needs the rows since the last one and those stamps. A
    spilled file never changes, so it is handed over once.
    """

    def __init__(self, join: ProgressiveJoin) -> None:
        self.join = join
        self._segments: tuple[list[Manifest], list[Manifest]] = ([], [])
        self._next_stamp = 0
        self._names: dict[str, str] = {}

    def save(self, area: StateArea) -> Manifest:
        """Have the join's state in the area. `files` in the manifest are all that it refers to."""
        parts = self.join.parts
        marks = None
        if any(parts.outcome.marked):
            marks = state.save_marks(parts, parts.spill)
            path = parts.spill.path / marks["name"]
            marks["name"] = area.put(path)
            path.unlink()
        for side in Side:
            self._save_segment(side, area)
        self._next_stamp = parts.stamp
        partitions = self._save_partitions(area)
        names = {described["name"] for side in self._segments for described in side}
        names |= set(self._names.values()) | ({marks["name"]} if marks else set())
        return state.describe(self.join) | {
            "partitions": partitions,
            "segments": [list(side) for side in self._segments],
            "resident": [self._resident(side) for side in Side],
            "marks": marks,
            "files": sorted(names),
        }

    @classmethod
    def restore(cls, area: StateArea, manifest: Manifest, **settings: Any) -> Increments:
        """A new join, with the settings of `ProgressiveJoin`, that goes on from a saved state."""
        restored = cls(ProgressiveJoin(**settings))
        try:
            restored._load(area, manifest)
        except BaseException:
            restored.join.close()
            raise
        return restored

    def _load(self, area: StateArea, manifest: Manifest) -> None:
        parts = self.join.parts
        state.begin(self.join, manifest)
        self._next_stamp = manifest["stamp"]
        for p, saved in enumerate(manifest["partitions"]):
            parts.disk.partitions[p] = self._load_partition(saved, area)
            parts.disk.changed(p)
        parts.memory.hold_at_least([side["rows"] for side in manifest["resident"]])
        for side in Side:
            oldest = np.array(manifest["resident"][side]["oldest"], np.int64)
            for segment in manifest["segments"][side]:
                self._load_segment(side, segment, oldest, area)
            self._segments[side].extend(manifest["segments"][side])
        if manifest["marks"] is not None:
            local = self._fetch(manifest["marks"]["name"], area)
            state.load_marks(parts, manifest["marks"] | {"name": local.name}, parts.spill)
            local.unlink()
        state.complete(self.join, manifest)

    # ---- rows in memory -------------------------------------------------------------------------

    def _save_segment(self, side: Side, area: StateArea) -> None:
        parts, segments = self.join.parts, self._segments[side]
        table = parts.memory.tables[side]
        first = int(np.searchsorted(table.stamps, self._next_stamp))
        written = sum(segment["rows"] for segment in segments) + len(table) - first
        if written > 2 * len(table) or len(segments) >= _MOST_SEGMENTS:
            segments.clear()
            first = 0
        if first == len(table):
            return
        rows = parts.memory.block_rows(side, parts.block_bytes)
        writer = RunWriter(parts.spill, table.schema, IoKind.FLUSH, block_rows=rows)
        run = write_run(writer, table, np.arange(first, len(table)), departed=STILL_HERE)
        writer.close()
        name = area.put(parts.spill.path / run.name)
        segments.append(run.describe() | {"name": name})
        run.remove()

    def _resident(self, side: Side) -> Manifest:
        """How many rows are in memory, and the stamp of each partition's oldest."""
        table = self.join.parts.memory.tables[side]
        first = table.oldest(np.minimum(table.by_partition, 1))
        oldest = [int(table.stamps[index[0]]) if len(index) else STILL_HERE for index in first]
        return {"rows": len(table), "oldest": oldest}

    def _load_segment(
        self, side: Side, segment: Manifest, oldest: np.ndarray, area: StateArea
    ) -> None:
        parts = self.join.parts
        local = self._fetch(segment["name"], area)
        described = segment | {"name": local.name}
        run = SpilledRun.from_description(described, parts.schema.stored(side), parts.spill)
        read = run.open(IoKind.SCAN)
        for number in range(run.block_count):
            piece = read(number)
            here = piece.ats >= oldest[partition_of(piece.hashes, len(oldest))]
            if not here.all():
                piece = piece.take(np.flatnonzero(here))
            if len(piece):
                parts.memory.tables[side].add(piece.hashes, piece.ats, piece.rows)
        local.unlink()

    # ---- rows on disk ---------------------------------------------------------------------------

    def _save_partitions(self, area: StateArea) -> list[Manifest]:
        parts, before, self._names = self.join.parts, self._names, {}
        saved = []
        for disk in parts.disk.partitions:
            runs = [[run.describe() for run in disk.runs[side]] for side in Side]
            for run in (run for side in runs for run in side):
                local = run["name"]
                if local not in self._names:
                    name = before.get(local) or area.put(parts.spill.path / local)
                    self._names[local] = name
                run["name"] = self._names[local]
            saved.append({"runs": runs, "history": disk.history.save()})
        return saved

    def _load_partition(self, saved: Manifest, area: StateArea) -> DiskPartition:
        parts = self.join.parts
        disk = DiskPartition(history=History.load(saved["history"]))
        fetched = {name: local for local, name in self._names.items()}
        for side in Side:
            for described in saved["runs"][side]:
                run = SpilledRun.from_description(described, parts.schema.stored(side), parts.spill)
                if run.name not in fetched:
                    local = self._fetch(run.name, area).name
                    self._names[local], fetched[run.name] = run.name, local
                run.name = fetched[run.name]
                parts.spill.retain(run.name)
                disk.runs[side].append(run)
        return disk

    def _fetch(self, name: str, area: StateArea) -> Path:
        path = self.join.parts.spill.path / f"state-{name}"
        area.get(name, path)
        return path
