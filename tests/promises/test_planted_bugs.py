"""Mistakes in the keeping of promises, made on purpose: the comparison with the model must notice
each of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.test_planted_bugs import Bug
from tests.promises.test_keeper import follow
from watersmeet.kernels import promised
from watersmeet.promises import marker_rule, patterns
from watersmeet.promises.axes import Axis
from watersmeet.promises.keeper import PromiseKeeper
from watersmeet.promises.marker_rule import MarkerRule
from watersmeet.promises.order_rule import OrderRule
from watersmeet.promises.remembered import Line
from watersmeet.promises.rules import ClusteredRule, UniqueRule

RARE = {"a bound moves back": 260, "codes of rounded ends count as promised": 200}
"""Where streams begin that show a mistake which few do."""


def bug(kind: str, place: tuple[Any, str], right: str, wrong: str) -> Bug:
    """A bug that is looked for in streams of one type, whose rows have an order."""
    return Bug(kind, place, right, wrong)


BUGS = {
    "a row that breaks a promise counts for others": bug(
        "int64", (promised, "find_broken"), "if cause >= 0:\n            continue", "pass"
    ),
    "a cluster ends with its own value": bug(
        "int64", (promised, "find_broken"), "if value != current[rule]:", "if True:"
    ),
    "equal values break an order": bug(
        "int64", (promised, "find_broken"), "code < bounds[rule] if", "code <= bounds[rule] if"
    ),
    "a bound moves back": bug(
        "int64",
        (promised, "find_broken"),
        "max(bounds[rule], floors[rule, row])",
        "floors[rule, row]",
    ),
    "the slack is forgotten": bug(
        "int64",
        (Axis, "moved"),
        "if slack is None:",
        "if True:",
    ),
    "values fall as if they rose": bug(
        "int64", (OrderRule, "_upwards"), "codes if self.ascending else ~codes", "codes"
    ),
    "what was promised includes the bound itself": bug(
        "int64", (OrderRule, "_tell"), "(0, bound - 1)", "(0, bound)"
    ),
    "NaN is the smallest number": bug("double", (Axis, "encode"), "] = LAST_CODE", "] = 0"),
    "long texts have codes of their own": bug(
        "text", (Axis, "_encode_text"), "np.diff(offsets) <= promised.TEXT_BYTES", "None"
    ),
    "rows before a marker row of their batch break it": bug(
        "int64", (marker_rule, "_inside_later"), "since < came", "since < 2**62"
    ),
    "rows after a marker row of their batch are not checked": bug(
        "int64", (PromiseKeeper, "_causes"), "if speaker is rule:", "if False:"
    ),
    "the first range that covers a place is overwritten": bug(
        "int64", (promised, "paint"), "onward[free] = free + 1", "pass"
    ),
    "a list of values is one of them": bug(
        "int64", (patterns, "_spread"), "starts[parent] + nth", "starts[parent]"
    ),
    "a null in a list stands for any value": bug(
        "int64", (patterns, "_spread"), "present(elements) | ~is_list[parent]", "parent >= 0"
    ),
    "a marker that says nothing about any column is ignored": bug(
        "int64", (MarkerRule, "hear"), "self._everything = True", "pass"
    ),
    "what marker rows said is not saved": bug(
        "int64", (MarkerRule, "load"), "group.memory.load(memory)", "pass"
    ),
    "the open value is not saved": bug(
        "int64",
        (ClusteredRule, "load"),
        'from_json(saved["open"], self.columns.plain_type)',
        "self._open",
    ),
    "the bound is not saved": bug(
        "int64",
        (OrderRule, "load"),
        'from_json(saved["bound"], self._scale.plain_type)',
        "self._bound",
    ),
    "unique keys are forgotten after their batch": bug(
        "int64", (UniqueRule, "accept"), "self.seen.add(self.columns.plain(rows))", "pass"
    ),
    "ranges that touch swallow what lies behind": bug(
        "int64", (Line, "covers"), "codes <= self.ranges", "codes <= 1 + self.ranges"
    ),
    "codes of rounded ends count as promised": bug(
        "text", (marker_rule, "_certain"), "low.codes + one)", "low.codes)"
    ),
}


def look(kind: str, first: int) -> None:
    for seed in range(first, first + 60):
        follow(seed, kind, ordered=True)


@pytest.mark.slow  # the same way as test_keeper.py takes, for each bug
@pytest.mark.parametrize("name", BUGS)
def test_the_model_notices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = BUGS[name]
    planted.plant(monkeypatch)
    # A mistake may be an error of Arrow or numpy, too.
    with pytest.raises(Exception):  # noqa: B017, PT011
        look(planted.algorithm, RARE.get(name, 0))
