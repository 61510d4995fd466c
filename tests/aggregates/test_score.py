"""A score card counts what was promised, and names what was not kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

import watersmeet as wm
from watersmeet.aggregates.answer.estimate import Estimate
from watersmeet.aggregates.answer.score import Missed, ScoreCard


def history(**options: Any) -> list[Estimate]:
    random = np.random.default_rng(1)
    rows = 4_000
    left = pa.table({"k": random.integers(0, 10, rows), "x": random.uniform(1, 2, rows),
                     "g": np.array(["a", "b", None])[random.integers(0, 3, rows)]})  # fmt: skip
    right = pa.table({"k": np.arange(10)})
    asked = {"s": wm.sum("x"), "n": wm.count(), **options}
    with wm.local.aggregate(left, right, on="k", **asked) as run:
        looks = list(run)
        assert run.score() == ScoreCard.of(looks)
        return looks


def planted(estimate: Estimate, name: str, group: Any, **ends: float) -> Estimate:
    """The same with another interval for one cell."""
    cells = {end: getattr(estimate.cells, end).copy() for end in ("low", "high", "trusted")}
    place = estimate.names.index(name), estimate.keys().index(group)
    for end, value in ends.items():
        cells[end][place] = value
    return replace(estimate, cells=estimate.cells._replace(**cells))


def test_every_trusted_interval_is_counted_once() -> None:
    looks = history(group_by="g")
    card = ScoreCard.of(looks)
    assert card.shown == sum(int(look.cells.trusted.sum()) for look in looks[:-1]) > 0
    assert card.held == card.shown - len(card.missed)


def test_a_false_interval_is_found_and_named() -> None:
    looks = history(group_by="g")
    before = ScoreCard.of(looks)
    exact = looks[-1].cells.value[looks[-1].names.index("s"), looks[-1].keys().index((None,))]
    for low, high in ((exact * 1.001, exact * 2), (0.0, exact * 0.999)):
        bad = planted(looks[0], "s", (None,), low=low, high=high, trusted=True)
        card = ScoreCard.of([bad, *looks[1:]])
        assert Missed(1, "s", (None,)) in card.missed
        assert len(card.missed) == len(before.missed) + (
            Missed(1, "s", (None,)) not in before.missed
        )
        assert "look 1: s of None was outside" in str(card)
    good = planted(looks[0], "s", (None,), low=exact, high=exact, trusted=True)
    assert Missed(1, "s", (None,)) not in ScoreCard.of([good, *looks[1:]]).missed
    # What nobody was told to trust is no promise.
    silent = planted(looks[0], "s", (None,), low=0.0, high=1.0, trusted=False)
    card = ScoreCard.of([silent, *looks[1:]])
    assert Missed(1, "s", (None,)) not in card.missed
    assert card.shown < before.shown + 1


def test_words() -> None:
    looks = history()
    card = ScoreCard.of(looks)
    assert f"{card.held} of {card.shown} trusted intervals" in str(card)
    assert "95.0% was promised" in str(card)
    assert str(ScoreCard.of(looks[-1:])).startswith("No interval was shown")
    assert ScoreCard.of(looks[-1:]).share == 1


def test_of_many_that_missed_a_few_are_named() -> None:
    card = ScoreCard(4_000, 4_000 - 1_494, tuple(Missed(1, "s", (n,)) for n in range(1_494)), 0.95)
    lines = str(card).splitlines()
    assert len(lines) == 12
    assert lines[-1] == "  and 1,484 more, in `missed`"


def test_a_group_of_nan_is_scored_like_others() -> None:
    values = np.array([np.nan, 1.0])[np.random.default_rng(2).integers(0, 2, 4_000)]
    left = pa.table({"k": np.arange(4_000) % 10, "g": values})
    with wm.local.aggregate(
        left, pa.table({"k": np.arange(10)}), on="k", group_by="g", n=wm.count()
    ) as run:
        looks = list(run)
    assert ScoreCard.of(looks).shown == sum(int(look.cells.trusted.sum()) for look in looks[:-1])


def test_pandas_tells_null_from_nan_and_keeps_whole_numbers() -> None:
    left = pa.table(
        {"k": [1] * 6, "x": [1.0, float("nan"), None] * 2, "i": [7, None, 2**60 + 1] * 2}
    )
    for column, wanted in (("x", [False, False, True]), ("i", [False, True, False])):
        with wm.local.aggregate(
            left, pa.table({"k": [1]}), on="k", group_by=column, n=wm.count()
        ) as run:
            found = run.exact().table[column]
        assert found.isna().tolist() == wanted
    assert found.tolist()[2] == 2**60 + 1
