"""Scan tasks: they read rows of a table and write them to the storage, divided among instances."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import pyarrow as pa

from watersmeet.model import Side
from watersmeet.rows.rebatched import rebatched
from watersmeet.spark.jobs import Record
from watersmeet.spark.scans.scan import PlainScan, Split
from watersmeet.spark.tables.histograms import noted
from watersmeet.spark.tables.plan import Plan


@dataclass(frozen=True)
class ScanTask:
    """Some splits of one input, which a task reads and writes to one file."""

    input: int
    wave: int
    splits: tuple[Split, ...]


def scan(task: ScanTask, plan: Plan, relations: dict[int, PlainScan]) -> Record:
    """Read some splits of a plain scan, and write their rows divided among instances."""
    relation = relations[task.input]
    rows = chain.from_iterable(
        relation.read(split, batch_rows=plan.block_rows) for split in task.splits
    )
    # Row groups may be small, and every section that is written costs a little.
    blocks = rebatched(rows, plan.block_rows // 2)
    stem = f"input{task.input}-{task.wave:03}"
    return plan.storage.write_sections(stem, routed(blocks, task.input, plan)).describe()


def stage(batches: Iterator[pa.RecordBatch], input: int, plan: Plan) -> Iterator[Record]:
    """Write the rows of one partition of any DataFrame, in several files, because waves consist of
    whole files."""
    stem = f"input{input}-staged"
    schema, placing = plan.schemas[input], plan.placing
    # Spark's batches have only some 10,000 rows.
    for block in rebatched((batch.cast(schema) for batch in batches), plan.block_rows):
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
