"""Saving a join after every batch of a stream: only what the last save did not have is written."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import xxhash

from watersmeet.kernels.hashing import partition_of
from watersmeet.model import Side
from watersmeet.operators import state
from watersmeet.operators.history import History
from watersmeet.operators.progressive import ProgressiveJoin
from watersmeet.operators.state import Manifest
from watersmeet.store.runs import STILL_HERE, RunWriter, SpilledRun, write_run
from watersmeet.store.spill import IoKind, corrupted, unusable

# Each segment is a file to open when the state is read. All of memory is written again when
# there are so many, which adds this fraction of it to an average save.
_MOST_SEGMENTS = 64
# Checksum and length of the index at the end of a file.
_END = struct.Struct("<QQ")


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
        self._oldest = join.parts.oldest()

    def save(self, area: StateArea) -> Manifest:
        """Have the join's state in the area. `files` in the manifest are all that it refers to."""
        parts = self.join.parts
        marks = None
        if any(parts.outcome.marked):
            marks = state.save_marks(parts, parts.spill)
            path = parts.spill.path / marks["name"]
            marks["name"] = area.put(path)
            path.unlink()
        self._oldest = parts.oldest()
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
        self._load_partitions(manifest["partitions"], area)
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
        write_index(parts.spill.path / run.name, [run])
        name = area.put(parts.spill.path / run.name)
        segments.append({"name": name, "rows": run.rows})
        run.remove()

    def _resident(self, side: Side) -> Manifest:
        """How many rows are in memory, and the stamp of each partition's oldest."""
        parts = self.join.parts
        return {"rows": len(parts.memory.tables[side]), "oldest": self._oldest[side].tolist()}

    def _load_segment(
        self, side: Side, segment: Manifest, oldest: np.ndarray, area: StateArea
    ) -> None:
        parts = self.join.parts
        local = self._fetch(segment["name"], area)
        described = read_index(local)[0] | {"name": local.name}
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

    def _save_partitions(self, area: StateArea) -> Manifest:
        """Which run of which file is where. What a run consists of is in the file, written once."""
        parts = self.join.parts
        runs_in: dict[str, list[SpilledRun]] = {}
        for disk in parts.disk.partitions:
            for run in (*disk.runs[Side.LEFT], *disk.runs[Side.RIGHT]):
                runs_in.setdefault(run.name, []).append(run)
        self._names = {local: self._saved_file(local, runs_in[local], area) for local in runs_in}
        numbers = {local: number for number, local in enumerate(self._names)}
        return {
            "names": list(self._names.values()),
            "runs": [
                [[[numbers[run.name], run.place] for run in disk.runs[side]] for side in Side]
                for disk in parts.disk.partitions
            ],
            "histories": [disk.history.save() for disk in parts.disk.partitions],
        }

    def _saved_file(self, local: str, runs: list[SpilledRun], area: StateArea) -> str:
        if local in self._names:
            return self._names[local]
        path = self.join.parts.spill.path / local
        write_index(path, runs)
        return area.put(path)

    def _load_partitions(self, saved: Manifest, area: StateArea) -> None:
        parts = self.join.parts
        files = []
        for name in saved["names"]:
            path = self._fetch(name, area)
            self._names[path.name] = name
            files.append((path.name, read_index(path)))
        for p, sides in enumerate(saved["runs"]):
            disk = parts.disk.partitions[p]
            disk.history = History.load(saved["histories"][p])
            for side in Side:
                schema = parts.schema.stored(side)
                for number, place in sides[side]:
                    local, index = files[number]
                    described = index[place] | {"name": local}
                    run = SpilledRun.from_description(described, schema, parts.spill)
                    run.place = place
                    parts.spill.retain(local)
                    disk.runs[side].append(run)
            parts.disk.changed(p)

    def _fetch(self, name: str, area: StateArea) -> Path:
        path = self.join.parts.spill.path / f"state-{name}"
        area.get(name, path)
        return path


# ---- what a file holds, at its end --------------------------------------------------------------


def write_index(path: Path, runs: list[SpilledRun]) -> None:
    """Append a description of its runs to a file that is complete. A manifest that listed all
    blocks would grow with the state, and is written with every batch."""
    described = []
    for place, run in enumerate(runs):
        run.place = place
        described.append({k: v for k, v in run.describe().items() if k != "name"})
    content = json.dumps(described).encode()
    try:
        with path.open("ab") as file:
            file.write(content + _END.pack(xxhash.xxh3_64_intdigest(content), len(content)))
    except OSError as error:
        raise unusable(path.parent, error) from error


def read_index(path: Path) -> list[Manifest]:
    """The descriptions that `write_index` appended."""
    try:
        with path.open("rb") as file:
            end = file.seek(-_END.size, os.SEEK_END)
            checksum, length = _END.unpack(file.read(_END.size))
            file.seek(end - length)
            content = file.read(length)
    except (OSError, ValueError) as error:
        raise corrupted(path, "is shorter than what was written") from error
    if xxhash.xxh3_64_intdigest(content) != checksum:
        raise corrupted(path, "has been altered")
    described: list[Manifest] = json.loads(content)
    return described
