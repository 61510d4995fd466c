"""Mistakes in codes and predicates, planted on purpose: the contract must notice each of them."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings

from tests.contract.test_planted_bugs import Bug
from watersmeet.rows import bands
from watersmeet.rows.bands import IntegerBand
from watersmeet.rows.predicates import EqualKeys, ValuesInBand
from watersmeet.rows.schema import JoinSchema
from watersmeet.testing import contract
from watersmeet.testing.strategies import published_joins

# Each with the predicates that bring it out.
BUGS = {
    "a band ends a step too early": Bug(
        "band",
        (IntegerBand, "reach"),
        "_code(_plus(steps, high))",
        "_code(_plus(steps, high - 1))",
    ),
    "a band begins a step too late": Bug(
        "equal and band",
        (IntegerBand, "reach"),
        "_code(_plus(steps, low))",
        "_code(_plus(steps, low + 1))",
    ),
    "negative values have codes above all others": Bug(
        "band",
        (bands, "_code"),
        "steps.view(np.uint64) ^ _SIGN",
        "steps.view(np.uint64)",
    ),
    "a band is not turned round for the other end": Bug(
        "open band",
        (IntegerBand, "reach"),
        "if side is Side.RIGHT else _negated(self.high, self.low)",
        "if side is Side.LEFT else _negated(self.high, self.low)",
    ),
    "values at the end of a band are not in it": Bug(
        "chain",
        (IntegerBand, "holds"),
        "_at_least(y, x, -self.high)",
        "_at_least(y, x, -self.high + 1)",
    ),
    "values are compared with those of the wrong end": Bug(
        "open band",
        (ValuesInBand, "_holds"),
        "self.codec.holds(mine, others)",
        "self.codec.holds(others, mine)",
    ),
    "only the last predicate decides": Bug(
        "equal and band",
        (JoinSchema, "verify"),
        "mask = holds if mask is None else mask & holds",
        "mask = holds",
    ),
    "a null counts in the last predicate only": Bug(
        "equal and band",
        (JoinSchema, "encode"),
        "valid = encoded.valid if valid is None else valid & encoded.valid",
        "valid = encoded.valid",
    ),
    "equal codes are taken for equal keys": Bug(
        "star",
        (EqualKeys, "verifier"),
        "if self.codes_decide:",
        "if True:",
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_the_contract_notices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[name].plant(monkeypatch)
    once = settings(phases=[Phase.generate], report_multiple_bugs=False)
    with pytest.raises(AssertionError):
        contract.check_predicates(published_joins("nested-loop"), BUGS[name].algorithm, search=once)
