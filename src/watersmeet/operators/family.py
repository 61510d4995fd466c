"""The published joins, each a row of policies for one mechanism."""

from __future__ import annotations

import time
from collections.abc import Callable

from watersmeet.errors import InvalidArgument
from watersmeet.operators.algorithm import Algorithm
from watersmeet.operators.progressive import ProgressiveJoin
from watersmeet.operators.tuning import Tuning
from watersmeet.policies import flush, react
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea

ALGORITHMS = {
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


def find_algorithm(name: str) -> Algorithm:
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
) -> ProgressiveJoin:
    """The named algorithm, ready for its first row."""
    return ProgressiveJoin(
        schema, find_algorithm(name), memory=memory, spill=spill, clock=clock, tuning=tuning
    )
