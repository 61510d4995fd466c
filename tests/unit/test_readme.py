"""The README's Python runs as it stands and prints what it says it prints."""

from __future__ import annotations

import ast
import contextlib
import io
import re
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```\s+```text\n(.*?)```", README, re.DOTALL)


def rows_of(printed: str) -> list[str]:
    """Every row on its own: which rows share a batch depends on which source is first."""
    return sorted(str(row) for line in printed.splitlines() for row in ast.literal_eval(line))


def test_the_readme_has_an_example() -> None:
    assert EXAMPLES


@pytest.mark.parametrize(("code", "printed"), EXAMPLES)
def test_an_example_prints_what_the_readme_shows(code: str, printed: str) -> None:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    assert rows_of(output.getvalue()) == rows_of(printed)
