"""Killed in the middle: the rows are those of an undisturbed run, each of one version."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from tests.spark.enrich.running import OPTIONS, Enrichment
from tests.spark.streams.faults import Fault, Faults
from tests.spark.streams.killing import PLACES, end
from tests.spark.streams.running import LEFT, RIGHT, Rows, counted

pytestmark = pytest.mark.spark

HERE = Path(__file__).parents[3]
RUN = "watersmeet.spark.enrich.enrich.run_batch"


@pytest.mark.parametrize(
    ("what", "places"),
    [
        ("worker", ["after"]),
        pytest.param("worker", PLACES, marks=pytest.mark.slow),
        pytest.param("raise", PLACES, marks=pytest.mark.slow),
    ],
)
def test_tasks_that_failed_are_run_again(
    enrichment: Enrichment, what: str, places: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each place once, in one query: another attempt goes on as if nothing had happened."""
    if len(places) > 1:
        for number in range(2):
            enrichment.add("left", LEFT.slice(100 * number, 100), f"more-{number}")
    turns = [(batch, instance) for batch in (0, 1, 2, 3) for instance in (0, 1)]
    faults = [
        Fault(where, what, enrichment.path / f"struck-{where}", batch, instance)
        for where, (batch, instance) in zip(places, turns[1:], strict=False)
    ]
    monkeypatch.setattr(RUN, Faults(faults))
    found = enrichment.run(instances=2, how="left", memory="2MB")
    assert all(fault.marker.exists() for fault in faults)
    assert found == enrichment.expected("left")


MORE = LEFT.slice(0, 1500).set_column(1, "a", pa.array(range(10**6, 10**6 + 1500)))
CHANGED = RIGHT.slice(0, 1200)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["laying", "published", *PLACES])
def test_the_driver_is_killed_while_the_master_changes(enrichment: Enrichment, where: str) -> None:
    """While the new version is laid down, before a batch has it, in the batch that brings it."""
    enrichment.options |= OPTIONS
    first = enrichment.run()
    batch = max(enrichment.versions()[0]) + 1
    enrichment.replace_master(CHANGED)
    enrichment.add("left", MORE, "more")
    command = [sys.executable, "-m", "tests.spark.enrich.driver"]
    command += [str(enrichment.path), where, str(batch)]
    with subprocess.Popen(
        command,
        cwd=HERE,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as driver:
        try:
            output, _ = driver.communicate(timeout=400)
        finally:
            end(driver)
    assert "done" not in output
    assert (enrichment.path / "struck").exists(), output
    assert enrichment.versions_laid_down == ([0] if where == "laying" else [0, 1])
    second = enrichment.run() - first
    (version,) = {row[-1] for row in second}
    assert version > max(row[-1] for row in first)
    more = enrichment.spark.createDataFrame(MORE).join(enrichment.master(), "k", "left")
    assert Rows(row[:-1] for row in second.elements()) == counted(more)
    assert enrichment.versions_laid_down == [0, 1]


@pytest.mark.slow
def test_the_driver_is_killed_while_the_first_version_is_laid_down(
    enrichment: Enrichment,
) -> None:
    enrichment.options |= OPTIONS
    command = [sys.executable, "-m", "tests.spark.enrich.driver", str(enrichment.path), "laying"]
    command.append("0")
    with subprocess.Popen(command, cwd=HERE, start_new_session=True, text=True) as driver:
        try:
            driver.wait(400)
        finally:
            end(driver)
    assert (enrichment.path / "struck").exists()
    assert enrichment.versions_laid_down == []
    found = enrichment.run()
    assert Rows(row[:-1] for row in found.elements()) == enrichment.expected("left")
