"""A join's counters in words, for all runtimes that explain one."""

from __future__ import annotations

from collections.abc import Mapping

from watersmeet.operators.stage import Stage
from watersmeet.words import count_text, megabytes, seconds_text, size_text

STAGES: dict[str, str] = {
    Stage.MM: "as rows arrived",
    Stage.MD: "in stalls, memory with disk",
    Stage.DD: "in stalls, disk with disk",
    Stage.CLEANUP: "after the inputs had ended",
    Stage.UNMATCHED: "rows without a partner",
}
ENRICHING_STAGES: dict[str, str] = {
    Stage.MM: "from the cache, as rows arrived",
    Stage.MD: "by the scan of the master",
    Stage.UNMATCHED: "rows without a partner",
}


def results_words(results: Mapping[str, int], stages: Mapping[str, str]) -> str:
    """How many results came when, in these words for each stage.

    >>> results_words({"mm": 2000, "md": 0, "unmatched": 3}, STAGES)
    '2,003 rows: 2,000 as rows arrived; 3 rows without a partner'
    """
    found = [f"{rows:,} {stages[stage]}" for stage, rows in results.items() if rows]
    return f"{sum(results.values()):,} rows" + (": " + "; ".join(found) if found else "")


def dropped_words(
    purged: int, on_arrival: int, broken: Mapping[str, int], *, when: str = ""
) -> str:
    """What came of promises: rows that went, and rows that broke one, by promise.

    >>> dropped_words(7, 1200, {"unique(id)": 1, "ordered(id)": 2}, when=" so far")
    'rows dropped from the state so far: 7, not kept because they could meet nothing to come: 1,200;
    1 row broke unique(id), 2 rows broke ordered(id)'
    """
    counts = [f"{count_text(rows, 'row')} broke {each}" for each, rows in broken.items()]
    return (
        f"rows dropped from the state{when}: {purged:,}, not kept because they could meet nothing "
        f"to come: {on_arrival:,}; {', '.join(counts) or 'no row broke a promise'}"
    )


# ---- of a join with a master table; `counted` has numbers by the names of its metrics ------------


def cache_words(counted: Mapping[str, float], *, rows: int, when: str = "so far") -> str:
    """What the cache holds, and which part of so many stream rows it has served."""
    negative = counted["negative_entries"]
    none = f", {negative:,} of them known to have no row" if negative else ""
    served = counted["cache_hits"] / max(rows, 1)
    return (
        f"{count_text(int(counted['cache_entries']), 'key')} in "
        f"{megabytes(counted['cache_bytes'])}{none}; "
        f"it served {served:.0%} of the stream rows {when}"
    )


def scan_words(
    counted: Mapping[str, float], *, round_seconds: float = 0.0, when: str = "so far"
) -> str:
    """What was read of the master, and what was not; how long the last round took, if it is
    known."""
    skipped = counted["blocks_skipped"]
    passed = f", {skipped:,} passed over because nobody waited for them" if skipped else ""
    took = f"; a round took {seconds_text(round_seconds)}" if round_seconds else ""
    return (
        f"{count_text(int(counted['blocks_read']), 'block')} read, "
        f"{size_text(counted['bytes_read'])} with {count_text(int(counted['steps']), 'read')}"
        f"{passed}; {count_text(int(counted['cycles']), 'round')} {when}{took}"
    )


def waiting_words(counted: Mapping[str, float]) -> str:
    """How many stream rows wait, and for what."""
    waiting = [f"{counted['waiting_rows']:,} wait for the scan now"]
    if counted["patient_rows"]:
        waiting.append(f"{counted['patient_rows']:,} for a newer version")
    return " and ".join(waiting)
