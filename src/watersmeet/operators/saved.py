"""What a state area has of a join's rows, so that a save writes only what is new.

A join that goes on for ever is saved after every batch. Rows in memory are saved in segments, each
written once: a save adds one with the rows that came since the last. Spilled files never change, so
each is handed over once. What a manifest has to say besides is which rows of the segments are in
memory still.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Sequence
from copy import copy
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from watersmeet.errors import StateError
from watersmeet.operators.leaving import Leaving
from watersmeet.operators.metrics import Metrics
from watersmeet.operators.workspace import Workspace
from watersmeet.rows.on import name_of
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.marks import Marks
from watersmeet.store.runs import STILL_HERE, RunWriter, SpilledRun, write_run
from watersmeet.store.spill import Block, IoKind, corrupted, unusable

Manifest = dict[str, Any]
"""A saved operator as plain JSON values: format, parameters, counters, files."""

Runs = Sequence[list[SpilledRun]]
"""The runs of each input."""

FORMAT = 5
# Each segment is a file to open when the state is read. All of memory is written again when
# there are so many, which adds this fraction of it to an average save.
_MOST_SEGMENTS = 64
# Checksum and length of the index at the end of a file.
_END = struct.Struct("<QQ")
_BITS = pa.schema([("bits", pa.uint8())])
_COUNTERS = (
    "rows_in", "null_keys", "candidates", "flush_count", "rows_spilled", "bytes_spilled",
    "md_tasks", "dd_tasks", "rows_purged", "dropped_on_arrival", "broken_promises",
)  # fmt: skip


class StateArea(Protocol):
    """Where saved files go: never changed, each under a name of its own."""

    def put(self, path: Path) -> str:
        """Take over a file that is complete; its name there."""
        ...

    def get(self, name: str, path: Path) -> None:
        """Make a file available at this new path, after checking that it is what was put."""
        ...


class SavedRows:
    """A join's rows together with what has been saved of them.

    Rows get rising stamps as they come, and are saved in that order. `leaving` knows which of them
    have left memory since.
    """

    def __init__(self, workspace: Workspace, leaving: Leaving) -> None:
        self._workspace = workspace
        self._leaving = leaving
        self._inputs = range(len(workspace.memory.tables))
        self._segments: list[list[Manifest]] = [[] for _ in self._inputs]
        self._saved_until = [0 for _ in self._inputs]
        """The stamp up to which each input's rows have been written to a segment."""
        self._names: dict[str, str] = {}
        """The names in the area of the spilled files that were handed over."""

    def save(self, area: StateArea, runs: Sequence[Runs]) -> Manifest:
        """Have all rows in the area: those in memory and, by partition, these runs.

        `files` in the manifest are all that it refers to.
        """
        marks = self._save_marks(area)
        for input in self._inputs:
            self._save_segment(input, area)
        bits = list[str]()
        leaving = self._leaving.save(partial(self._put_bits, area, bits))
        self._hand_over(area, runs)
        numbers = {local: number for number, local in enumerate(self._names)}
        names = {segment["name"] for each in self._segments for segment in each}
        names |= {*self._names.values(), *bits}
        if marks and "name" in marks:
            names.add(marks["name"])
        return {
            "spilled": list(self._names.values()),
            "runs": [
                [[[numbers[run.name], run.place] for run in each] for each in partition]
                for partition in runs
            ],
            "segments": [list(each) for each in self._segments],
            "resident": [len(table) for table in self._workspace.memory.tables],
            "leaving": leaving,
            "marks": marks,
            "files": sorted(names),
        }

    def begin_anew(self) -> None:
        """Have all rows in memory written by the next save, and none of the segments kept."""
        for input in self._inputs:
            self._forget_segments(input)
        self._saved_until = [0 for _ in self._inputs]

    def load(self, area: StateArea, manifest: Manifest) -> list[Runs]:
        """Fill the tables and the marks of a new join; its runs by partition."""
        runs = self._load_runs(area, manifest)
        if manifest["marks"] is not None:
            self._load_marks(manifest["marks"], area)
        memory = self._workspace.memory
        memory.reserve_rows(manifest["resident"])
        self._leaving.load(manifest["leaving"], partial(self._get_bits, area))
        for input in self._inputs:
            for segment in manifest["segments"][input]:
                self._load_segment(input, segment, area)
            self._segments[input].extend(manifest["segments"][input])
            stamps = memory.tables[input].stamps
            self._saved_until[input] = int(stamps[-1]) + 1 if len(stamps) else 0
        return runs

    # ---- rows in memory -------------------------------------------------------------------------

    def _save_segment(self, input: int, area: StateArea) -> None:
        workspace, segments = self._workspace, self._segments[input]
        table = workspace.memory.tables[input]
        first = int(np.searchsorted(table.stamps, self._saved_until[input]))
        written = sum(segment["rows"] for segment in segments) + len(table) - first
        if written > 2 * len(table) or len(segments) >= _MOST_SEGMENTS:
            self._forget_segments(input)
            first = 0
        if first == len(table):
            return
        rows = workspace.memory.block_rows(input, workspace.block_bytes)
        writer = RunWriter(workspace.spill, table.schema, IoKind.FLUSH, block_rows=rows)
        run = write_run(writer, table, np.arange(first, len(table)), departed=STILL_HERE)
        writer.close()
        write_index(workspace.spill.path / run.name, [run])
        name = area.put(workspace.spill.path / run.name)
        segments.append({"name": name, "rows": run.rows})
        self._leaving.written(input, run.rows)
        self._saved_until[input] = int(table.stamps[-1]) + 1
        run.remove()

    def _forget_segments(self, input: int) -> None:
        self._segments[input].clear()
        self._leaving.forgotten(input)

    def _load_segment(self, input: int, segment: Manifest, area: StateArea) -> None:
        workspace = self._workspace
        local = self._fetch(segment["name"], area)
        described = read_index(local)[0] | {"name": local.name}
        run = SpilledRun.from_description(
            described, workspace.schema.stored(input), workspace.spill
        )
        read = run.open(IoKind.SCAN)
        for number in range(run.block_count):
            piece = read(number)
            here = self._leaving.here(input, piece)
            if not here.all():
                piece = piece.take(np.flatnonzero(here))
            if len(piece):
                workspace.memory.put_back(input, piece)
        local.unlink()

    # ---- rows on disk ---------------------------------------------------------------------------

    def _hand_over(self, area: StateArea, runs: Sequence[Runs]) -> None:
        """Have every spilled file in the area. What its runs consist of is in the file itself: a
        manifest that listed all blocks would grow with the state, and is written at every save."""
        runs_in: dict[str, list[SpilledRun]] = {}
        for partition in runs:
            for run in chain.from_iterable(partition):
                runs_in.setdefault(run.name, []).append(run)
        for local in runs_in.keys() - self._names.keys():
            path = self._workspace.spill.path / local
            write_index(path, runs_in[local])
            self._names[local] = area.put(path)
        self._names = {local: self._names[local] for local in runs_in}

    def _load_runs(self, area: StateArea, manifest: Manifest) -> list[Runs]:
        spill, schema = self._workspace.spill, self._workspace.schema
        files = []
        for name in manifest["spilled"]:
            path = self._fetch(name, area)
            self._names[path.name] = name
            files.append((path.name, read_index(path)))
        loaded: list[Runs] = []
        for partition in manifest["runs"]:
            runs: list[list[SpilledRun]] = [[] for _ in partition]
            for input, places in enumerate(partition):
                for number, place in places:
                    local, index = files[number]
                    described = index[place] | {"name": local}
                    run = SpilledRun.from_description(described, schema.stored(input), spill)
                    run.place = place
                    spill.retain(local)
                    runs[input].append(run)
            loaded.append(runs)
        return loaded

    # ---- marks ----------------------------------------------------------------------------------

    def _save_marks(self, area: StateArea) -> Manifest | None:
        emitter = self._workspace.emitter
        if not any(emitter.marked):
            return None
        saved, bits = {"base": emitter.marks.base}, emitter.marks.to_save()
        return saved | self._put_bits(area, [], bits) if len(bits) else saved

    def _load_marks(self, saved: Manifest, area: StateArea) -> None:
        emitter = self._workspace.emitter
        bits = self._get_bits(area, saved) if "name" in saved else np.empty(0, np.uint8)
        emitter.marks = Marks.load(saved["base"], bits)
        self._workspace.memory.reserved = emitter.marks.nbytes

    def _put_bits(self, area: StateArea, names: list[str], bits: NDArray[np.uint8]) -> Manifest:
        """Have bits in a file of the area; adds its name to `names`."""
        spill = self._workspace.spill
        writer = spill.create(_BITS, IoKind.FLUSH)
        batch = pa.RecordBatch.from_arrays([pa.array(bits)], schema=_BITS)
        block = writer.append(batch, (0, 0), first=True)
        path = spill.path / writer.finish()
        name = area.put(path)
        path.unlink()
        names.append(name)
        return {"name": name, "block": [block.offset, block.length, block.checksum]}

    def _get_bits(self, area: StateArea, saved: Manifest) -> NDArray[np.uint8]:
        spill = self._workspace.spill
        local = self._fetch(saved["name"], area)
        reader = spill.open(local.name, _BITS, IoKind.SCAN)
        offset, length, checksum = saved["block"]
        batch = reader.read(Block(offset, length, checksum, rows=0, first_code=0, last_code=0))
        reader.close()
        local.unlink()
        bits: NDArray[np.uint8] = batch.column(0).to_numpy()
        return bits

    def _fetch(self, name: str, area: StateArea) -> Path:
        path = self._workspace.spill.path / f"state-{name}"
        area.get(name, path)
        return path


# ---- whose state it is --------------------------------------------------------------------------


def parameters(algorithm: str, schema: JoinSchema, partitions: int) -> dict[str, Any]:
    """What may not change between saving and restoring. Memory and policies' tuning may."""
    columns = {
        name_of(n, len(schema.inputs)): [f"{field.name}: {field.type}" for field in each]
        for n, each in enumerate(schema.inputs)
    }
    return {
        "algorithm": algorithm,
        "how": str(schema.how),
        "predicates": [[*each.ends, *each.describe()] for each in schema.predicates],
        **columns,
        "partitions": partitions,
    }


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


def save_counters(metrics: Metrics) -> Manifest:
    return {
        "counters": {name: copy(getattr(metrics, name)) for name in _COUNTERS},
        "results": {str(stage): count for stage, count in metrics.results.items()},
    }


def load_counters(metrics: Metrics, manifest: Manifest) -> None:
    for name in _COUNTERS:
        if name in manifest["counters"]:  # One of an older version may lack the newest.
            setattr(metrics, name, copy(manifest["counters"][name]))
    metrics.results |= manifest["results"]


# ---- what a file holds, at its end --------------------------------------------------------------


def write_index(path: Path, runs: list[SpilledRun]) -> None:
    """Append a description of its runs to a file that is complete."""
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
