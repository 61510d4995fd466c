"""A local join in words: what it does, with how much memory, its latest decisions and why."""

from __future__ import annotations

from collections import Counter

from watersmeet.local.driver import Driver
from watersmeet.operators.explaining import STAGES, dropped_words, results_words
from watersmeet.operators.family import find_algorithm, find_mechanism
from watersmeet.operators.many import ManyQuestion
from watersmeet.operators.promised.join import PromisedJoin
from watersmeet.promises.bounds import bounds_in_words
from watersmeet.words import megabytes, paragraph

_DECISIONS = 5


def explain(driver: Driver) -> str:
    metrics = driver.metrics
    facts = {
        "join": question_words(driver),
        "algorithm": _algorithm(driver),
        "memory": memory_words(driver, "rows and their index"),
        "spills": _spills(driver),
        "stalls": _stalls(driver),
        "read": " and ".join(f"{rows:,} {name}" for name, rows in driver.read()) + " rows",
        "results": results_words(metrics.results, STAGES),
    }
    if driver.asked > 1:
        facts["threads"] = threads_words(
            driver,
            "each the rows of its part of the keys; rows that one of them has no memory for may "
            "take what others leave",
        )
    latest = [str(record) for record in metrics.flushes][-_DECISIONS:]
    if latest:
        facts["flushes"] = f"{metrics.flush_count:,}; what left memory last, and why:"
    lines = [paragraph(name, fact) for name, fact in facts.items()]
    lines += [paragraph(name, fact) for name, fact in _promises(driver)]
    return "\n".join(lines + [paragraph("", record, hanging=2) for record in latest])


def _promises(driver: Driver) -> list[tuple[str, str]]:
    """What the promises bound, and what came of them so far."""
    if driver.promised is None or driver.schema is None:
        return []
    words = bounds_in_words(driver.schema, driver.promised.promises)
    metrics, operator = driver.metrics, driver.operator
    heard, broken = 0, Counter[str]()
    if isinstance(operator, PromisedJoin):
        heard, broken = operator.promises_heard, operator.broken
    dropped = dropped_words(metrics.rows_purged, metrics.dropped_on_arrival, broken)
    lines = [*words, ("promises", f"{heard:,} so far; {dropped}")]
    marked = driver.marked()
    if marked is not None:
        passed = f"{driver.markers_out:,} marker rows so far; {marked.in_words()}"
        lines.append(("passed on", passed))
    return lines


def memory_words(driver: Driver, what: str) -> str:
    """How the memory is split; `what` is most of it for."""
    shares, memory = driver.shares, driver.memory
    return (
        f"{megabytes(memory.limit)}: {megabytes(shares.store)} for {what}, "
        f"{megabytes(shares.input)} for input that waits, {megabytes(shares.work)} for work; "
        f"now {megabytes(memory.used)}, at most {megabytes(memory.peak)} so far"
    )


def threads_words(driver: Driver, each: str) -> str:
    """How many threads join, and what each of several does."""
    count = driver.threads
    words = f"{count} threads join, {each}" if count > 1 else "1 thread joins"
    if count < driver.asked:
        words += f"; {driver.asked} were asked for, and have too little memory to be faster"
    return words


def question_words(driver: Driver) -> str:
    """What is joined with what, and on which columns."""
    inputs = " with ".join(source.name for source in driver.sources)
    if driver.schema is None or isinstance(driver.question, ManyQuestion):
        keys = str(driver.question.on)
    else:
        keys = " and ".join(driver.schema.in_words())
    return f"{driver.question.how}, {inputs}, on {keys}"


def _algorithm(driver: Driver) -> str:
    name = driver.question.algorithm
    chosen = "auto, which is " if driver.question.auto else ""
    return f"{chosen}{name}, {find_algorithm(name).words}"


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
    done = (
        f"with {metrics.md_tasks:,} md-tasks (memory with disk) and {metrics.dd_tasks:,} dd-tasks "
        f"(disk with disk)"
    )
    if find_mechanism(driver.question.algorithm).name in ("regions", "tree"):
        done = (
            f"blocks read by the nested loop, in stalls and at the end: "
            f"{metrics.blocks_joined:,}, left out because their values cannot meet: "
            f"{metrics.blocks_skipped:,}"
        )
    return (
        f"after {driver.wait_threshold * 1000:g} ms of silence on every open input, spilled rows "
        f"are joined until something arrives; stalls so far: {driver.stalls:,}, {done}"
    )
