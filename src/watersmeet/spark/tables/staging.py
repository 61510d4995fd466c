"""Lets Spark compute a side that is no plain scan, and writes its rows to the storage once.

How large such a side is, is not known before. First its rows are divided among as many instances as
a guess says. When they have been counted, they are divided among as many as they need: among fewer
by counting several instances as one, among more by dividing the files again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from watersmeet.model import Side
from watersmeet.rows.rebatched import rebatched
from watersmeet.spark.jobs import Record, run_over, run_tasks
from watersmeet.spark.scans.relation import PlainScan, StagedRows
from watersmeet.spark.tables.histograms import Histogram
from watersmeet.spark.tables.plan import Plan, Sizes
from watersmeet.spark.tables.scanning import routed, stage
from watersmeet.store.exchange import Sections

Relation = PlainScan | StagedRows
Staged = Mapping[Side, Sequence[Sections]]


def staged(
    relations: tuple[Relation, Relation], plan: Plan
) -> tuple[dict[Side, list[Sections]], dict[Side, Histogram]]:
    """The files of each side that is no plain scan; and, if rows are divided by their values, about
    where those are."""
    found: dict[Side, list[Sections]] = {}
    seen: dict[Side, Histogram] = {}
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
            if plan.band is not None:
                seen[side] = Histogram.of(records, source="a look at every staged block")
    return found, seen


def sizes_of(relations: tuple[Relation, Relation], files: Staged) -> Sizes:
    """The sizes of both sides: exact for staged files; for plain scans, rows before filters."""
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


def divided(spark: SparkSession, files: Staged, sizes: Sizes, *, plan: Plan) -> tuple[Plan, Staged]:
    """The plan for tables of these sizes, and the files divided among its instances."""
    if plan.band is not None:  # Its instances have been chosen, and no rows divided yet.
        if plan.instances == 1:
            return plan, dict(files)
        return plan, {side: _again(spark, side, files[side], plan=plan) for side in files}
    fitted = plan.fitted(sizes)
    if fitted.instances > plan.instances and fitted.keeps_operators:
        # The rows fit as they are divided; with more instances the join would be little faster.
        fitted = replace(fitted, instances=plan.instances)
    if fitted.instances <= plan.instances:
        taken = {side: [_merged(file, fitted.instances) for file in files[side]] for side in files}
        return fitted, taken
    return fitted, {side: _again(spark, side, files[side], plan=fitted) for side in files}


def _merged(file: Sections, instances: int) -> Sections:
    """The file divided among fewer instances: `hash mod 16 mod 4` is `hash mod 4`."""
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
    found = [Sections.from_description(record) for record in records]
    return [replace(new, divided=old.rows) for new, old in zip(found, files, strict=True)]
