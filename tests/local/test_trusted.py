"""Cells that a run trusts hold on files that a plain random sample of blocks gets wrong.

Through real files, the planner, the looks and the flags; the files are those of the benchmark,
whose whole matrix is in docs/coverage.md. Here a few of them, with orders that nobody tuned on.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom  # type: ignore[import-untyped]

import watersmeet as wm
from benchmarks.coverage_files import Situation, check, outcomes
from benchmarks.sales import DATA
from benchmarks.situations import SITUATIONS

RUNS = 20


def held(name: str, folder: Path, *, runs: int) -> dict[str, tuple[int, int, int]]:
    """Of each aggregate: cells, those trusted, and of these those that hold."""
    situation = Situation(SITUATIONS[name](DATA["tuned"], folder))
    check(situation, 70_000)
    found = outcomes(name, situation, runs=runs, first=70_000)
    return {o.aggregate: (o.cells, o.trusted, o.held) for o in found if o.look == 1}


@pytest.mark.parametrize(
    "name",
    [
        "sorted by value, skewed",
        "1 block 50 times larger",
        "1 block of refunds",
        "every tenth block larger",
        "1 of 400,000 rows, 200 of 500",
    ],
)
def test_totals_and_means_hold_where_footers_tell(name: str, tmp_path: Path) -> None:
    for aggregate, (cells, trusted, holds) in held(name, tmp_path, runs=RUNS).items():
        if aggregate != "spread":
            assert trusted > 0.6 * cells
            # Of intervals that hold 95% of the time, once in ten thousand tests.
            assert holds >= binom.ppf(1e-4, trusted, 0.95), aggregate


@pytest.mark.parametrize("name", ["no statistics, 1 block larger", "a rare key with many partners"])
def test_what_cannot_be_known_is_flagged(name: str, tmp_path: Path) -> None:
    for aggregate, (cells, trusted, _) in held(name, tmp_path, runs=12).items():
        if name.startswith("a rare key") or aggregate != "n":
            assert trusted <= 0.1 * cells, aggregate


def test_a_tail_behind_another_groups_values_is_flagged_in_its_own_group(tmp_path: Path) -> None:
    """The larger values of group 0 are everywhere, so the column's tail has been seen."""
    rng = np.random.default_rng(4)
    rows = 60_000
    groups = rng.integers(0, 2, rows)
    values = np.where(groups == 0, rng.uniform(4e5, 5e5, rows), rng.pareto(1.2, rows) + 1)
    table = pa.table({"k": rng.integers(0, 100, rows), "p": values, "g": groups})
    pq.write_table(table, tmp_path / "s.parquet", row_group_size=300)
    articles = pa.table({"k": np.arange(100)})
    for seed in range(4):
        with wm.local.aggregate(
            tmp_path / "s.parquet", articles, on="k", group_by="g", seed=seed, s=wm.sum("p")
        ) as run:
            trusted = dict(zip(run.table["g"], run.table["trusted"], strict=True))
            assert trusted == {0: True, 1: False}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SITUATIONS))
def test_every_situation(name: str, tmp_path: Path) -> None:
    """With a true coverage of 93%, fewer has probability 0.001 in each cell."""
    for aggregate, (cells, trusted, holds) in held(name, tmp_path, runs=150).items():
        if trusted > 0.02 * cells:
            assert holds >= binom.ppf(1e-3, trusted, 0.93), aggregate
