"""Whether promises keep a join of streams as small as what nobody has promised about.

Keys come, live for some batches and are promised away by both sides. The join is a full one with
memory for a part of the rows that are there at a time, so rows pass through memory, runs and saved
states, and those without a partner are results when they go. It is the operator that is driven, and
saved after every batch to a state directory of streams: no host gives promises yet.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.cases import Claim, Places
from benchmarks.endless import Look, resident_bytes, row_of
from benchmarks.report import Section, times
from watersmeet.model import Side
from watersmeet.operators.base import JoinOperator
from watersmeet.operators.family import make_operator, restore_operator
from watersmeet.operators.tuning import Costs, Tuning
from watersmeet.rows.address import Matches
from watersmeet.rows.promises import Promise
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.microbatches.state import InstanceState, StateDirectory
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea

LOOKS = (1_000, 10_000)
LONGEST_SECONDS = 40 * 60.0

KEYS = 30
"""New keys in a batch: a third of them only the left has, a third only the right."""
LIVES = 8
"""After so many batches a key is promised away."""
MOVES = 1_000
_TIMED = 500
_WEIGHED = 10
_MEMORY = 2**14
# Given, because measuring a disk takes longer than many batches do.
_TUNING = Tuning(partitions=8, costs=Costs(random=0.01, sequential=0.001))
_SCHEMAS = tuple(pa.schema({"k": pa.int64(), name: pa.int64()}) for name in ("a", "b"))


class Passing:
    """One join, batch after batch."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.looks: list[Look] = []
        self.flushes = 0
        self._batch = 0
        self._seconds: deque[float] = deque(maxlen=_TIMED)
        self._processor = 0.0
        self._sizes: deque[tuple[int, int, int]] = deque(maxlen=_TIMED // _WEIGHED)
        self._emitted = dict.fromkeys(("pairs", "left", "right", "sum"), 0)
        self._schema = JoinSchema.resolve(_SCHEMAS[0], _SCHEMAS[1], "k", "full")
        (directory / "spill").mkdir(parents=True)
        self._place = StateDirectory.parse(directory / "state")
        self._place.create()
        self._join = make_operator("rpj", self._schema, **self._resources())

    def run(self, looks: Sequence[int], *, longest: float = LONGEST_SECONDS) -> None:
        """Run batches until the last of these numbers, and look at each of them."""
        until = time.monotonic() + longest
        while self._batch < looks[-1] and time.monotonic() < until:
            if self._batch + _TIMED in looks:
                self._processor = time.process_time()
            self._next()
            if self._batch in looks:
                self._look()
        if self._batch not in looks:
            self._processor = time.process_time()
            for _ in range(_TIMED):
                self._next()
            self._look()
        self.flushes = self._join.metrics.flush_count
        for side in Side:
            self._take(self._join.end(side))
        self._take(self._join.finish())
        self._join.close()

    def broken(self) -> list[str]:
        """What is wrong with the rows that came out, if anything is: each comes once."""
        rows, third = KEYS * self._batch, KEYS // 3 * self._batch
        keys_sum = rows * (rows - 1) // 2  # each key is in one row of the result
        expected = {"pairs": third, "left": third, "right": third, "sum": keys_sum}
        return [] if self._emitted == expected else [f"promises: {self._emitted}, not {expected}"]

    def plain(self) -> dict[str, Any]:
        return {"looks": [asdict(look) for look in self.looks], "flushes": self.flushes}

    def _resources(self) -> dict[str, Any]:
        spill = SpillArea(self.directory / "spill")
        return {"memory": MemoryAccount(_MEMORY), "spill": spill, "tuning": _TUNING}

    def _next(self) -> None:
        began = time.perf_counter()
        third, first = KEYS // 3, KEYS * self._batch
        for side in Side:
            keys = np.arange(first + side * third, first + (2 + side) * third)
            self._take(self._join.push(side, _rows(side, keys)))
        if self._batch >= LIVES:
            old = np.arange(KEYS) + KEYS * (self._batch - LIVES)
            codes = self._schema.encode(Side.LEFT, _rows(Side.LEFT, old)).codes
            for side in Side:
                self._take(self._join.punctuate(side, Promise.of_codes(0, codes)))
        self._take(self._join.tidy())
        self._save()
        self._seconds.append(time.perf_counter() - began)
        self._batch += 1
        if self._batch % _WEIGHED == 0:
            self._sizes.append(self._weigh())

    def _save(self) -> None:
        """As the host does, with a new view of the state for each batch."""
        state, before = self._place.instance(0), dict[str, Any]()
        if self._batch:
            before = state.read(self._batch - 1) or {}
            state.verify(before)
        state.begin(self._batch)
        operator = self._join.save(state)
        files = {name: list(state.files[name]) for name in operator["files"]}
        state.commit(self._batch, {"operator": operator, "files": files})
        state.clean(self._batch, {*files, *before.get("files", ())})
        if self._batch % MOVES == MOVES - 1:
            self._join.close()
            self._join = self._restored(state)

    def _restored(self, state: InstanceState) -> JoinOperator:
        manifest = state.read(self._batch)
        assert manifest is not None
        return restore_operator(
            "rpj", self._schema, area=state, manifest=manifest["operator"], **self._resources()
        )

    def _take(self, found: Iterator[Matches]) -> None:
        for matches in found:
            batch = self._schema.materialise(matches)
            nulls = [batch.column(name).null_count for name in ("a", "b")]
            self._emitted["right"] += nulls[0]
            self._emitted["left"] += nulls[1]
            self._emitted["pairs"] += len(batch) - sum(nulls)
            self._emitted["sum"] += int(batch.column("k").to_numpy().sum())

    def _weigh(self) -> tuple[int, int, int]:
        """Bytes of the manifest, number of files, and all bytes in them."""
        sizes = [path.stat().st_size for path in self.directory.rglob("*") if path.is_file()]
        manifest = Path(str(self._place.instance(0))) / f"{self._batch - 1:08}.json"
        return manifest.stat().st_size, len(sizes), sum(sizes)

    def _look(self) -> None:
        manifest_bytes, files, state_bytes = map(max, zip(*self._sizes, strict=True))
        look = Look(
            batch=self._batch,
            milliseconds=1000 * median(self._seconds),
            processor_milliseconds=1000 * (time.process_time() - self._processor) / _TIMED,
            manifest_bytes=manifest_bytes,
            files=files,
            state_bytes=state_bytes,
            resident_bytes=resident_bytes(),
        )
        self.looks.append(look)
        print(f"  {look}", file=sys.stderr, flush=True)


def _rows(side: Side, keys: Any) -> pa.RecordBatch:
    return pa.record_batch([pa.array(keys), pa.array(keys)], schema=_SCHEMAS[side])


def run(places: Places, *, quick: bool) -> Section:
    passing = Passing(places.scratch / "promises")
    passing.run(LOOKS[:1] if quick else LOOKS)
    return Section(
        name="promises",
        title="Keys that come, are promised away and go",
        note=f"A full join, {KEYS} new keys a batch, which both sides promise away {LIVES} batches "
        f"later, saved after every batch and restored after every {MOVES:,}th; "
        f"{_MEMORY // 2**10} KB of memory, {passing.flushes:,} flushes. Times as above; sizes are "
        "the largest in the latest 500 batches, since runs and promises gather and are merged.",
        rows=[row_of(look) for look in passing.looks],
        claims=_claims(passing),
        measured=passing,
    )


def _claims(passing: Passing) -> list[Claim]:
    first, last = passing.looks[0], passing.looks[-1]
    span = f"from batch {first.batch:,} to {last.batch:,}"
    slower = last.processor_milliseconds / first.processor_milliseconds
    larger = last.manifest_bytes / first.manifest_bytes
    more = last.state_bytes / first.state_bytes
    right = not passing.broken()
    return [
        Claim(
            claim=f"Processor time of a batch with promises, {span}",
            target="grows by less than 1.25x, exact",
            measured=times(slower),
            holds=slower < 1.25 and right,
        ),
        Claim(
            claim=f"Manifest and bytes in files of a join with promises, {span}",
            target="grow by less than 1.25x",
            measured=f"{times(larger)} and {times(more)}",
            holds=larger < 1.25 and more < 1.25,
        ),
    ]
