"""Sides that Spark has to compute: their rows, once, into the storage, and counted.

How large such a side is, nobody knows before. It is divided among as many instances as a guess asks
for, and once it has been counted, among as many as it needs: fewer by taking some for one, more by
dividing its files again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from watersmeet.model import Side
from watersmeet.rows.rebatched import rebatched
from watersmeet.spark.jobs import Record, run_over, run_tasks
from watersmeet.spark.scans.relation import PlainScan, StagedRows
from watersmeet.spark.tables.plan import Plan, Sizes
from watersmeet.spark.tables.scanning import routed, stage
from watersmeet.store.exchange import Sections

Relation = PlainScan | StagedRows
Staged = Mapping[Side, Sequence[Sections]]


def staged(relations: tuple[Relation, Relation], plan: Plan) -> dict[Side, list[Sections]]:
    """The files of each side that is no plain scan."""
    found = {}
    for side in Side:
        relation = relations[side]
        if isinstance(relation, StagedRows):
            records = run_over(
                relation.dataframe,
                lambda batches, side=side: stage(batches, side, plan),  # type: ignore[misc]
                query=plan.query,
                what=f"staging the {side.name.lower()} side",
            )
            files = map(Sections.from_description, records)
            found[side] = sorted(files, key=lambda file: file.name)
    return found


def sizes_of(relations: tuple[Relation, Relation], files: Staged) -> Sizes:
    """All rows of the files that are staged, and at most so many of those that are read later."""
    rows, nbytes = [], []
    for side in Side:
        relation = relations[side]
        if isinstance(relation, PlainScan):
            rows.append(relation.rows)
            nbytes.append(0)
        else:
            rows.append(sum(file.rows for file in files[side]))
            nbytes.append(sum(file.nbytes for file in files[side]))
    return Sizes((rows[0], rows[1]), (nbytes[0], nbytes[1]))


def divided(
    spark: SparkSession, files: Staged, sizes: Sizes, *, plan: Plan
) -> tuple[Plan, dict[Side, list[Sections]]]:
    """The plan for tables of these sizes, and the files of `plan` as it wants them."""
    fitted = plan.fitted(sizes)
    if fitted.instances > plan.instances and fitted.keeps_operators:
        # They fit as they are, and would at best be joined a little faster.
        fitted = replace(fitted, instances=plan.instances)
    if fitted.instances <= plan.instances:
        taken = {side: [_merged(file, fitted.instances) for file in files[side]] for side in files}
        return fitted, taken
    return fitted, {side: _again(spark, side, files[side], plan=fitted) for side in files}


def _merged(file: Sections, instances: int) -> Sections:
    """Divided among fewer: `hash mod 16 mod 4` is `hash mod 4`."""
    sections = (
        section._replace(instance=section.instance % instances) for section in file.sections
    )
    return Sections(file.name, tuple(sections))


def _again(
    spark: SparkSession, side: Side, files: Sequence[Sections], *, plan: Plan
) -> list[Sections]:
    def divide(file: Sections) -> Record:
        rows = plan.storage.read_sections([file], plan.schemas[side])
        blocks = rebatched(rows, plan.block_rows)
        stem = f"{side.name.lower()}-divided"
        return plan.storage.write_sections(stem, routed(blocks, side, plan)).describe()

    records = run_tasks(
        spark,
        files,
        divide,
        at_once=plan.slots.tasks,
        query=plan.query,
        what=f"dividing the {side.name.lower()} side among {plan.instances} instances",
    )
    for file in files:
        plan.storage.delete(file.name)
    return [Sections.from_description(record) for record in records]
