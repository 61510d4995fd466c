"""The page for newcomers: everything on it that can be copied and pasted, run in order."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "local.md"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_page_can_be_followed_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = str(Path(sys.executable).parent) + os.pathsep + os.environ["PATH"]
    names: dict[str, object] = {}
    shown = []
    for language, text in BLOCK.findall(PAGE.read_text()):
        if language == "python":
            exec(compile(text, str(PAGE), "exec"), names)
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
    told = capsys.readouterr().out
    assert "{'item': 'hat', 'order': 3, 'price': None}" in told
    assert "rows, and most of the input is still to come" in told
    assert "{'ad': 1, 'bid': 9, 'ask': 6}" in told
    assert "50000 rows; 0 were spilled" not in told
    assert "2 rows, then: line cut" in told
    assert '"id","city","person","paid"' in shown[0]
    assert (tmp_path / "payers.parquet").exists()
