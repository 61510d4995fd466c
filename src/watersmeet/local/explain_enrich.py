"""An enrichment in words: what the cache holds and serves, what was read of the master."""

from __future__ import annotations

from typing import TYPE_CHECKING

from watersmeet.local.explain import by_stage, memory_words, question_words
from watersmeet.operators.enriching import STREAM
from watersmeet.operators.family import find_enricher
from watersmeet.operators.semistream.join import SemiStreamJoin
from watersmeet.operators.stage import Stage
from watersmeet.words import count_text, megabytes, paragraph, seconds_text, size_text

if TYPE_CHECKING:
    from watersmeet.local.enrich import EnrichDriver

_STAGES: dict[str, str] = {
    Stage.MM: "from the cache, as rows arrived",
    Stage.MD: "by the scan of the master",
    Stage.UNMATCHED: "rows without a partner",
}


def explain(driver: EnrichDriver) -> str:
    operator = driver.operator
    facts = {
        "join": question_words(driver),
        "algorithm": _algorithm(driver),
        "memory": memory_words(driver, "rows that wait and cached rows"),
    }
    if operator is None:
        facts["master"] = "nothing has been read yet"
    else:
        assert isinstance(operator, SemiStreamJoin)
        facts |= {
            "master": _master(driver, operator),
            "cache": _cache(operator),
            "scan": _scan(operator),
            "gain": _gain(operator),
            "read": _read(operator),
            "results": f"{operator.metrics.rows_out:,} rows{by_stage(driver, _STAGES)}",
        }
    return "\n".join(paragraph(name, fact) for name, fact in facts.items())


def _algorithm(driver: EnrichDriver) -> str:
    name = driver.question.algorithm
    chosen = "auto, which is " if driver.question.auto else ""
    return f"{chosen}{name}: {find_enricher(name).words}"


def _master(driver: EnrichDriver, operator: SemiStreamJoin) -> str:
    master = operator.workspace.master
    again = (
        "" if driver.refresh is None else f"; looked at again every {seconds_text(driver.refresh)}"
    )
    return (
        f"{master.rows:,} rows with {master.distinct:,} keys, {size_text(master.nbytes)} in "
        f"{count_text(len(master), 'block')}; version {master.version}, "
        f"{count_text(operator.metrics.versions_met, 'version')} so far{again}"
    )


def _cache(operator: SemiStreamJoin) -> str:
    metrics = operator.metrics
    served = metrics.cache_hits / max(metrics.rows_in[STREAM], 1)
    none = (
        f", {metrics.negative_entries:,} of them known to have no row"
        if metrics.negative_entries
        else ""
    )
    return (
        f"{count_text(metrics.cache_entries, 'key')} in {megabytes(metrics.cache_bytes)}{none}; "
        f"it served {served:.0%} of the stream rows so far"
    )


def _read(operator: SemiStreamJoin) -> str:
    metrics = operator.metrics
    waiting = [f"{metrics.waiting_rows:,} wait for the scan now"]
    if metrics.patient_rows:
        waiting.append(f"{metrics.patient_rows:,} for a newer version")
    return f"{metrics.rows_in[STREAM]:,} stream rows; {' and '.join(waiting)}"


def _scan(operator: SemiStreamJoin) -> str:
    metrics = operator.metrics
    skipped = (
        f", {metrics.blocks_skipped:,} passed over because nobody waited for them"
        if metrics.blocks_skipped
        else ""
    )
    took = f"; a round took {seconds_text(metrics.cycle_seconds)}" if metrics.cycle_seconds else ""
    return (
        f"{count_text(metrics.blocks_read, 'block')} read, {size_text(metrics.bytes_read)} with "
        f"{count_text(metrics.steps, 'read')}{skipped}; {count_text(metrics.cycles, 'round')} "
        f"so far{took}"
    )


def _gain(operator: SemiStreamJoin) -> str:
    """MESHJOIN has every row wait for one whole scan, as many at a time as memory has room for."""
    metrics = operator.metrics
    # It reads the whole table at least once.
    whole = operator.workspace.master.nbytes if metrics.rows_in[STREAM] else 0
    nbytes = max(operator.statistics()["meshjoin_bytes"], whole)
    if not metrics.bytes_read:
        return f"MESHJOIN would have read {size_text(nbytes)} of the master; this read nothing"
    times = nbytes / metrics.bytes_read
    return (
        f"MESHJOIN would have read {size_text(nbytes)} of the master in this memory, "
        f"{times:,.{1 if times < 10 else 0}f} times as much"
    )
