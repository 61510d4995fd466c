"""Masters that change while the query runs, and rows that wait for what is to come."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import StreamingQueryException

import watersmeet as wm
from tests.spark.enrich.running import Enrichment, wait_until
from tests.spark.streams.running import LEFT, RIGHT, Rows
from watersmeet.errors import InputChanged, SchemaError
from watersmeet.spark.enrich import laying
from watersmeet.spark.enrich.laying import Effort
from watersmeet.spark.enrich.refreshing import _running, refresh_no_more
from watersmeet.spark.enrich.sources import MasterSource

pytestmark = pytest.mark.spark

EVEN = RIGHT.filter(pc.equal(pc.bit_wise_and(RIGHT["b"], 1), 0))


def with_partner(master: pa.Table) -> pa.Table:
    """The stream rows that have a partner in a master."""
    return LEFT.filter(pc.is_in(LEFT["k"], value_set=master["k"].drop_null()))


def test_a_new_version_is_taken_over_while_the_query_runs(enrichment: Enrichment) -> None:
    """A row that finds no partner waits for it; a new version with other columns ends the query."""
    enrichment.replace_master(EVEN)
    joined = enrichment.joined(
        how="left",
        master=enrichment.path / "right",
        refresh=0.3,
        deadline="1 hour",
        version_column="met",
        ticks=0.2,
        instances=2,
    )
    query = enrichment.start(joined, {"processingTime": "0 seconds"})
    try:
        wait_until(query, lambda: enrichment.is_done(with_partner(EVEN)))
        enrichment.replace_master(RIGHT)
        wait_until(query, lambda: enrichment.versions_laid_down == [0, 1])
        wait_until(query, lambda: enrichment.is_done(with_partner(RIGHT)))
        found = Rows(row for row in enrichment.output().elements() if row[3] is not None)
        first, second = sorted({row[-1] for row in found})
        early = set(with_partner(EVEN)["a"].to_pylist())
        assert {row[-1] for row in found if row[1] in early} == {first}
        assert {row[-1] for row in found if row[1] not in early} == {second}
        expected = enrichment.expected("inner")
        assert Rows(row[:-1] for row in found.elements()) == Rows(
            row for row in expected.elements() if row[1] not in early or row[3] % 2 == 0
        )
        enrichment.replace_master(RIGHT.drop_columns("b_text"))
        with pytest.raises(StreamingQueryException):
            wait_until(query, lambda: False)
        error = wm.stream_error(query)
        assert isinstance(error, SchemaError)
        assert "no column 'b_text'" in str(error)
    finally:
        query.stop()


def test_files_that_are_replaced_after_spark_has_listed_them_are_listed_again(
    enrichment: Enrichment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark would read a column that the new file has not as nulls."""
    path = enrichment.path / "right"
    enrichment.replace_master(EVEN)
    enrichment.joined(master=path, refresh="1 hour")
    keeper = _running[str(enrichment.path / "state")]._keeper
    enrichment.replace_master(RIGHT)
    listed = enrichment.master()
    enrichment.replace_master(RIGHT.drop_columns("b_text"))
    tables = iter([listed, enrichment.master()])
    monkeypatch.setattr(keeper, "_source", MasterSource(lambda: next(tables), changes=True))
    with pytest.raises(SchemaError, match="no column 'b_text'"):
        keeper.look_again(Effort(2**22, at_once=2))
    assert enrichment.versions_laid_down == [0]


def test_a_dataframe_whose_files_have_changed_is_refused(enrichment: Enrichment) -> None:
    listed = enrichment.master()
    enrichment.replace_master(RIGHT.drop_columns("b_text"))
    with pytest.raises(InputChanged, match="since the DataFrame was made"):
        enrichment.joined(master=listed)


@pytest.mark.slow
def test_a_deadline_passes_while_nothing_comes(enrichment: Enrichment) -> None:
    enrichment.replace_master(EVEN)
    joined = enrichment.joined(how="left", deadline=2, ticks=0.2)
    query = enrichment.start(joined, {"processingTime": "0 seconds"})
    try:
        wait_until(query, lambda: enrichment.is_done(LEFT))
    finally:
        query.stop()
    assert enrichment.output() == enrichment.expected("left")


@pytest.mark.slow
def test_old_versions_are_removed_when_nobody_needs_them(
    enrichment: Enrichment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a master that changes while it is laid down is laid down again, but not for ever."""
    path = enrichment.path / "right"
    enrichment.start(enrichment.joined(master=path, refresh="1 hour")).awaitTermination()
    keeper = _running[str(enrichment.path / "state")]._keeper
    effort = Effort(2**22, at_once=2)
    assert keeper.look_again(effort) is None
    enrichment.replace_master(EVEN)
    assert keeper.look_again(effort) is not None
    for number in range(3):
        enrichment.add("left", LEFT.slice(0, 10), f"more-{number}")
        enrichment.run(master=path, refresh="1 hour")
    keeper.clean()
    assert enrichment.versions_laid_down == [1]
    assert [each.name for each in (enrichment.path / "state" / "master").iterdir()].count(
        "00000000"
    ) == 0

    def lay_down_and_change(*arguments: object, **more: object) -> object:
        enrichment.replace_master(RIGHT.slice(0, next(lengths)))
        return lay_down(*arguments, **more)  # type: ignore[arg-type]

    lengths, lay_down = iter(range(100, 200)), laying.lay_down_version
    monkeypatch.setattr("watersmeet.spark.enrich.keeper.lay_down_version", lay_down_and_change)
    enrichment.replace_master(RIGHT)
    refresh_no_more(str(enrichment.path / "state"))
    with pytest.raises((InputChanged, wm.errors.SourceFailed)):
        keeper.look_again(effort)
    assert enrichment.versions_laid_down == [1]
