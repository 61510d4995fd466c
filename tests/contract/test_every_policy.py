"""Every policy there is, found by looking at what the policy modules define."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import pytest

from watersmeet.model import Side
from watersmeet.operators.progressive.algorithm import PROGRESSIVE
from watersmeet.policies import flush, react
from watersmeet.policies.flush import Held, Victim
from watersmeet.policies.react import Owed, Task, TaskKind
from watersmeet.testing.contract import check_flush_policy, check_react_policy


def policies(module: ModuleType, argument: type) -> dict[str, Any]:
    """The public functions of a module that take what a policy is shown."""
    return {
        name: function
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if not name.startswith("_")
        and list(inspect.get_annotations(function, eval_str=True).values())[:1] == [argument]
    }


FLUSH, REACT = policies(flush, Held), policies(react, Owed)


def test_every_policy_in_use_is_found() -> None:
    assert {a.flush for a in PROGRESSIVE.values()} - {None} <= set(FLUSH.values())
    assert {a.react for a in PROGRESSIVE.values()} - {None} <= set(REACT.values())


@pytest.mark.parametrize("policy", FLUSH.values(), ids=FLUSH.keys())
def test_every_flush_policy_keeps_the_contract(policy: flush.FlushPolicy) -> None:
    check_flush_policy(policy)


@pytest.mark.parametrize("policy", REACT.values(), ids=REACT.keys())
def test_every_react_policy_keeps_the_contract(policy: react.ReactPolicy) -> None:
    check_react_policy(policy)


def forgets_the_right_side(held: Held) -> list[Victim]:
    return [v for v in flush.largest(held) if v.sides == (Side.LEFT,)]


def names_rows_twice(held: Held) -> list[Victim]:
    return flush.largest(held) * 2


def gives_no_reason(held: Held) -> list[Victim]:
    return [victim._replace(reason="") for victim in flush.largest(held)]


def writes_into_what_it_is_shown(held: Held) -> list[Victim]:
    held.rows.sort()
    return flush.largest(held)


@pytest.mark.parametrize(
    "policy",
    [forgets_the_right_side, names_rows_twice, gives_no_reason, writes_into_what_it_is_shown],
)
def test_a_flush_policy_that_breaks_the_contract_is_caught(policy: flush.FlushPolicy) -> None:
    with pytest.raises((AssertionError, ValueError)):
        check_flush_policy(policy)


def always_the_first(owed: Owed) -> Task:
    return Task(TaskKind.DD, 0)


def test_a_react_policy_that_breaks_the_contract_is_caught() -> None:
    with pytest.raises(AssertionError):
        check_react_policy(always_the_first)
