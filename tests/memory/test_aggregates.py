"""An aggregate's resident memory, measured by another process, against the memory it was given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cases import MB
from benchmarks.outside import Watched
from tests.memory.aggregates import SHAPES, written

# What joins may hold beyond their cap, too: allocators' slack and buffers of Arrow's readers.
ALLOWANCE = 64 * MB


def measured(folder: Path, order: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """What the process said, and its peak memory above idle."""
    with Watched(["-m", "tests.memory.aggregates"]) as watched:
        watched.say(json.dumps({"folder": str(folder), **order}))
        watched.hear()
        watched.start_from_here()
        watched.say("go")
        said = watched.hear()
        return said, watched.peak_bytes()


def check(shape: str, folder: Path, *, memory: int, looks: bool) -> None:
    question = written(shape, folder)
    said, peak = measured(folder, {"question": question, "memory": memory, "looks": looks})
    if "refused" in said:
        # Only where the groups of the answer alone take more than there is.
        assert shape in ("text groups", "wide texts aside"), said
        assert "groups" in said["refused"]
    else:
        assert said["rows"] == question["rows"]
    assert peak <= memory + ALLOWANCE
    assert not [path for path in folder.iterdir() if path.is_dir()]


@pytest.mark.parametrize(
    "shape",
    ["one row group", "text groups", pytest.param("wide texts aside", marks=pytest.mark.slow)],
)
def test_an_aggregate_stays_within_its_memory(shape: str, tmp_path: Path) -> None:
    check(shape, tmp_path, memory=64 * MB, looks=False)


@pytest.mark.parametrize("memory", [16 * MB, pytest.param(64 * MB, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "shape", ["some other side", pytest.param("large other side", marks=pytest.mark.slow)]
)
def test_inputs_that_are_read_once_stay_within_the_memory(
    shape: str, memory: int, tmp_path: Path
) -> None:
    question = written(shape, tmp_path)
    order = {"question": question, "memory": memory, "looks": True, "streams": True}
    said, peak = measured(tmp_path, order)
    assert said["rows"] == question["rows"]
    assert said["looks"] > 3
    if memory == 16 * MB:
        assert said["design"] == "stream"
    assert peak <= memory + ALLOWANCE
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


@pytest.mark.slow
@pytest.mark.parametrize("looks", [False, True])
@pytest.mark.parametrize("memory", [16 * MB, 64 * MB, 256 * MB])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_stays_within_every_memory(
    shape: str, memory: int, looks: bool, tmp_path: Path
) -> None:
    check(shape, tmp_path, memory=memory, looks=looks)
