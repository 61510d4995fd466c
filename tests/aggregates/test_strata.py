"""Rows with extreme values are joined completely, and nothing is lost or counted twice by that."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from tests.aggregates.readings import blocks_of
from watersmeet.aggregates.answer.ledger import BlockLedger
from watersmeet.aggregates.run import AggregateRun
from watersmeet.errors import InvalidArgument

ROWS = 40_000


def tables(seed: int) -> tuple[pa.Table, pa.Table]:
    """Pareto values of shape 1.5, of which a few in a hundred are null, and two groups."""
    rng = np.random.default_rng(seed)
    values = pa.array(rng.pareto(1.5, ROWS) + 1, mask=rng.random(ROWS) < 0.03)
    left = {"k": rng.integers(0, 900, ROWS), "x": values, "g": rng.choice(["a", "b"], ROWS)}
    return pa.table(left), pa.table({"k": np.arange(1000)})


def asked(seed: int, heavy_tails: str) -> AggregateRun:
    left, right = tables(seed)
    return wm.local.aggregate(
        left, right, on="k", group_by="g", heavy_tails=heavy_tails, seed=seed,
        total=wm.sum("x"), n=wm.count(), known=wm.count("x"), mean=wm.avg("x"), sd=wm.stddev("x"),
    )  # fmt: skip


def test_the_exact_answer_is_the_same_whether_extremes_were_set_apart_or_not() -> None:
    with asked(1, "flag") as plain, asked(1, "take-all") as apart:
        looks = list(apart)
        assert len(looks) > 2
        want = {row["g"]: row for row in plain.exact().answer.to_pylist()}
        for row in looks[-1].answer.to_pylist():
            for name in ("n", "known"):
                assert row[name] == want[row["g"]][name]
            for name in ("total", "mean", "sd"):
                assert row[name] == pytest.approx(want[row["g"]][name], rel=1e-12)


def test_intervals_get_narrower_and_hold_the_truth() -> None:
    held, shown, narrower, sets_apart = 0, 0, 0, 0
    for seed in range(15):
        with asked(seed, "flag") as plain, asked(seed, "take-all") as apart:
            wide, narrow = (list(run) for run in (plain, apart))
            truth = narrow[-1].cells.value[0]
            look = narrow[1].cells
            held += int(((look.low[0] <= truth) & (truth <= look.high[0])).sum())
            shown += len(truth)
            # Where the blocks with the largest values have been read, nothing has to be set apart.
            ledger = blocks_of(apart).ledger
            assert isinstance(ledger, BlockLedger)
            if ledger._certain is not None:
                sets_apart += 1
                narrower += bool(look.relative[0].max() < 0.6 * wide[1].cells.relative[0].max())
    # Of 30 intervals with 95% each, fewer than 24 hold less than once in a thousand suites.
    assert shown == 30
    assert held >= 24
    assert sets_apart >= 5
    assert narrower >= 0.8 * sets_apart


def test_values_without_a_heavy_tail_are_left_together() -> None:
    left, right = tables(3)
    even = left.set_column(1, "x", pa.array(np.random.default_rng(0).random(ROWS)))
    with wm.local.aggregate(even, right, on="k", heavy_tails="take-all", t=wm.sum("x")) as run:
        assert [blocks_of(run).extremes() is None for _ in run] == [True] * len(run.history)


def test_an_unknown_way_with_tails_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="heavy_tails='ignore'"):
        asked(0, "ignore")
