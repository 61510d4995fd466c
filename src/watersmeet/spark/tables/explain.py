"""A join on Spark in words: what it does, how its rows are read and why, how far it has come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from watersmeet.operators.many import ManyQuestion
from watersmeet.spark.scans.relation import PlainScan, Relation, StagedRows
from watersmeet.spark.tables.explain_cube import cube
from watersmeet.spark.tables.explain_ranges import ranges, sent
from watersmeet.spark.tables.metrics import RunMetrics
from watersmeet.spark.tables.plan import Plan
from watersmeet.spark.tables.progress import WaveProgress
from watersmeet.words import megabytes, paragraph


def explain(
    relations: Sequence[Relation],
    plan: Plan,
    *,
    partitions: Mapping[int, str],
    at_once: Mapping[int, str],
    key_order: str | None,
    are_closed: bool,
    is_small: bool,
    advice: list[str],
    progress: WaveProgress | None,
    metrics: RunMetrics,
) -> str:
    """`partitions` says of inputs that Spark computes some of at a time how it does so;
    `at_once`, why another that is no plain scan is not computed so; `are_closed`, that no rows of a
    wave have partners in another; `is_small`, that the driver has joined them."""
    facts = {"join": _question(plan), "algorithm": _algorithm(plan)}
    for input, (name, relation) in enumerate(zip(plan.names, relations, strict=True)):
        facts[name] = _way(relation, partitions.get(input), at_once.get(input))
    guessed = progress is None and plan.asked_instances is None
    if is_small:
        facts["instances"] = (
            f"1, in the driver's process, with {megabytes(plan.memory)}: starting tasks would take "
            "longer than to join tables as small as these"
        )
    elif plan.placing is not None and plan.division is None:
        facts["instances"] = (
            f"{_memory(plan)}; how many instances, and the ranges of values that they have, is "
            "decided when the run begins"
        )
    elif guessed and not all(isinstance(relation, PlainScan) for relation in relations):
        staged = any(isinstance(relation, StagedRows) for relation in relations)
        facts["instances"] = (
            f"{_memory(plan)}; how many instances is decided once the rows "
            f"{'of the row path' if staged else 'of text files'} have been counted"
        )
    else:
        facts["instances"] = _instances(plan, are_closed=are_closed)
    if plan.cube is not None and progress is not None and not is_small:
        facts["keys"] = cube(plan, progress.rows_total)
    if plan.division is not None:
        facts["ranges"] = ranges(plan, plan.division)
        facts["sent"] = sent(plan.division)
    facts["storage"] = plan.storage.uri
    if progress is not None:
        if progress.waves > 1:
            facts["order"] = _order(key_order, are_closed=are_closed)
        facts["progress"] = str(progress)
        found = [f"{rows:,} {stage}" for stage, rows in metrics.results.items() if rows]
        facts["results"] = ", ".join(found) or "none"
    lines = [paragraph(name, text) for name, text in facts.items()]
    return "\n".join(lines + [paragraph("advice", text) for text in advice])


def _question(plan: Plan) -> str:
    many = isinstance(plan.question, ManyQuestion)
    keys = str(plan.question.on) if many else ", ".join(plan.join.in_words())
    extra = " and a condition" if plan.question.condition is not None else ""
    return f"{plan.question.how} on {keys}{extra}"


def _algorithm(plan: Plan) -> str:
    name = plan.question.algorithm
    return f"{name} (chosen for you)" if plan.question.auto else name


def _way(relation: Relation, partitions: str | None, at_once: str | None) -> str:
    if isinstance(relation, PlainScan):
        return f"file path: {relation.describe()}"
    if not isinstance(relation, StagedRows):
        how = "" if at_once is None else f"; read once before the first wave: {at_once}"
        how = how if partitions is None else f"; {partitions}"
        return f"file path: {relation.describe()}{how}"
    because = f"because {relation.because()}"
    if partitions is not None:
        return f"row path, {partitions}, {because}"
    once = "" if at_once is None else f", staged once before the first wave: {at_once};"
    return f"row path{once or ','} {because}"


def _memory(plan: Plan) -> str:
    return f"{megabytes(plan.memory)} for each of {plan.slots.tasks_a_machine} tasks a machine"


def _order(key: str | None, *, are_closed: bool) -> str:
    if key is None:
        return "random"
    text = f"by {key}, on which both tables are clustered: a wave reads stretches of values"
    return f"{text} that no other wave has" if are_closed else text


def _instances(plan: Plan, *, are_closed: bool) -> str:
    each = _memory(plan)
    if are_closed:
        return f"{plan.instances}, {each}; they begin and end with a wave"
    if plan.keeps_operators:
        return f"{plan.instances}, {each}; operators stay in memory between waves"
    return f"{plan.instances}, {each}; built again in every wave, as not all fit side by side"
