"""The cap against the size of batches, the width of rows, the kind of source and the algorithm.

Anonymous memory of the joining process above idle, seen from another process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cases import MB
from benchmarks.memory_worker import FILES, Shape, write
from benchmarks.outside import Watched
from watersmeet.operators.family import ALGORITHMS

CAP = 64 * MB
ALLOWANCE = 64 * MB
SPILLING = [name for name in ALGORITHMS if name != "shj"] + ["miner", "mjoin"]
SOURCES = ["iterator", "reader", "table", "pandas", "dataset", "duckdb", *FILES]
WIDTHS = [40, 4_000, 400_000]
SHARES = [1 / 32, 1 / 8, 1 / 2, 0.95]
NESTED = ["list", "struct", "map", "dictionary", "view"]


def every_source() -> Iterator[Any]:
    """What is known to pass the cap is marked so."""
    for source, width, share in product(SOURCES, WIDTHS, SHARES):
        marks = []
        if width == 400_000 and share >= 1 / 2:
            if source.startswith("parquet") or source == "dataset":
                # pyarrow looks at a page's size after 1,024 values, so here a row group is one.
                # At half of the cap some of these just fit.
                why = "Arrow holds a Parquet page whole, and twice"
                marks = [pytest.mark.xfail(reason=why, strict=False)]
            elif source == "duckdb":
                # 198 MB over the cap at a half; at 0.95 DuckDB itself runs out of memory.
                marks = [pytest.mark.xfail(reason="DuckDB's own memory comes on top", strict=False)]
        yield pytest.param(source, width, share, marks=marks)


def shaped(source: str, width: int, share: float, *, times: float, payload: str = "text") -> Shape:
    """Inputs of so many times the cap, in batches of a share of it."""
    rows = int(CAP * times / 2 / (width + 16))
    batch_rows = max(1, int(CAP * share / (width + 16)))
    return Shape(source=source, rows=rows, width=width, batch_rows=batch_rows, payload=payload)


def joined(
    shape: Shape, algorithm: str, folder: Path, *, threads: int = 1
) -> tuple[dict[str, Any], int]:
    """What the process said, and its peak above idle."""
    if shape.source in (*FILES, "dataset", "duckdb"):
        for side in (0, 1):
            write(shape, side, folder)
    settings = {"algorithm": algorithm, "memory": CAP, "spill_dir": str(folder)}
    if threads > 1:
        settings["threads"] = threads
    order = {"shape": asdict(shape), "folder": str(folder), "settings": settings}
    with Watched(["-m", "benchmarks.memory_worker"], look_every_s=0.005) as watched:
        watched.say(json.dumps(order))
        watched.hear()
        watched.start_from_here()
        watched.say("go")
        said = watched.hear()
        return said, watched.peak_anonymous_bytes()


def check(shape: Shape, algorithm: str, folder: Path, *, threads: int = 1) -> None:
    said, peak = joined(shape, algorithm, folder, threads=threads)
    total = shape.rows * (shape.rows - 1) // 2
    assert said["failure"] is None
    assert (said["rows"], said["left"], said["right"]) == (shape.rows, total, total)
    assert said["own_peak"] <= 1.05 * CAP
    assert peak <= CAP + ALLOWANCE


@pytest.mark.parametrize(
    ("source", "share", "algorithm"),
    [
        ("iterator", 0.95, "rpj"),
        pytest.param("iterator", 1 / 2, "pr-join", marks=pytest.mark.slow),
        ("parquet-dictionary", 1 / 2, "rpj"),
        ("iterator", 0.95, "diner"),
        ("parquet", 1 / 2, "miner"),
        pytest.param("arrow", 1 / 2, "pmj", marks=pytest.mark.slow),
        # Its batches are decompressed whole: beside other tests the two inputs' once took 138 MB.
        pytest.param("arrow-lz4", 0.95, "xjoin", marks=pytest.mark.slow),
        pytest.param("arrow-lz4", 0.95, "diner", marks=pytest.mark.slow),
    ],
)
def test_the_cap_holds(source: str, share: float, algorithm: str, tmp_path: Path) -> None:
    check(shaped(source, 4_000, share, times=2), algorithm, tmp_path)


@pytest.mark.parametrize(
    "payload", ["list", *(pytest.param(p, marks=pytest.mark.slow) for p in ("struct", "map"))]
)
def test_the_cap_holds_for_nested_columns(payload: str, tmp_path: Path) -> None:
    check(shaped("iterator", 1_000, 1 / 4, times=1.5, payload=payload), "rpj", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("source", "width", "share"), list(every_source()))
def test_the_cap_holds_for_every_source(
    source: str, width: int, share: float, tmp_path: Path
) -> None:
    check(shaped(source, width, share, times=3), "rpj", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("share", [1 / 8, 0.95])
@pytest.mark.parametrize("width", [40, 4_000])
@pytest.mark.parametrize("payload", NESTED)
@pytest.mark.parametrize("source", ["iterator", "parquet", "arrow-lz4"])
def test_the_cap_holds_for_every_layout(
    source: str, payload: str, width: int, share: float, tmp_path: Path
) -> None:
    check(shaped(source, width, share, times=3, payload=payload), "rpj", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("payload", ["list", "map"])
@pytest.mark.parametrize("algorithm", SPILLING)
def test_the_cap_holds_for_lists_in_every_algorithm(
    algorithm: str, payload: str, tmp_path: Path
) -> None:
    check(shaped("iterator", 1_000, 1 / 2, times=3, payload=payload), algorithm, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("algorithm", SPILLING)
def test_the_cap_holds_for_every_algorithm(algorithm: str, share: float, tmp_path: Path) -> None:
    check(shaped("iterator", 1_000, share, times=3), algorithm, tmp_path)


@pytest.mark.parametrize(
    ("source", "width", "share", "algorithm", "threads"),
    [
        ("iterator", 40, 1 / 32, "rpj", 2),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in [
                ("iterator", 4_000, 0.95, "rpj", 2),
                ("iterator", 4_000, 1 / 2, "rpj", 2),
                ("parquet", 40, 1 / 32, "rpj", 2),
                ("iterator", 4_000, 1 / 8, "pmj", 2),
                ("iterator", 4_000, 1 / 8, "xjoin", 2),
                ("iterator", 40, 1 / 8, "diner", 2),
                ("iterator", 40, 1 / 8, "pr-join", 2),
                ("csv", 40, 1 / 32, "hmj", 2),
                ("iterator", 400_000, 1 / 32, "rpj", 2),
            ]
        ),
    ],
)
def test_threads_share_one_cap(
    source: str, width: int, share: float, algorithm: str, threads: int, tmp_path: Path
) -> None:
    check(shaped(source, width, share, times=3), algorithm, tmp_path, threads=threads)
