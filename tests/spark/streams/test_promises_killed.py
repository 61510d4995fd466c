"""Joins with promises that are killed in the middle: each row once, those put aside too."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.streams.faults import Fault, Faults
from tests.spark.streams.killing import PLACES, end, kill_when, start_driver
from tests.spark.streams.promised_cases import CASES, PassedOn, Promised, Watermarks

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(params=sorted(CASES))
def case(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def promised(case: str, spark: SparkSession, tmp_path: Path) -> Promised:
    return CASES[case](spark, tmp_path).send()


def check(promised: Promised) -> None:
    expected = promised.expected_pairs()
    assert promised.found_pairs() == expected
    assert expected.total() > 30
    assert any(view is None for _, view in expected)
    assert promised.told_broken() == promised.broken
    assert len(promised.late) == promised.broken.total() > 5
    if isinstance(promised, Watermarks):
        assert promised.aside() == dict.fromkeys(promised.late, 1)
    if isinstance(promised, PassedOn):
        assert promised.users_told() == dict.fromkeys(range(36), 1)


@pytest.mark.parametrize("what", ["raise", "worker"])
def test_workers_are_killed(promised: Promised, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each place once, in batches whose rows are put aside among others."""
    turns = [(batch, instance) for batch in (2, 3, 4) for instance in (0, 1)]
    faults = [
        Fault(where, what, promised.path / f"struck-{where}", batch, instance)
        for where, (batch, instance) in zip(PLACES, turns, strict=False)
    ]
    monkeypatch.setattr("watersmeet.spark.streams.join.run_batch", Faults(faults))
    promised.run()
    assert all(fault.marker.exists() for fault in faults)
    check(promised)


@pytest.mark.parametrize("where", ["files", "after"])
def test_the_driver_is_killed(promised: Promised, case: str, where: str) -> None:
    """With state and rows that were put aside half written, or committed and not yet seen."""
    with start_driver(promised, where, case) as driver:
        try:
            output, _ = driver.communicate(timeout=400)
        finally:
            end(driver)
    assert "done" not in output
    assert (promised.path / "struck").exists(), output
    promised.run()
    check(promised)


@pytest.mark.parametrize("seed", range(4))
def test_the_driver_is_killed_at_any_moments(promised: Promised, case: str, seed: int) -> None:
    """Twice: while the query runs, and when it goes on."""
    chance = random.Random(f"{case} {seed}")
    first = chance.randrange(5, 150)
    kill_when(promised, first, case)
    kill_when(promised, first + chance.randrange(5, 60), case)
    promised.run()
    check(promised)
