"""A local join in words: what it does, with how much memory, its latest decisions and why."""

from __future__ import annotations

from watersmeet.local.driver import Driver
from watersmeet.operators.family import find_algorithm
from watersmeet.rows.address import Stage
from watersmeet.words import megabytes, paragraph

_DECISIONS = 5

_IN_WORDS = {
    "shj": "the symmetric hash join: both inputs stay in memory and must fit",
    "xjoin": "XJoin: spills the largest partition, joins memory with disk in stalls",
    "hmj": "the hash-merge join: spills partitions of both sides together, merges them in stalls",
    "pmj": "the progressive merge join: spills all of a full memory, merges at the end",
    "rpj": "the rate-based progressive join: spills what arriving rows are least likely to meet, "
    "and does in stalls what promises most results per second",
    "pr-join": "the partitioned expanding ripple join: spills by partition, and joins all of a "
    "partition whenever it has grown enough",
    "ripple": "the block ripple join: every full memory is joined with all that was spilled",
    "hash-ripple": "the hash ripple join: left rows meet the right rows that came first, the rest "
    "is joined by partition at the end",
    "sms": "the sort-merge-shrink join: a full memory is joined with itself, the rest at the end",
    "dbo": "the two-way DBO join: each side leaves a full memory in turn, the rest at the end",
    "grace": "the GRACE hash join: everything is partitioned first and joined at the end",
}

_STAGES = {
    Stage.MM: "as rows arrived",
    Stage.MD: "in stalls, memory with disk",
    Stage.DD: "in stalls, disk with disk",
    Stage.CLEANUP: "after the inputs had ended",
    Stage.UNMATCHED: "rows without a partner",
}


def explain(driver: Driver) -> str:
    shares, memory, metrics = driver.shares, driver.memory, driver.metrics
    left, right = driver.rows_read
    facts = {
        "join": _question(driver),
        "algorithm": _algorithm(driver),
        "memory": f"{megabytes(memory.limit)}: {megabytes(shares.store)} for rows and their index, "
        f"{megabytes(shares.input)} for input that waits, {megabytes(shares.work)} for work; "
        f"now {megabytes(memory.used)}, at most {megabytes(memory.peak)} so far",
        "spills": _spills(driver),
        "stalls": _stalls(driver),
        "read": f"{left:,} left and {right:,} right rows",
        "results": f"{metrics.rows_out:,} rows{_by_stage(driver)}",
    }
    latest = [str(record) for record in metrics.flushes][-_DECISIONS:]
    if latest:
        facts["flushes"] = f"{metrics.flush_count:,}; what left memory last, and why:"
    lines = [paragraph(name, fact) for name, fact in facts.items()]
    return "\n".join(lines + [paragraph("", record, hanging=2) for record in latest])


def _question(driver: Driver) -> str:
    left, right = (source.name for source in driver.sources)
    if driver.schema is None:
        keys = str(driver.question.on)
    else:
        names = [(key.left, key.right) for key in driver.schema.keys]
        keys = " and ".join(mine if mine == other else f"{mine} = {other}" for mine, other in names)
    return f"{driver.question.how}, {left} with {right}, on {keys}"


def _algorithm(driver: Driver) -> str:
    name = driver.question.algorithm
    words = _IN_WORDS.get(name) or _IN_WORDS[name.partition("-")[0]]
    chosen = "auto, which is " if driver.question.auto else ""
    return f"{chosen}{name}, {words}"


def _spills(driver: Driver) -> str:
    if not find_algorithm(driver.question.algorithm).spills:
        return "nothing: this algorithm keeps everything in memory"
    metrics, place = driver.metrics, driver.claim.area.path
    if not metrics.flush_count:
        return f"nothing so far; what does not fit will go to {place}"
    removed = "" if place.exists() else ", removed again"
    spilled = f"{metrics.rows_spilled:,} rows, {megabytes(metrics.bytes_spilled)}"
    return f"{spilled} so far, to {place}{removed}"


def _stalls(driver: Driver) -> str:
    if not find_algorithm(driver.question.algorithm).reacts:
        return "this algorithm waits"
    metrics = driver.metrics
    return (
        f"after {driver.wait_threshold * 1000:g} ms of silence on every open input, spilled rows "
        f"are joined until something arrives; stalls so far: {driver.stalls:,}, with "
        f"{metrics.md_tasks:,} md-tasks (memory with disk) and {metrics.dd_tasks:,} dd-tasks "
        f"(disk with disk)"
    )


def _by_stage(driver: Driver) -> str:
    found = {stage: rows for stage, rows in driver.metrics.results.items() if rows}
    if not found:
        return ""
    return ": " + "; ".join(f"{rows:,} {_STAGES[stage]}" for stage, rows in found.items())
