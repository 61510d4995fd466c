"""An aggregate in words: what is asked, how its tables are read and why, how long it will take."""

from __future__ import annotations

from watersmeet.aggregates.answer.estimate import Estimate
from watersmeet.aggregates.answer.outlook import Outlook
from watersmeet.aggregates.ask.question import ResolvedQuestion
from watersmeet.aggregates.sampling.looks import Looks
from watersmeet.aggregates.sampling.plan import ReadPlan, Table
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
    facts["looks"] = plan.design.looks_in_words(looks)
    if crowded:
        facts["looks"] = f"no more before the exact answer. {crowded}"
    facts["memory"] = plan.design.memory_in_words(tables, plan)
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
    return f"{size}, {plan.design.role_of_other()}"


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
