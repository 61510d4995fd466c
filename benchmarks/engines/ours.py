"""watersmeet: the operator alone in one thread, or `wm.local.join` with its readers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import pyarrow as pa

import watersmeet as wm
from benchmarks.cases import MB, Case, Places
from benchmarks.engines import Start
from benchmarks.inputs import LEFT, RIGHT, batches, file_of, schema, tiny
from watersmeet.model import Side
from watersmeet.operators.family import make_operator
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea

# What the operator is given where the case has no cap: more than any of these inputs needs.
_ROOMY = 16 * 2**30
_MODEST = 32 * MB

Sources = Callable[[int], Any]
"""What `wm.local.join` is given for a side."""


def operator(case: Case, places: Places) -> Start:
    """One thread, batches in turn from both sides, matches turned into rows at once."""
    _warm_up(case, places)
    left = list(batches(case.input, LEFT))
    right = list(batches(case.input, RIGHT))
    return lambda: _drive(case, left, right, places=places)


def local(case: Case, places: Places) -> Start:
    """What a user calls: a thread per source, bounded buffers, the output in this thread."""
    _warm_up(case, places)
    sources = _sources(case, places)
    return lambda: _join(case, sources, places=places)


def _join(case: Case, sources: Sources, *, places: Places) -> Iterator[pa.RecordBatch]:
    with wm.local.join(
        sources(LEFT),
        sources(RIGHT),
        on="key",
        algorithm=case.algorithm,
        memory=_ROOMY if case.memory is None else case.memory,
        spill_dir=places.spill,
        **case.settings,
    ) as joined:
        yield from joined


def _drive(
    case: Case, left: Iterable[pa.RecordBatch], right: Iterable[pa.RecordBatch], *, places: Places
) -> Iterator[pa.RecordBatch]:
    join_schema = JoinSchema.resolve(
        schema(case.input, LEFT), schema(case.input, RIGHT), on="key", how="inner"
    )
    places.spill.mkdir(parents=True, exist_ok=True)
    area = SpillArea(places.spill)
    join = make_operator(
        case.algorithm,
        join_schema,
        memory=MemoryAccount(_ROOMY if case.memory is None else case.memory),
        spill=area,
    )
    try:
        for arriving in zip_longest(left, right):
            for side, batch in zip(Side, arriving, strict=True):
                if batch is not None:
                    for matches in join.push(side, batch):
                        yield join_schema.materialise(matches)
        for side in Side:
            for matches in join.end(side):
                yield join_schema.materialise(matches)
        for matches in join.finish():
            yield join_schema.materialise(matches)
    finally:
        join.close()
        area.close()


def _sources(case: Case, places: Places) -> Sources:
    if case.source == "memory":
        held = [list(batches(case.input, side)) for side in (LEFT, RIGHT)]
        return lambda side: iter(held[side])
    if case.source == "generated":
        return lambda side: batches(case.input, side)
    return lambda side: file_of(case, side, places)


def _warm_up(case: Case, places: Places) -> None:
    """A tiny join of the same kind, so that no measured run waits for a kernel to load."""
    small = tiny(case)
    places.spill.mkdir(parents=True, exist_ok=True)
    found = _join(replace(small, memory=_MODEST), _sources(small, places), places=places)
    if not sum(batch.num_rows for batch in found):
        raise RuntimeError("The warm-up found nothing, though its sides have keys in common.")
