"""Mistakes in codes and predicates, planted on purpose: the contract must notice each of them."""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings

from tests.contract.test_planted_bugs import Bug
from watersmeet.rows import band_codecs as bands
from watersmeet.rows.band_codecs import IntegerBand
from watersmeet.rows.predicates import EqualKeys, ValuesInBand
from watersmeet.rows.schema import JoinSchema
from watersmeet.testing import contract
from watersmeet.testing.family import PublishedJoin
from watersmeet.testing.schedule import Case, End, Push, Step, inputs_of, play
from watersmeet.testing.strategies import published_joins

# Each with the predicates that bring it out.
BUGS = {
    "a band ends a step too early": Bug(
        "band",
        (IntegerBand, "reach"),
        "step_code(_plus(steps, high))",
        "step_code(_plus(steps, high - 1))",
    ),
    "a band begins a step too late": Bug(
        "equal and band",
        (IntegerBand, "reach"),
        "step_code(_plus(steps, low))",
        "step_code(_plus(steps, low + 1))",
    ),
    "negative values have codes above all others": Bug(
        "band",
        (bands, "step_code"),
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
    with pytest.raises(AssertionError):
        run_the_contract(BUGS[name].algorithm)


def run_the_contract(predicates: str) -> None:
    """All small values at every input, as numbers and as texts, and with codes that collide; then
    any schedule."""
    inputs = range(inputs_of(predicates))
    steps: list[Step] = [Push(n, (*range(-4, 5), None)) for n in inputs]
    steps += [End(n) for n in inputs]
    for key in ("int64", "string"):
        for codes in ("true hashes", "every hash 0"):
            case = Case(tuple(steps), key=key, codes=codes, predicates=predicates)
            play(PublishedJoin("nested-loop"), case)
    once = settings(phases=[Phase.generate], report_multiple_bugs=False)
    contract.check_predicates(published_joins("nested-loop"), predicates, search=once)
