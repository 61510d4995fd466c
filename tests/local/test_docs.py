"""The page for newcomers: everything on it that can be copied and pasted, run in order."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
BETWEEN = "---- the next block"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def follow(
    page: Path, cwd: Path, monkeypatch: pytest.MonkeyPatch, *, until: str = "\0"
) -> list[str]:
    """Run its Python and its commands from top to bottom, or to a heading; what these printed."""
    monkeypatch.chdir(cwd)
    commands = str(Path(sys.executable).parent) + os.pathsep + os.environ["PATH"]
    names: dict[str, object] = {}
    shown = []
    for language, text in BLOCK.findall(page.read_text().partition(until)[0]):
        if language == "python":
            exec(compile(text, str(page), "exec"), names)
            print(BETWEEN)
        else:
            ran = subprocess.run(
                ["sh", "-ec", text],
                env=os.environ | {"PATH": commands},
                capture_output=True,
                text=True,
                timeout=120,
                check=True,
            )
            shown.append(ran.stdout)
    return shown


def in_outline(printed: str) -> list[str]:
    """Without its numbers: times differ."""
    return [re.sub(r"\d[\d,.]*", "0", line) for line in printed.strip().splitlines()]


def test_the_page_can_be_followed_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = follow(DOCS / "local.md", tmp_path, monkeypatch)
    told = capsys.readouterr().out
    assert "{'item': 'hat', 'order': 3, 'price': None}" in told
    assert "rows, and most of the input is still to come" in told
    assert "{'ad': 1, 'bid': 9, 'ask': 6}" in told
    assert "50000 rows; 0 were spilled" not in told
    assert "2 rows, then: line cut" in told
    assert f"[{{'total': {50_000 * 49_999 // 2 + 50_000}, 'n': 50000}}]" in told
    assert '"id","city","person","paid"' in shown[0]
    assert (tmp_path / "payers.parquet").exists()


def test_the_page_about_aggregates_shows_what_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = DOCS / "aggregates.md"
    (said,) = follow(page, tmp_path, monkeypatch)
    told = capsys.readouterr().out.split(f"{BETWEEN}\n")
    shown = re.findall(r"^```text\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    first, second, third, _, fourth, streamed, _ = told
    for printed, promised in zip((first, second, third, fourth), shown, strict=True):
        assert in_outline(printed) == in_outline(promised)
    # Seeded: all but the times is the same on every machine.
    rows = [line for line in first.splitlines() if line.startswith("  ")]
    assert rows == [line for line in shown[0].splitlines() if line.startswith("  ")]
    assert second.splitlines()[3:6] == shown[1].splitlines()[3:6]
    assert "exact" in streamed.splitlines()[-4]
    assert said.startswith("exact after")
    assert json.loads(said.splitlines()[-1])["exact"] is True


def test_the_page_about_bands_shows_what_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = DOCS / "bands.md"
    follow(page, tmp_path, monkeypatch)
    told = capsys.readouterr().out.split(f"{BETWEEN}\n")
    shown = re.findall(r"^```text\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    for printed, promised in zip(told, shown, strict=False):
        # Which rows share a batch depends on which input is read first.
        rows = [row for line in printed.splitlines() for row in ast.literal_eval(line)]
        assert sorted(map(str, rows)) == sorted(map(str, ast.literal_eval(promised)))
    assert len(shown) == 5


def test_the_page_about_enrichment_shows_what_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, until = DOCS / "enrich.md", "\n## On Spark"
    (enriched,) = follow(page, tmp_path, monkeypatch, until=until)
    first, versions, explained, *_ = capsys.readouterr().out.split(f"{BETWEEN}\n")
    text = page.read_text().partition(until)[0]
    shown = re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert sorted(first.splitlines()) == sorted(shown[0].splitlines())
    assert versions == shown[1]
    names = [
        re.findall(r"^[a-z]+|^\d+ rows$", each, re.MULTILINE) for each in (explained, shown[2])
    ]
    assert names[0] == names[1]
    assert len(names[0]) > 8
    assert sorted(enriched.splitlines()) == sorted(
        ['"item","price"', '"pen",1.5', '"cup",4', '"hat",']
    )


def test_the_page_about_promises_shows_what_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page, until = DOCS / "promises.md", "\n## On Spark"
    follow(page, tmp_path, monkeypatch, until=until)
    told = capsys.readouterr().out.split(f"{BETWEEN}\n")[:-1]
    text = page.read_text().partition(until)[0]
    shown = re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    first, explained, marked, close, unmatched, failed, aside, passed, chained = told
    for printed, promised in zip(told, shown, strict=True):
        # Which input is read first decides the order of rows, and how many are kept for a while.
        assert sorted(in_outline(printed)) == sorted(in_outline(promised))
    exact = {0: first, 4: unmatched, 5: failed, 6: aside, 7: passed, 8: chained}
    for place, printed in exact.items():
        assert sorted(printed.splitlines()) == sorted(shown[place].splitlines())
    assert explained.startswith("left rows  bounded by punctuated")
    assert marked.splitlines()[0] == shown[2].splitlines()[0]
    for printed, promised in zip(close.splitlines(), shown[3].splitlines(), strict=True):
        assert printed.partition(" out,")[0] == promised.partition(" out,")[0]
    peaks = [
        int(re.sub(r".*at most ([\d,]+) kB", r"\1", each).replace(",", ""))
        for each in close.splitlines()
    ]
    one, two, promised_one, promised_two = peaks
    assert two > 1.7 * one
    assert promised_two < 1.5 * promised_one < two / 2
