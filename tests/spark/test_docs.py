"""The page about Spark: everything on it that can be copied and pasted, run in order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import watersmeet as wm
from tests.spark.session import QUICKER

pytestmark = pytest.mark.spark

JAVA = "spark.driver.extraJavaOptions"

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "spark.md").read_text()
CODE = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
BETWEEN = "---- the next block"


def in_outline(printed: str) -> list[str]:
    """Without its numbers: times differ."""
    return [re.sub(r"\d[\d,.]*", "0", line) for line in printed.strip().splitlines()]


def test_the_page_can_be_followed_from_top_to_bottom(tmp_path: Path) -> None:
    """In a process of its own: the page writes into the directory in which Java was started."""
    java = {JAVA: QUICKER[JAVA]}
    start = f'import watersmeet as wm\nwm.session(cores=2, memory="1GB", **{java})\n'
    program = start + f"print({BETWEEN!r})\n".join(CODE)
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    (
        waves, asked, close, explained, called, many, estimated, first, streamed, paths, ended,
        elements, many_streamed, enriched, advised, counted, batches, in_words, error,
    ) = ran.stdout.split(f"{BETWEEN}\n")  # fmt: skip
    shown = re.findall(r"^```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert in_outline(waves) == in_outline(shown[0])
    assert "4,000,000 results" in waves.splitlines()[-1]
    assert asked == shown[1]
    assert in_outline(close) == in_outline(shown[2])
    storage = re.compile("^storage .*", re.MULTILINE)
    assert storage.sub("", explained) == storage.sub("", shown[3])
    assert called == shown[4]
    assert many == shown[5]
    assert in_outline(estimated) == in_outline(shown[6])
    assert "Row(revenue=19980000.0, n=4000000)" in estimated
    assert first == shown[7]
    assert streamed == shown[8]
    taken = re.compile("^(?:left|right) +.*path: .*", re.MULTILINE)
    assert taken.findall(paths) == taken.findall(shown[9]) != []
    assert ended == ""
    assert elements == shown[10]
    assert many_streamed == shown[11]
    assert enriched == shown[12]
    assert advised == "nothing to set\n"
    assert counted.splitlines()[:2] == shown[13].splitlines()[:2]
    assert in_outline(batches) == in_outline(shown[14])
    # Where a line ends depends on its numbers.
    facts = re.compile(r"^[a-z]+", re.MULTILINE)
    assert facts.findall(in_words) == facts.findall(shown[15])
    assert "200,000 stream rows so far; 0 wait for the scan now" in in_words
    assert error == ""
    assert not list(tmp_path.glob("watersmeet-*"))


def test_the_page_about_promises_can_be_followed_on_spark(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Its part about Spark, after what comes before; its files have absolute paths."""
    monkeypatch.chdir(tmp_path)
    part = (DOCS / "promises.md").read_text().partition("\n## On Spark")[2]
    names = {"wm": wm, "pa": pa, "pq": pq, "Path": Path}
    for code, shown in re.findall(
        r"^```python\n(.*?)^```\n\n(?:.*?^```text\n(.*?)^```)?", part, re.MULTILINE | re.DOTALL
    ):
        exec(compile(code, "promises.md", "exec"), names)
        assert capsys.readouterr().out == shown
