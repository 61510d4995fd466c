"""Aggregates over joins: Spark's own, and our estimates and exact answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import watersmeet as wm
from benchmarks.questions import QUESTIONS
from benchmarks.spark_peers.stage import Stage


def spark_aggregate(stage: Stage) -> dict[str, Any]:
    """Spark's own aggregate over its own join."""
    question = QUESTIONS[stage.settings["question"]]
    way = stage.settings.get("way", "")
    answer = question.by_spark(stage.spark, stage.relations, way).collect()
    seconds = stage.seconds
    return {"seconds": seconds, "notes": {"answer": question.text(map(tuple, answer))}}


def our_aggregate(stage: Stage) -> dict[str, Any]:
    """Ours, every estimate taken as it comes; the last is exact."""
    return _estimates(stage, lambda run: iter(run))


def our_percent(stage: Stage) -> dict[str, Any]:
    """Ours, up to one per cent."""
    return _estimates(stage, lambda run: run.until(relative_error=0.01))


def our_exact(stage: Stage) -> dict[str, Any]:
    """Ours, the exact answer at once."""
    return _estimates(stage, lambda run: [run.exact()])


def _estimates(stage: Stage, ask: Callable[[Any], Iterable[Any]]) -> dict[str, Any]:
    question = QUESTIONS[stage.settings["question"]]
    frames = question.frames(stage.spark, stage.relations, stage.settings.get("way", ""))
    seed = stage.settings.get("seed", 0)
    with wm.aggregate(*frames, memory=stage.memory, seed=seed, **question.arguments()) as run:
        looks = [
            (stage.seconds, e.relative_error, e.fraction, e.trusted, _width(e)) for e in ask(run)
        ]
        seconds = looks[-1][0]
        answer = question.text(map(tuple, run.to_df().collect())) if run.complete else None
        score = run.score() if run.complete else None
        notes = {
            "looks": looks,
            "answer": answer,
            "shown": score.shown if score else None,
            "held": score.held if score else None,
        }
        return {"seconds": seconds, "first_seconds": looks[0][0], "notes": notes}


def _width(estimate: Any) -> float:
    """The widest of all intervals, also of those that are marked."""
    return float(estimate.cells.relative.max(initial=0.0))
