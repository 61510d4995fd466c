"""A run in words: what it does, with how much memory, and what it has just decided and why."""

from __future__ import annotations

from watersmeet.local.driver import Driver
from watersmeet.model import Side
from watersmeet.operators.family import find_algorithm
from watersmeet.rows.address import Stage

_DECISIONS = 5

_IN_WORDS = {
    "shj": "the symmetric hash join: both inputs stay in memory and must fit",
    "xjoin": "XJoin: spills the largest partition, joins memory with disk in stalls",
    "hmj": "the hash-merge join: spills partitions of both sides together, merges them in stalls",
    "pmj": "the progressive merge join: spills all of a full memory, merges at the end",
    "rpj": "the rate-based progressive join: spills what arriving rows are least likely to meet, "
    "and does in stalls what promises most results per second",
}

_STAGES = {
    Stage.MM: "as rows arrived",
    Stage.MD: "in stalls, memory with disk",
    Stage.DD: "in stalls, disk with disk",
    Stage.CLEANUP: "after the inputs had ended",
    Stage.UNMATCHED: "rows without a partner",
}


def explain(driver: Driver) -> str:
    question, plan, metrics = driver.question, driver.plan, driver.metrics
    left, right = (source.name for source in driver.sources)
    lines = [
        f"join       {question.how}, {left} and {right}, on {question.on}",
        f"algorithm  {_algorithm(driver)}",
        f"memory     {megabytes(driver.memory.limit)}: {megabytes(plan.store)} for rows and their "
        f"index, {megabytes(plan.input)} for input that waits, {megabytes(plan.work)} for work; "
        f"now {megabytes(driver.memory.used)}, at most {megabytes(driver.memory.peak)} so far",
        f"spills     {_spills(driver)}",
        f"stalls     {_stalls(driver)}",
        f"read       {driver.rows_read[Side.LEFT]:,} left and {driver.rows_read[Side.RIGHT]:,} "
        f"right rows",
        f"results    {metrics.rows_out:,} rows{_by_stage(driver)}",
    ]
    latest = list(metrics.flushes)[-_DECISIONS:]
    if latest:
        lines.append(f"flushes    {metrics.flush_count:,}, the latest of them:")
        lines += [f"           {record}" for record in latest]
    return "\n".join(lines)


def megabytes(nbytes: int) -> str:
    """
    >>> megabytes(1_572_864)
    '1.5 MB'
    """
    return f"{nbytes / 2**20:,.1f} MB"


def _algorithm(driver: Driver) -> str:
    name = driver.question.algorithm
    family = name.partition("-")[0]
    chosen = "auto, which is " if driver.question.auto else ""
    return f"{chosen}{name}, {_IN_WORDS[family]}"


def _spills(driver: Driver) -> str:
    if find_algorithm(driver.question.algorithm).flush is None:
        return "nothing: this algorithm keeps everything in memory"
    metrics = driver.metrics
    if not metrics.flush_count:
        return f"nothing so far; else to {driver.claim.area.path}"
    return (
        f"{metrics.rows_spilled:,} rows, {megabytes(metrics.bytes_spilled)} so far, "
        f"to {driver.claim.area.path}"
    )


def _stalls(driver: Driver) -> str:
    if find_algorithm(driver.question.algorithm).react is None:
        return "this algorithm waits"
    metrics = driver.metrics
    return (
        f"after {driver.wait_threshold * 1000:g} ms of silence on every open input, spilled rows "
        f"are joined until something arrives; so far {driver.stalls:,} stalls, "
        f"{metrics.md_tasks:,} md-tasks (memory with disk), {metrics.dd_tasks:,} dd-tasks "
        f"(disk with disk)"
    )


def _by_stage(driver: Driver) -> str:
    found = {stage: rows for stage, rows in driver.metrics.results.items() if rows}
    if not found:
        return ""
    return ": " + "; ".join(f"{rows:,} {_STAGES[stage]}" for stage, rows in found.items())
