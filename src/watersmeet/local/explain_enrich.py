"""An enrichment in words: what the cache holds and serves, what was read of the master."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watersmeet.local.explain import memory_words, question_words, threads_words
from watersmeet.operators.enriching import STREAM
from watersmeet.operators.explaining import (
    ENRICHING_STAGES,
    cache_words,
    results_words,
    scan_words,
    waiting_words,
)
from watersmeet.operators.family import find_enricher
from watersmeet.operators.semistream.metrics import SemiStreamMetrics
from watersmeet.words import count_text, megabytes, paragraph, seconds_text, size_text

if TYPE_CHECKING:
    from watersmeet.local.enriching import EnrichDriver
    from watersmeet.local.plan_enrich import EnrichPlan


def explain(driver: EnrichDriver, plan: EnrichPlan | None = None) -> str:
    facts = {
        "join": question_words(driver),
        "algorithm": _algorithm(driver),
        "memory": memory_words(driver, "rows that wait and cached rows"),
    }
    if driver.operator is None:
        facts["master"] = "nothing has been read yet"
    else:
        metrics = driver.metrics
        facts |= {
            "master": _master(driver, metrics),
            "cache": cache_words(metrics.as_dict(), rows=metrics.rows_in[STREAM]),
            "scan": scan_words(metrics.as_dict(), round_seconds=metrics.cycle_seconds),
            "gain": _gain(driver, metrics),
            "read": f"{metrics.rows_in[STREAM]:,} stream rows; {waiting_words(metrics.as_dict())}",
            "results": results_words(metrics.results, ENRICHING_STAGES),
        }
    if driver.asked > 1:
        facts["threads"] = threads_words(
            driver, "each with a part of the keys, and read the part of the master that has them"
        )
    if plan is not None:
        facts["expected"] = _expected(driver, plan)
    return "\n".join(paragraph(name, fact) for name, fact in facts.items())


def _expected(driver: EnrichDriver, plan: EnrichPlan) -> str:
    """The cost model's figures beside those of this run (SSBJ, equations 1 to 6)."""
    metrics, seconds = driver.metrics, driver.busy_seconds
    rows = metrics.rows_in[STREAM]
    most = f"a round of {seconds_text(plan.most_seconds)}" if plan.most_seconds else "no rounds"
    expected = (
        f"the plan for {plan.algorithm} in {megabytes(plan.memory)} says {plan.rate:,.0f} rows a "
        f"second, {plan.cached:.0%} of them from the cache, {most}"
    )
    if not rows or not seconds:
        return f"{expected}; nothing has come yet to compare it with"
    came = f"{rows / seconds:,.0f} rows a second of processor time, {_served(metrics):.0%}"
    if metrics.cycles:
        came += f", rounds of {seconds_text(seconds / metrics.cycles)}"
    return f"{expected}; so far it was {came}"


def _served(metrics: SemiStreamMetrics) -> float:
    """The part of the stream rows that the cache has served."""
    return metrics.cache_hits / max(metrics.rows_in[STREAM], 1)


def _algorithm(driver: EnrichDriver) -> str:
    name = driver.question.algorithm
    chosen = "auto, which is " if driver.question.auto else ""
    return f"{chosen}{name}: {find_enricher(name).words}"


def _master(driver: EnrichDriver, metrics: SemiStreamMetrics) -> str:
    master = driver.master
    again = (
        "" if driver.refresh is None else f"; looked at again every {seconds_text(driver.refresh)}"
    )
    return (
        f"{master.rows:,} rows with {master.distinct:,} keys, {size_text(master.nbytes)} in "
        f"{count_text(len(master), 'block')}; version {master.version}, "
        f"{count_text(metrics.versions_met, 'version')} so far{again}"
    )


def _gain(driver: EnrichDriver, metrics: SemiStreamMetrics) -> str:
    """MESHJOIN has every row wait for one whole scan, as many at a time as memory has room for."""
    # It reads the whole table at least once.
    whole = driver.master.nbytes if metrics.rows_in[STREAM] else 0
    nbytes = max(driver.meshjoin_bytes, whole)
    if not metrics.bytes_read:
        return f"MESHJOIN would have read {size_text(nbytes)} of the master; this read nothing"
    times = nbytes / metrics.bytes_read
    return (
        f"MESHJOIN would have read {size_text(nbytes)} of the master in this memory, "
        f"{times:,.{1 if times < 10 else 0}f} times as much"
    )
