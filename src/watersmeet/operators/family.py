"""The published joins, each a row of policies for one of two mechanisms."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from watersmeet.errors import InvalidArgument
from watersmeet.operators.algorithm import Algorithm
from watersmeet.operators.base import Manifest
from watersmeet.operators.progressive import ProgressiveJoin
from watersmeet.operators.rectangle.algorithm import Meets, RectangleAlgorithm
from watersmeet.operators.rectangle.join import RectangleJoin
from watersmeet.operators.tuning import Tuning
from watersmeet.policies import flush, invoke, react
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea

PROGRESSIVE = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm("shj", flush=None, react=None),
        Algorithm("xjoin", flush=flush.largest, react=react.largest_resident),
        Algorithm("hmj", flush.adaptive, react.every_partition, whole_stage=True),
        Algorithm(
            "hmj-all", flush.everything, react.every_partition, flush_share=1.0, whole_stage=True
        ),
        Algorithm("hmj-smallest", flush.smallest_pair, react.every_partition, whole_stage=True),
        Algorithm("hmj-largest", flush.largest_pair, react.every_partition, whole_stage=True),
        Algorithm("pmj", flush.everything, None, flush_share=1.0, joins_on_arrival=False),
        Algorithm("rpj", flush=flush.optimal, react=react.best_rate),
        Algorithm("rpj-md", flush=flush.optimal, react=react.best_md),
        Algorithm("rpj-dd", flush=flush.optimal, react=react.best_dd),
    )
}


RECTANGLE = {
    algorithm.name: algorithm
    for algorithm in (
        RectangleAlgorithm(
            "pr-join", Meets.UNTIL_FULL, invoke.larger_halves, invoke=invoke.expanding
        ),
        RectangleAlgorithm("ripple", Meets.UNTIL_FULL, invoke.everything, rescans=True),
        RectangleAlgorithm("hash-ripple", Meets.THEN_KEPT, invoke.all_but_kept),
        RectangleAlgorithm("sms", Meets.ALL, invoke.everything),
        RectangleAlgorithm("dbo", Meets.ALL, invoke.in_turn),
        RectangleAlgorithm("grace", Meets.NONE, invoke.larger_halves),
    )
}

ALGORITHMS: dict[str, Algorithm | RectangleAlgorithm] = {**PROGRESSIVE, **RECTANGLE}

Operator = ProgressiveJoin | RectangleJoin


def find_algorithm(name: str) -> Algorithm | RectangleAlgorithm:
    try:
        return ALGORITHMS[name.lower()]
    except KeyError:
        raise InvalidArgument(
            f"algorithm={name!r} is not known.",
            remedy="Use auto, or one of " + ", ".join(ALGORITHMS) + ".",
        ) from None


def make_operator(
    name: str,
    schema: JoinSchema,
    *,
    memory: MemoryAccount,
    spill: SpillArea,
    clock: Callable[[], float] = time.monotonic,
    tuning: Tuning | None = None,
) -> Operator:
    """The named algorithm, ready for its first row."""
    algorithm = find_algorithm(name)
    if isinstance(algorithm, Algorithm):
        return ProgressiveJoin(
            schema, algorithm, memory=memory, spill=spill, clock=clock, tuning=tuning
        )
    return RectangleJoin(schema, algorithm, memory=memory, spill=spill, clock=clock, tuning=tuning)


def make_progressive(name: str, schema: JoinSchema, **settings: Any) -> ProgressiveJoin:
    """The same for an algorithm of the progressive mechanism."""
    join = make_operator(name, schema, **settings)
    assert isinstance(join, ProgressiveJoin), f"{name} is a rectangle join"
    return join


def make_rectangle(name: str, schema: JoinSchema, **settings: Any) -> RectangleJoin:
    """The same for an algorithm of the rectangle mechanism."""
    join = make_operator(name, schema, **settings)
    assert isinstance(join, RectangleJoin), f"{name} is a progressive join"
    return join


def restore_operator(
    name: str, schema: JoinSchema, *, area: SpillArea, manifest: Manifest, **settings: Any
) -> Operator:
    """The named algorithm, going on from a state that it saved in an area."""
    algorithm = find_algorithm(name)
    settings = settings | {"schema": schema, "algorithm": algorithm}
    if isinstance(algorithm, Algorithm):
        return ProgressiveJoin.restore(area, manifest, **settings)
    return RectangleJoin.restore(area, manifest, **settings)
