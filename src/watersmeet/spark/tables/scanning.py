"""Scan tasks: they read rows of a table and write them to the storage, divided among instances."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from watersmeet.errors import FunctionFailed
from watersmeet.model import Side
from watersmeet.rows.rebatched import rebatched
from watersmeet.spark.jobs import Record
from watersmeet.spark.scans.paced import read_paced
from watersmeet.spark.scans.scan import PlainScan, Split
from watersmeet.spark.tables.histograms import noted
from watersmeet.spark.tables.plan import Plan
from watersmeet.spark.tables.stretches import Stretches
from watersmeet.store.exchange import SectionsFile

# Rows that are put aside wait in memory until they are this part of a block: there may be some of
# three waves, beside the block that is being divided.
_WAITING_BLOCKS = 8


@dataclass(frozen=True)
class ScanTask:
    """Some splits of one input, which a task reads and writes to one file."""

    input: int
    wave: int
    splits: tuple[Split, ...]
    stretches: Stretches | None = None
    """Which wave rows are joined in, if that depends on their keys."""


def scan(task: ScanTask, plan: Plan, relations: dict[int, PlainScan]) -> Record:
    """Read some splits of a plain scan, and write their rows divided among instances; those that
    later waves join, to files of their own."""
    relation = relations[task.input]
    rows = chain.from_iterable(read_split(relation, split, plan) for split in task.splits)
    stem = f"input{task.input}-{task.wave + 1:03}"
    with _of_input(plan.names[task.input]), ExitStack() as files:
        put_aside = PutAside(task, plan, files)
        mine = rows if task.stretches is None else put_aside.others(rows, task.stretches)
        # Row groups may be small, and every section that is written costs a little.
        blocks = rebatched(mine, plan.block_rows // 2, plan.block_bytes // 2)
        written = plan.storage.write_sections(stem, routed(blocks, task.input, plan))
        put_aside.write_all()
    return written.describe() | {"later": put_aside.described()}


def read_split(relation: PlainScan, split: Split, plan: Plan) -> Iterator[pa.RecordBatch]:
    """Rows of a split, in batches that a task has memory for."""
    return read_paced(relation, split, batch_bytes=plan.block_bytes, most_rows=plan.block_rows)


@contextmanager
def _of_input(name: str) -> Iterator[None]:
    """A function that fails is said to be this input's."""
    try:
        yield
    except FunctionFailed as error:
        raise FunctionFailed(
            f"Rows of the {name} side: {error.cause}", remedy=error.remedy
        ) from error


class PutAside:
    """Rows of a scan task that later waves join, and the files to which they go."""

    def __init__(self, task: ScanTask, plan: Plan, files: ExitStack) -> None:
        self._task = task
        self._plan = plan
        self._stack = files
        self._waiting: dict[int, list[pa.RecordBatch]] = defaultdict(list)
        self._files: dict[int, SectionsFile] = {}

    def others(
        self, batches: Iterator[pa.RecordBatch], stretches: Stretches
    ) -> Iterator[pa.RecordBatch]:
        """The rows of the task's wave, after the others of their batch have been put aside."""
        side, wave = Side(self._task.input), self._task.wave
        for batch in batches:
            for each, rows in stretches.divided(side, batch, wave):
                if each == wave:
                    yield rows
                else:
                    self._put(each, rows)

    def _put(self, wave: int, rows: pa.RecordBatch) -> None:
        waiting = self._waiting[wave]
        waiting.append(rows)
        count, nbytes = sum(map(len, waiting)), sum(each.nbytes for each in waiting)
        plan = self._plan
        if max(count / plan.block_rows, nbytes / plan.block_bytes) >= 1 / _WAITING_BLOCKS:
            self._write(wave)

    def write_all(self) -> None:
        for wave in sorted(self._waiting):
            self._write(wave)

    def _write(self, wave: int) -> None:
        batches = self._waiting.pop(wave)
        if wave not in self._files:
            stem = f"input{self._task.input}-{wave + 1:03}"
            self._files[wave] = self._stack.enter_context(self._plan.storage.sections_file(stem))
        together = rebatched(iter(batches), self._plan.block_rows, self._plan.block_bytes)
        for instance, rows in routed(together, self._task.input, self._plan):
            self._files[wave].append(instance, rows)

    def described(self) -> list[tuple[int, Record]]:
        return [(wave, file.written.describe()) for wave, file in self._files.items()]


def stage(batches: Iterator[pa.RecordBatch], input: int, plan: Plan) -> Iterator[Record]:
    """Write the rows of one partition of any DataFrame, in several files, because waves consist of
    whole files."""
    stem = f"input{input}-staged"
    schema, placing = plan.schemas[input], plan.placing
    # Spark's batches have only some 10,000 rows.
    cast = (batch.cast(schema) for batch in batches)
    for block in rebatched(cast, plan.block_rows, plan.block_bytes):
        written = plan.storage.write_sections(stem, routed(iter([block]), input, plan)).describe()
        yield written if placing is None else written | noted(Side(input), block, placing)


def routed(
    batches: Iterator[pa.RecordBatch], input: int, plan: Plan
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each batch that are for one instance, with its number."""
    for batch in batches:
        order, offsets = plan.router.group(input, batch)
        # Copies of rows for all instances at once could be many times as large as the batch.
        grouped = batch.take(pa.array(order)) if len(order) <= len(batch) else None
        for instance in range(plan.router.instances):
            start, stop = int(offsets[instance]), int(offsets[instance + 1])
            if stop == start:
                continue
            if grouped is None:
                yield instance, batch.take(pa.array(order[start:stop]))
            else:
                yield instance, grouped.slice(start, stop - start)
