"""Counted I/O is what the paper's models say, on keys without skew."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.operators.rectangle.running import Watched
from watersmeet.operators.tuning import Invocation, Tuning
from watersmeet.reproduce.prjoin import costs
from watersmeet.reproduce.prjoin.costs import Setting

MEMORY, ROWS, PARTITIONS = 2_000, 40_000, 64
TUNING = Tuning(partitions=PARTITIONS, memory_rows=MEMORY, expected_rows=(ROWS, ROWS))
RNG = np.random.default_rng(3)
KEYS = (RNG.permutation(ROWS), RNG.permutation(ROWS))
# A page is a row, and memory is counted in rows whether they are in a hash table or not.
SETTING = Setting(ROWS, ROWS, MEMORY, fudge=1.0)
READS = replace(SETTING, read_input=0.0, write=0.0)
WRITES = replace(SETTING, read_input=0.0, read=0.0)


def run(name: str, directory: Path, tuning: Tuning = TUNING) -> Watched:
    watched = Watched(name, directory, tuning)
    watched.run(KEYS, each=200)
    assert watched.join.metrics.rows_out == ROWS
    watched.join.close()
    return watched


@pytest.mark.parametrize(
    ("name", "total"),
    [
        ("grace", costs.grace_total),
        ("sms", costs.sms_total),
        ("dbo", costs.sms_total),
        ("hash-ripple", costs.hash_ripple_total),
    ],
)
def test_rows_are_written_and_read_once(name: str, total: object, tmp_path: Path) -> None:
    io = run(name, tmp_path).io
    # What is in memory at the end need not be written.
    assert total(WRITES) - MEMORY <= io["written"] <= total(WRITES)  # type: ignore[operator]
    assert io["read"] == io["written"]


def test_block_ripple_reads_all_again_with_every_block(tmp_path: Path) -> None:
    io = run("ripple", tmp_path).io
    assert io["written"] == pytest.approx(costs.ripple_total(WRITES), rel=0.01)
    assert io["read"] == pytest.approx(costs.ripple_total(READS), rel=0.03)


def model_reads(gamma: float, *, stops: bool) -> float:
    """The sum above eq. 13, less what is in memory when a partition is joined.

    A partition's share of memory is between S and 2S full, and 1.5S is on disk no more.
    """
    share, whole = MEMORY / PARTITIONS, 2 * ROWS / PARTITIONS
    resident = 0.75 * share
    reads = PARTITIONS * (whole - resident)
    for i in range(PARTITIONS):
        size = share * (1 + gamma) ** (1 + i / PARTITIONS)
        while size * (1 + gamma) <= whole if stops else size < whole:
            reads += size - resident
            size *= 1 + gamma
    return reads


@pytest.mark.parametrize(
    "gamma", [2.0, *(pytest.param(n, marks=pytest.mark.slow) for n in (0.5, 1.0))]
)
def test_pr_join_reads_what_its_joins_have_grown_to(gamma: float, tmp_path: Path) -> None:
    io = run("pr-join", tmp_path, replace(TUNING, invocation=Invocation(gamma))).io
    assert io["written"] <= costs.pr_total_bound(WRITES, gamma=gamma)
    assert io["read"] <= costs.pr_total_bound(READS, gamma=gamma)
    assert io["read"] == pytest.approx(model_reads(gamma, stops=True), rel=0.05)


def check_the_stop_constraint(directory: Path) -> None:
    stopped = run("pr-join", directory)
    free = run("pr-join", directory, replace(TUNING, invocation=Invocation(stops=False)))
    unknown = run("pr-join", directory, replace(TUNING, expected_rows=None))
    assert stopped.io["read"] < 0.8 * free.io["read"]
    assert free.io["read"] == unknown.io["read"]
    assert free.io["read"] == pytest.approx(model_reads(1.0, stops=False), rel=0.05)


def test_the_stop_constraint_saves_the_joins_before_the_end(tmp_path: Path) -> None:
    check_the_stop_constraint(tmp_path)


def test_early_results_follow_the_covered_area(tmp_path: Path) -> None:
    """Half of the input read: PR-Join has covered much of what can be covered, others little.

    The areas, of a unit square, come from the models: Block Ripple all of it up to its last
    block, SMS and DBO a memory's in every memory's time.
    """
    half = (KEYS[0][: ROWS // 2], KEYS[1][: ROWS // 2])
    early = {}
    for name in ("pr-join", "ripple", "hash-ripple", "sms", "dbo", "grace"):
        watched = Watched(name, tmp_path, TUNING)
        # DBO reads a run of one side, then of the other.
        early[name] = watched.run(half, each=MEMORY // 2 if name == "dbo" else 100) / ROWS
        watched.join.close()
    block = 1 / SETTING.blocks
    assert early["ripple"] == pytest.approx(0.25, rel=0.1)
    assert early["sms"] == pytest.approx(0.5 * block, rel=0.15)
    assert early["dbo"] == pytest.approx(2 * early["sms"], rel=0.15)
    assert early["hash-ripple"] == pytest.approx(0.5 * block, rel=0.15)
    # Joined last at (1 + gamma)^(j + i/n) of memory: between a quarter and all of what has come.
    assert 0.08 < early["pr-join"] < 0.25
    assert early["grace"] == 0
