"""What tests of joins in several threads share."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

from tests.local.inputs import batches, sides


def arriving(table: pa.Table, sizes: list[int]) -> pa.RecordBatchReader:
    """The table in batches of these sizes, again and again."""
    return pa.RecordBatchReader.from_batches(table.schema, _parts(table, sizes))


def _parts(table: pa.Table, sizes: list[int]) -> Iterator[pa.RecordBatch]:
    start, turn = 0, 0
    while start < table.num_rows:
        size = sizes[turn % len(sizes)]
        yield from table.slice(start, size).to_batches() or [batches(table)[0].slice(0, 0)]
        start, turn = start + size, turn + 1


def instance_threads() -> list[threading.Thread]:
    found = threading.enumerate()
    return [each for each in found if each.name.startswith("watersmeet-instance")]


def check_nothing_is_left(spill_dir: Path) -> None:
    assert not instance_threads()
    assert not list(spill_dir.iterdir())


def fails_at_seven(batch: pa.RecordBatch) -> pa.Array:
    """A condition that raises an error in the instance that has the key 7."""
    if pc.any(pc.equal(batch["k"], 7)).as_py():
        raise ZeroDivisionError("seven")
    return pa.array([True] * batch.num_rows)


@dataclass(frozen=True)
class Schedule:
    """Two small inputs, how they arrive, and how they are joined."""

    rows: tuple[int, int]
    keys: int
    sizes: list[int]
    how: str
    algorithm: str
    threads: int
    patience: float
    """Seconds; without any, every moment without news is a stall."""
    seed: int

    def tables(self) -> list[pa.Table]:
        whole = sides(300, keys=self.keys, seed=self.seed)
        return [side.slice(0, n) for side, n in zip(whole, self.rows, strict=True)]


AnySchedule = TypeVar("AnySchedule", bound=Schedule)


def schedules(kind: type[AnySchedule], **more: Any) -> st.SearchStrategy[AnySchedule]:
    """All of a kind; `more` are the rows, types, algorithms and threads that it can have."""
    return st.builds(
        kind,
        keys=st.sampled_from([1, 2, 40]),
        sizes=st.lists(st.integers(1, 90), min_size=1, max_size=3),
        patience=st.sampled_from([0.0, 0.025]),
        seed=st.integers(0, 3),
        **more,
    )
