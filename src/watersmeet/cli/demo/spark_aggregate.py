"""The end of the demo: an aggregate over the join, whose intervals shrink to Spark's answer."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable
from typing import Any

import watersmeet as wm
from watersmeet.aggregates.answer.layout import head, show
from watersmeet.aggregates.run import AggregateRun

_REVENUE = "l_extendedprice * (1 - l_discount)"
_GROUP = "o_orderpriority"
_WANTED = 0.01
_CALL = f"""\
  wm.aggregate(lineitem, orders, on={{"l_orderkey": "o_orderkey"}},
               group_by="{_GROUP}", n=wm.count(),
               revenue=wm.sum("{_REVENUE}"))
"""


def run(frames: Callable[[int | None], tuple[Any, Any]]) -> tuple[bool, str]:
    """Returns whether both gave the same answer, and a verdict. `frames(n)` are n files of orders
    and of lineitem, `frames(None)` all."""
    # Each once before it is timed, so that neither loads modules or compiles then.
    _of_spark(*frames(1))
    with _ours(*frames(1)) as warm:
        warm.exact()
    print(f"\n{_CALL}", flush=True)
    began = time.monotonic()
    narrow_s: float | None = None
    with _ours(*frames(None)) as ours:
        for estimate in ours:
            seconds = time.monotonic() - began
            if narrow_s is None and estimate.relative_error <= _WANTED:
                narrow_s = seconds
            if len(ours.history) == 1:
                first_s = seconds
                print(_indented(show(estimate, width=76)), flush=True)
            else:
                print(textwrap.fill(f"  {head(estimate)}", 78, subsequent_indent="  "), flush=True)
    exact_s = time.monotonic() - began
    began = time.monotonic()
    truth = _of_spark(*frames(None))
    spark_s = time.monotonic() - began
    mine = {row[_GROUP]: row for row in ours.latest.answer.to_pylist()}
    if mine != truth:
        return False, f"WRONG: {mine} is not what Spark's own aggregate gives, {truth}."
    narrow = f"within 1% after {narrow_s or exact_s:.1f} s"
    return True, (
        f"First intervals after {first_s:.1f} s, {narrow}, exact after {exact_s:.1f} s; Spark's "
        f"own aggregate took {spark_s:.1f} s. The same answer to the last digit. {_score(ours)}"
    )


def _ours(orders: Any, lineitem: Any) -> AggregateRun:
    return wm.aggregate(
        lineitem,
        orders,
        on={"l_orderkey": "o_orderkey"},
        group_by=_GROUP,
        n=wm.count(),
        revenue=wm.sum(_REVENUE),
    )


def _of_spark(orders: Any, lineitem: Any) -> dict[Any, dict[str, Any]]:
    query = (
        f"SELECT {_GROUP}, count(*) AS n, sum({_REVENUE}) AS revenue "
        f"FROM {{lineitem}} JOIN {{orders}} ON l_orderkey = o_orderkey GROUP BY {_GROUP}"
    )
    found = orders.sparkSession.sql(query, lineitem=lineitem, orders=orders).collect()
    return {row[_GROUP]: row.asDict() for row in found}


def _score(ours: AggregateRun) -> str:
    score = ours.score()
    return f"{score.held} of {score.shown} trusted intervals held it." if score.shown else ""


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.split("\n")) + "\n"
