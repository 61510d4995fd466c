"""One key with a million matches a side, against the memory of the join and its flow of results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cases import MB
from benchmarks.outside import Watched

CAP = 32 * MB
ALLOWANCE = 64 * MB
MILLION = 1_000_000
# One that joins runs as they are merged and one that sorts all of memory; the others merge as RPJ.
ALGORITHMS = [
    "rpj",
    "pmj",
    pytest.param("xjoin", marks=pytest.mark.slow),
    pytest.param("hmj", marks=pytest.mark.slow),
]


def run(
    algorithm: str,
    tmp_path: Path,
    *,
    right_rows: int,
    left_first: bool,
    wanted: int,
    threads: int = 1,
) -> tuple[dict[str, Any], int]:
    """What the process said, and its peak memory above idle."""
    order = {
        "left_rows": MILLION,
        "right_rows": right_rows,
        "left_first": left_first,
        "wanted": wanted,
        "settings": {
            "algorithm": algorithm,
            "memory": CAP,
            "spill_dir": str(tmp_path),
            "threads": threads,
        },
    }
    with Watched(["-m", "tests.memory.hot_key"]) as watched:
        watched.say(json.dumps(order))
        watched.hear()
        watched.start_from_here()
        watched.say("go")
        said = watched.hear()
        peak = watched.peak_bytes()
    # Output comes in bounded pieces, not as the million partners that one row has.
    assert said["largest_batch"] <= 65_536
    assert list(tmp_path.iterdir()) == []
    return said, peak


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_results_keep_coming_and_memory_does_not_grow(algorithm: str, tmp_path: Path) -> None:
    said, peak = run(algorithm, tmp_path, right_rows=MILLION, left_first=False, wanted=10 * MILLION)
    assert said["results"] >= 10 * MILLION
    assert peak <= CAP + ALLOWANCE


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_hot_side_that_was_spilled_does_not_come_back_at_once(
    algorithm: str, tmp_path: Path
) -> None:
    check_spilled(algorithm, tmp_path)


@pytest.mark.slow
def test_threads_that_have_nothing_to_do_leave_the_hot_side_within_the_cap(tmp_path: Path) -> None:
    check_spilled("rpj", tmp_path, threads=3)


def check_spilled(algorithm: str, tmp_path: Path, *, threads: int = 1) -> None:
    said, peak = run(
        algorithm, tmp_path, right_rows=10, left_first=True, wanted=2**62, threads=threads
    )
    assert said["spilled"] > MILLION // 4, "memory held everything, so nothing was tested"
    assert said["results"] == 10 * MILLION
    lefts, rights = MILLION * (MILLION - 1) // 2, 45
    assert said["checksum"] == 10 * (10 * lefts) + MILLION * rights
    assert peak <= CAP + ALLOWANCE
