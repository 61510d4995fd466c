"""The README's Python runs as it stands and prints what it says it prints."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

README = (Path(__file__).parents[2] / "README.md").read_text()
ON_SPARK, AGGREGATE, STREAMS, LOCAL, BAND, ENRICH = re.findall(
    r"```python\n(.*?)```", README, re.DOTALL
)
SHOWN_ON_SPARK, SHOWN_AGGREGATE, SHOWN_STREAMS, SHOWN_LOCAL, SHOWN_BAND, SHOWN_ENRICH = re.findall(
    r"```text\n(.*?)```", README, re.DOTALL
)


def run(code: str, **names: object) -> dict[str, object]:
    names["__name__"] = "readme"
    exec(compile(code, "README.md", "exec"), names)
    return names


def in_outline(printed: str) -> list[str]:
    """Without its numbers: times differ, and what a wave holds depends on the machine's cores."""
    return [re.sub(r"\d[\d,.]*", "0", line) for line in printed.strip().splitlines()]


@pytest.mark.spark
def test_the_first_example_joins_two_tables_on_spark(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It calls `wm.session()`, and gets the one that is running."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run(ON_SPARK)
    printed = capsys.readouterr().out
    assert in_outline(printed) == in_outline(SHOWN_ON_SPARK)
    # Every visit has one order.
    assert "\n4,000,000 rows so far" in printed
    # Results stay as long as Java has a DataFrame that can read them; nothing else does.
    remaining = {path.suffix for path in tmp_path.glob("watersmeet-*/*")}
    assert remaining <= {".parquet", ".lock"}


@pytest.mark.spark
def test_the_second_is_an_estimate_that_shrinks(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    names = run(AGGREGATE)
    printed = capsys.readouterr().out
    assert in_outline(printed) == in_outline(SHOWN_AGGREGATE)
    # Seeded: all but the times is the same on every machine.
    assert _cells(printed) == _cells(SHOWN_AGGREGATE)
    errors = [estimate.relative_error for estimate in names["run"].history]  # type: ignore[attr-defined]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] == 0
    answer = names["sales"].join(names["customers"], "customer").groupBy("kind").count()  # type: ignore[attr-defined]
    assert {f"{row['count']:,}" for row in answer.collect()} <= set(printed.split())
    assert [path.suffix for path in tmp_path.iterdir()] == [""], "only the two tables remain"


def _cells(printed: str) -> list[str]:
    return [line for line in printed.splitlines() if line.startswith("  ")]


@pytest.mark.spark
def test_the_third_joins_two_streams(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Java does not change its directory with us.
    monkeypatch.chdir(tmp_path)
    run(re.sub(r'"(arriving|clicks)', rf'"{tmp_path}/\1', STREAMS))
    assert capsys.readouterr().out == SHOWN_STREAMS


def test_the_fourth_joins_without_spark(capsys: pytest.CaptureFixture[str]) -> None:
    run(LOCAL)
    assert _rows(capsys.readouterr().out) == _rows(SHOWN_LOCAL)


def test_the_fifth_joins_values_that_are_close(capsys: pytest.CaptureFixture[str]) -> None:
    run(BAND)
    assert _rows(capsys.readouterr().out) == _rows(SHOWN_BAND)


def test_the_sixth_enriches_a_stream(capsys: pytest.CaptureFixture[str]) -> None:
    run(ENRICH)
    assert _rows(capsys.readouterr().out) == _rows(SHOWN_ENRICH)


def _rows(printed: str) -> list[str]:
    """Every row on its own: which rows share a batch depends on which source is first."""
    return sorted(str(row) for line in printed.splitlines() for row in ast.literal_eval(line))
