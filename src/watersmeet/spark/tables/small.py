"""Joins of tables so small that starting tasks would take longer than to join them.

The driver reads or collects their rows and joins them in its own process, with one operator. What
it finds is a file of results like those that tasks write. A join of 1,000 rows a side took 0.35 s
with tasks, most of it in the three jobs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, zip_longest
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from watersmeet.operators.base import JoinOperator
from watersmeet.rows.address import Matches
from watersmeet.rows.rebatched import rebatched
from watersmeet.spark.computing import computing
from watersmeet.spark.jobs import Record, named, side_by_side
from watersmeet.spark.scans.relation import PlainScan, Relation, Split, StagedRows
from watersmeet.spark.tables.instances import Check, Instance, JoinTask, record_of
from watersmeet.spark.tables.plan import Plan, Sizes, bytes_of, is_fixed
from watersmeet.spark.tables.results import ResultWriter
from watersmeet.spark.tables.scanning import read_split, routed
from watersmeet.spark.tables.staging import Staged
from watersmeet.store.exchange import Sections

# Of all tables together. One process joins so much in about a tenth of a second.
SMALL_BYTES = 8 * 2**20
# A larger result is found, and written, by tasks side by side.
_RESULT_BYTES = 32 * 2**20
# To open a file and read a row group takes a millisecond, which tasks share.
_ROW_GROUPS = 64

Collected = Mapping[int, Sequence[pa.RecordBatch]]


@dataclass(frozen=True)
class Small:
    """What the driver has found: rows read of each table, and the record of its one instance."""

    rows: tuple[int, ...]
    record: Record


def most_bytes(plan: Plan) -> int:
    """The most bytes of all tables together that are joined here: so few that nothing spills."""
    return min(SMALL_BYTES, plan.memory // 4)


def may_be_small(relations: Sequence[Relation], plan: Plan, *, most: int) -> bool:
    """Whether these tables are small, as far as it is known what they have. Who asks for instances
    gets them."""
    if plan.asked_instances is not None:
        return False
    plain = [relation for relation in relations if isinstance(relation, PlainScan)]
    rows = [relation.rows for relation in plain]
    sizes = Sizes(tuple(rows), tuple(relation.nbytes for relation in plain))
    if sum(len(relation.row_groups) for relation in plain) > _ROW_GROUPS:
        return False
    return bytes_of([relation.schema for relation in plain], sizes) <= most


def seem_small(expected: Sequence[int | None], plan: Plan, *, most: int) -> bool:
    """Whether tables are expected to have no more bytes; nothing is said of one that is unknown."""
    known = [rows for rows in expected if rows is not None]
    return len(known) == len(expected) and bytes_of(plan.schemas, Sizes.guessed(known)) <= most


def most_rows(dataframe: DataFrame) -> int | None:
    """The most rows that a DataFrame can have, if Spark knows before it computes them: it does if
    they come from the program or from a range, and nothing makes more of them."""
    found = dataframe._jdf.queryExecution().optimizedPlan().maxRows()
    return int(found.get()) if found.isDefined() else None


def collected(
    relations: Sequence[Relation], plan: Plan, *, most: int
) -> dict[int, list[pa.RecordBatch]]:
    """The rows of those tables that cannot have more bytes than that. Only of those whose columns
    have a fixed width, since one text may be as large as a table."""
    bounded = {
        input: relation.dataframe
        for input, relation in enumerate(relations)
        if isinstance(relation, StagedRows) and _is_bounded(relation, plan.schemas[input], most)
    }
    if not bounded:
        return {}

    def collect(input: int) -> list[pa.RecordBatch]:
        schema = plan.schemas[input]
        what = f"staging the {plan.names[input]} side"
        with computing(what), named(bounded[input].sparkSession, query=plan.query, what=what):
            frame: Any = bounded[input]
            batches: list[pa.RecordBatch] = frame._collect_as_arrow()
        return [batch.rename_columns(schema.names).cast(schema) for batch in batches]

    session = next(iter(bounded.values())).sparkSession
    found = side_by_side(session, [partial(collect, input) for input in bounded])
    return dict(zip(bounded, found, strict=True))


def _is_bounded(relation: StagedRows, schema: pa.Schema, most: int) -> bool:
    if not all(map(is_fixed, schema.types)):
        return False
    rows = most_rows(relation.dataframe)
    return rows is not None and bytes_of([schema], Sizes((rows,), (0,))) <= most


def stored(batches: Collected, plan: Plan) -> dict[int, list[Sections]]:
    """Collected rows in the storage, for tasks."""
    return {
        input: [
            plan.storage.write_sections(f"input{input}-staged", routed(iter(rows), input, plan))
        ]
        for input, rows in batches.items()
    }


def join_small(
    relations: Sequence[Relation],
    plan: Plan,
    *,
    batches: Collected,
    files: Staged,
    check: Check,
) -> Small | None:
    """Join all rows in this process; None if the result is large. `batches` and `files` are the
    rows of the tables that are no plain scans."""
    plan = as_one(plan)
    read = [0 for _ in plan.inputs]

    def rows_of(input: int) -> Iterator[pa.RecordBatch]:
        relation = relations[input]
        if isinstance(relation, PlainScan):
            # Rows are counted before filters, as in other runs.
            read[input] = relation.rows
            for group in relation.row_groups:
                split = Split(group.file, group.number, 0, group.rows)
                yield from read_split(relation, split, plan)
        else:
            rows = (
                iter(batches[input])
                if input in batches
                else plan.storage.read_sections(files[input], plan.schemas[input])
            )
            for batch in rows:
                read[input] += len(batch)
                yield batch

    inputs = [
        rebatched(rows_of(input), plan.pushed_rows, plan.pushed_bytes) for input in plan.inputs
    ]
    instance = Instance(plan, check)
    task = JoinTask(0, (), last=True)
    try:
        before = instance.operator.metrics.as_dict()
        with ResultWriter(plan, "result-001-0000") as writer:
            for matches in _found(instance.operator, plan, inputs, check):
                check()
                if len(matches):
                    writer.append(instance.schema.materialise(matches))
                if writer.nbytes > _RESULT_BYTES:
                    return None
        record = record_of(task, instance, before) | {"files": writer.files, "kept": False}
    finally:
        instance.close()
    return Small(tuple(read), record)


def as_one(plan: Plan) -> Plan:
    """The plan with one instance, for all rows."""
    return replace(plan, instances=1, keeps_operators=True, division=None, cube=None)


def _found(
    operator: JoinOperator,
    plan: Plan,
    inputs: Sequence[Iterator[pa.RecordBatch]],
    check: Check,
) -> Iterator[Matches]:
    for blocks in zip_longest(*inputs):
        for input, block in zip(plan.inputs, blocks, strict=True):
            if block is not None:
                check()
                yield from operator.push(input, block)
    yield from chain.from_iterable(operator.end(input) for input in plan.inputs)
    yield from operator.finish()
