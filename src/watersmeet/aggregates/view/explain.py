"""An aggregate in words: what is asked, how its tables are read and why, how long it will take."""

from __future__ import annotations

from watersmeet.aggregates.answer.estimate import Estimate
from watersmeet.aggregates.answer.outlook import Outlook
from watersmeet.aggregates.ask.question import ResolvedQuestion
from watersmeet.aggregates.sampling.looks import Looks
from watersmeet.aggregates.sampling.planner import Design, ReadPlan, Table
from watersmeet.model import Side
from watersmeet.words import count_text, paragraph, seconds_text, size_text


def explain(
    question: ResolvedQuestion,
    tables: tuple[Table, Table],
    plan: ReadPlan,
    *,
    looks: Looks,
    ways: tuple[str, str],
    latest: Estimate | None,
    outlook: Outlook | None,
    crowded: str = "",
) -> str:
    facts = {"aggregate": question.words}
    for side in Side:
        facts[side.name.lower()] = f"{_role(plan, side, tables[side])}; {ways[side]}"
    facts["design"] = f"{plan.design}, because {plan.reason}"
    if plan.objection:
        facts["doubt"] = f"no interval is to be trusted before the end: {plan.objection}"
    facts["rows"] = (
        "pairs of rows are looked at one by one: an expression or where= mixes both sides"
        if question.needs_pairs
        else "sums for each key meet, no row of the join is made"
    )
    if plan.division is not None:
        facts["sample"] = _sample(plan, tables[plan.sampled])
    facts["looks"] = _looks(plan, looks)
    if crowded:
        facts["looks"] = f"no more before the exact answer. {crowded}"
    facts["memory"] = _memory(tables, plan)
    if latest is not None:
        size = f"{size_text(latest.progress.bytes_read)} of {size_text(latest.progress.nbytes)}"
        part = size if latest.progress.counted else f"{latest.fraction:.1%} of all partitions"
        facts["read"] = f"{part} in {seconds_text(latest.seconds)}, look {latest.progress.look}"
    facts["forecast"] = "comes with the first estimate" if outlook is None else str(outlook)
    return "\n".join(paragraph(name, text) for name, text in facts.items())


def _role(plan: ReadPlan, side: Side, table: Table) -> str:
    size = f"{len(table.blocks):,} blocks, {table.rows:,} rows, {size_text(table.nbytes)}"
    if not table.counted:
        size = f"{len(table.blocks):,} partitions whose rows nobody has counted"
    if plan.orders[side]:
        return f"sampled, {size} in random order"
    return f"{size}, " + (
        "those with the same keys" if plan.design is Design.RANGES else "read first"
    )


def _sample(plan: ReadPlan, table: Table) -> str:
    """What is left to chance, and what is not."""
    division = plan.division
    assert division is not None
    certain = ""
    if division.certain:
        rows = sum(
            block.rows
            for block, stratum in zip(table.blocks, division.strata, strict=True)
            if stratum < 0
        )
        certain = (
            f"{count_text(division.certain, 'block')} ({rows:,} rows) read in any case, for size "
            "or for what the files say of the content; "
        )
    others = "the others" if certain else "blocks"
    if not table.facts:
        return certain + "nothing is known of the blocks before they are read"
    if division.count > 1:
        return f"{certain}{others} drawn from {division.count} strata of blocks alike"
    return f"{certain}{others} drawn alike"


def _looks(plan: ReadPlan, looks: Looks) -> str:
    *before, blocks = looks.stops
    if plan.design is Design.RIPPLE:
        return "the side that helps most is read twice as far each time, until both are complete"
    if not before:
        return f"one, after all {blocks:,} blocks: there are too few for an interval"
    return f"after {', '.join(f'{stop:,}' for stop in before)} and all {blocks:,} blocks"


def _memory(tables: tuple[Table, Table], plan: ReadPlan) -> str:
    if plan.design is Design.COMPLETE:
        other = tables[plan.other]
        held = f"about {size_text(other.held)}" if other.counted else "as much as it takes"
        return f"{held} for the {plan.other.name.lower()} side"
    if plan.design is Design.RIPPLE:
        return "rows are partitioned by key on disk, and one partition is held at a time"
    largest = size_text(largest_need(tables, plan))
    return f"about {largest} for the other side's rows of one block"


def largest_need(tables: tuple[Table, Table], plan: ReadPlan) -> int:
    """Bytes of the other side that one block needs, if it is read by ranges; else none."""
    return max((_entries(tables[plan.other], needed) for needed in plan.needs or ()), default=0)


def _entries(table: Table, blocks: tuple[int, ...]) -> int:
    return sum(table.blocks[block].rows for block in blocks) * table.key_sum_bytes
