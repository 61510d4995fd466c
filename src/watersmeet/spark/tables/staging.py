"""Has a side that is no plain scan computed, and writes its rows to the storage once.

How large such a side is, is not known before. First its rows are divided among as many instances as
a guess says. When they have been counted, they are divided among as many as they need: among fewer
by counting several instances as one, among more by dividing the files again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from watersmeet.model import Side
from watersmeet.rows.rebatched import rebatched
from watersmeet.spark.jobs import Record, run_tasks
from watersmeet.spark.scans.relation import PlainScan, Relation
from watersmeet.spark.tables.histograms import Histogram
from watersmeet.spark.tables.plan import Plan, Sizes
from watersmeet.spark.tables.scanning import routed, stage
from watersmeet.spark.text_partitions import Place, run_over_all
from watersmeet.store.exchange import Sections

Staged = Mapping[int, Sequence[Sections]]


def staged(
    spark: SparkSession, relations: Sequence[Relation], plan: Plan, *, inputs: Collection[int]
) -> tuple[dict[int, list[Sections]], dict[Side, Histogram]]:
    """The files of each of `inputs` that is no plain scan; and, if rows are divided by their
    values, about where those are."""
    found: dict[int, list[Sections]] = {}
    seen: dict[Side, Histogram] = {}
    for input in plan.inputs:
        relation = relations[input]
        if not isinstance(relation, PlainScan) and input in inputs:
            records = run_over_all(
                relation,
                lambda batches, input=input: stage(batches, input, plan),  # type: ignore[misc]
                place_of(spark, plan),
                what=f"staging the {plan.names[input]} side",
            )
            files = sorted(map(Sections.from_description, records), key=lambda file: file.name)
            found[input] = [replace(file, divided=_once(file, input, plan).rows) for file in files]
            if plan.placing is not None:
                seen[Side(input)] = Histogram.of(records, source="a look at every staged block")
    return found, seen


def place_of(spark: SparkSession, plan: Plan) -> Place:
    return Place(spark, plan.query, plan.slots.tasks, lambda: plan.storage, plan.storage)


def divided(spark: SparkSession, files: Staged, sizes: Sizes, *, plan: Plan) -> tuple[Plan, Staged]:
    """The plan for tables of these sizes, and the files divided among its instances."""
    if plan.placing is not None:  # Its instances have been chosen, and no rows divided yet.
        if plan.instances == 1:
            return plan, dict(files)
        return plan, {input: _again(spark, input, files[input], plan=plan) for input in files}
    fitted = plan.fitted(sizes)
    if plan.cube is not None:
        if fitted.cube == plan.cube:
            return fitted, dict(files)
        return fitted, {
            input: _again(
                spark, input, [_once(file, input, plan) for file in files[input]], plan=fitted
            )
            for input in files
        }
    if fitted.instances > plan.instances and fitted.keeps_operators:
        # The rows fit as they are divided; with more instances the join would be little faster.
        fitted = replace(fitted, instances=plan.instances)
    return fitted, {
        input: divided_among(spark, input, files[input], before=plan, plan=fitted)
        for input in files
    }


def _once(file: Sections, input: int, plan: Plan) -> Sections:
    """The sections that have each row once. Those of joins of many tables have copies."""
    return file if plan.cube is None else file.only(plan.cube.firsts(input, plan.dimensions))


def divided_among(
    spark: SparkSession, input: int, files: Sequence[Sections], *, before: Plan, plan: Plan
) -> list[Sections]:
    """Files that were divided among the instances of one plan, for those of another."""
    if plan.instances <= before.instances:
        return [_merged(file, plan.instances) for file in files]
    return _again(spark, input, files, plan=plan)


def _merged(file: Sections, instances: int) -> Sections:
    """The file divided among fewer instances: `hash mod 16 mod 4` is `hash mod 4`."""
    sections = (
        section._replace(instance=section.instance % instances) for section in file.sections
    )
    return Sections(file.name, tuple(sections))


def _again(
    spark: SparkSession, input: int, files: Sequence[Sections], *, plan: Plan
) -> list[Sections]:
    def divide(file: Sections) -> Record:
        rows = plan.storage.read_sections([file], plan.schemas[input])
        blocks = rebatched(rows, plan.block_rows, plan.block_bytes)
        stem = f"input{input}-divided"
        return plan.storage.write_sections(stem, routed(blocks, input, plan)).describe()

    records = run_tasks(
        spark,
        files,
        divide,
        at_once=plan.slots.tasks,
        query=plan.query,
        what=f"dividing the {plan.names[input]} side among {plan.instances} instances",
    )
    for file in files:
        plan.storage.delete(file.name)
    found = [Sections.from_description(record) for record in records]
    return [replace(new, divided=old.rows) for new, old in zip(found, files, strict=True)]
