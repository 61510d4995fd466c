"""What local.aggregate refuses, before any work; and inputs that change while they are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from tests.aggregates.readings import blocks_of
from watersmeet.aggregates.run import AggregateRun
from watersmeet.aggregates.sampling.designs import RIPPLE
from watersmeet.errors import (
    InputChanged,
    InvalidArgument,
    MemoryTooSmall,
    RunClosed,
    SchemaError,
    SpillError,
    WatersmeetError,
)

LEFT = pa.table(
    {"k": [1, 2], "a": [1, 2], "word": ["x", "y"], "same": [1, 2], "both": [{"p": 1}, {"p": 2}],
     "list": [[1], [2]], "n_low": [1, 2]}
)  # fmt: skip
RIGHT = pa.table({"k": [1, 2], "b": [1, 2], "same": [1, 2]})
COUNT: dict[str, Any] = {"n": wm.count()}


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"confidence": 0, **COUNT}, InvalidArgument, "confidence=0"),
        ({"confidence": 1.0, **COUNT}, InvalidArgument, "confidence=1.0"),
        ({"confidence": float("nan"), **COUNT}, InvalidArgument, "confidence=nan"),
        ({"confidence": "95%", **COUNT}, InvalidArgument, "confidence='95%'"),
        ({"confidence": True, **COUNT}, InvalidArgument, "confidence=True"),
        ({}, InvalidArgument, "no aggregate"),
        ({"n": 3}, InvalidArgument, "n=3 is no aggregate"),
        ({"s": wm.sum("nobody")}, SchemaError, "'nobody'"),
        ({"s": wm.sum("same")}, SchemaError, "Both inputs have a column 'same'"),
        ({"s": wm.sum("word")}, SchemaError, "no number"),
        ({"s": wm.sum("a +")}, InvalidArgument, "no SQL expression"),
        ({"s": wm.sum("a" + " + 1" * 3000)}, InvalidArgument, "nested too deeply"),
        ({"s": wm.sum("(" * 900 + "a" + ")" * 900)}, InvalidArgument, "nested too deeply"),
        ({"s": wm.sum("CAST(a AS decimal(x))")}, InvalidArgument, "more than arithmetic"),
        ({"s": wm.sum("a + 300Y")}, InvalidArgument, "more than arithmetic"),
        ({"s": wm.sum("both.p")}, SchemaError, "names neither input"),
        ({"s": wm.sum(3)}, InvalidArgument, "expression of s is 3"),  # type: ignore[arg-type]
        ({"s": wm.sum("  ")}, InvalidArgument, "expression of s is"),
        ({"group_by": "nobody", **COUNT}, SchemaError, "'nobody'"),
        ({"group_by": 3, **COUNT}, InvalidArgument, "group_by=3"),
        ({"group_by": ["word", "WORD"], **COUNT}, InvalidArgument, "twice"),
        ({"group_by": "a", "a": wm.count()}, InvalidArgument, "both an aggregate and a column"),
        ({"group_by": "both", **COUNT}, SchemaError, "'both', which is of type struct"),
        ({"group_by": ["word", "list"], **COUNT}, SchemaError, "'list', which is of type list"),
        ({"group_by": "n_low", **COUNT}, InvalidArgument, "n_low is asked for"),
        ({"n_high": wm.sum("a"), **COUNT}, InvalidArgument, "n_high is asked for"),
        ({"seed": "x", **COUNT}, InvalidArgument, "seed='x'"),
        ({"seed": True, **COUNT}, InvalidArgument, "seed=True"),
        ({"seed": 1.5, **COUNT}, InvalidArgument, "seed=1.5"),
        ({"simultaneous": "no", **COUNT}, InvalidArgument, "simultaneous='no'"),
        ({"every_look": 1, **COUNT}, InvalidArgument, "every_look=1"),
        ({"heavy_tails": "drop", **COUNT}, InvalidArgument, "heavy_tails='drop'"),
        ({"heavy_tails": ["flag"], **COUNT}, InvalidArgument, "heavy_tails="),
        ({"where": "a + 1", **COUNT}, InvalidArgument, "neither true nor false"),
        ({"where": 3, **COUNT}, InvalidArgument, "where=3 is no text"),
        ({"where": "nobody > 1", **COUNT}, SchemaError, "'nobody'"),
        ({"how": "full", **COUNT}, InvalidArgument, "full join"),
        ({"how": "sideways", **COUNT}, InvalidArgument, "sideways"),
        ({"how": 3, **COUNT}, InvalidArgument, "how=3"),
        ({"how": "left", "where": "b > 1", **COUNT}, InvalidArgument, "right side of a left join"),
        ({"how": "left", "where": "a > b", **COUNT}, InvalidArgument, "right side of a left join"),
        ({"how": "right", "where": "a > 1", **COUNT}, InvalidArgument, "left side of a right join"),
        ({"how": "semi", "s": wm.sum("b")}, InvalidArgument, "no columns of the right side"),
        ({"how": "anti", "group_by": "b", **COUNT}, InvalidArgument, "no columns of the right"),
        ({"memory": 0, **COUNT}, MemoryTooSmall, "Give at least 1MB"),
        ({"memory": "1KB", **COUNT}, MemoryTooSmall, "memory='1KB' is 1,024 bytes"),
        ({"memory": 2**20 - 1, **COUNT}, MemoryTooSmall, "too little for an aggregate"),
        ({"memory": 1.5, **COUNT}, InvalidArgument, "memory=1.5"),
        ({"spill_dir": 3, **COUNT}, InvalidArgument, "spill_dir=3"),
        ({"spill_dir": "/not/there", **COUNT}, SpillError, "/not/there"),
        ({"memory": "much", **COUNT}, InvalidArgument, "memory='much'"),
        ({"memory": -1, **COUNT}, InvalidArgument, "memory=-1"),
        ({"on": "nobody", **COUNT}, SchemaError, "'nobody'"),
        ({"on": [("k", "word")], **COUNT}, SchemaError, "word"),
        ({"on": [], **COUNT}, InvalidArgument, "names no key"),
        ({"on": wm.within("k", 1), **COUNT}, InvalidArgument, "k within 1.*equal keys"),
        ({"on": ["k", wm.within(("a", "b"), 1)], **COUNT}, InvalidArgument, "where="),
    ],
)
def test_refused(options: dict[str, Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words.replace("+", r"\+")) as caught:
        wm.local.aggregate(LEFT, RIGHT, **{"on": "k", **options})
    assert isinstance(caught.value, WatersmeetError)
    assert caught.value.cause
    assert caught.value.remedy


def test_a_left_join_whose_other_side_does_not_fit_is_refused() -> None:
    rows = pa.table({"k": np.arange(60_000)})
    with pytest.raises(InvalidArgument, match="does not fit in memory"):
        wm.local.aggregate(LEFT, rows, on="k", how="left", memory="1MB", **COUNT)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "no condition"),
        ({"relative_error": 0}, "relative_error=0"),
        ({"relative_error": "a little"}, "relative_error='a little'"),
        ({"relative_error": "200%"}, "relative_error='200%'"),
        ({"fraction": 1.5}, "fraction=1.5"),
        ({"fraction": True}, "fraction=True"),
        ({"seconds": 0}, "seconds=0"),
        ({"seconds": float("nan")}, "seconds=nan"),
        ({"seconds": 1, "otherwise": "worst"}, "otherwise='worst'"),
    ],
)
def test_conditions_that_make_no_sense(options: dict[str, Any], words: str) -> None:
    """Found at the call, not when somebody looks at the first estimate."""
    with (
        wm.local.aggregate(LEFT, RIGHT, on="k", **COUNT) as run,
        pytest.raises(InvalidArgument, match=words),
    ):
        run.until(**options)


def test_a_closed_run_keeps_what_it_knows_and_does_no_more(tmp_path: Path) -> None:
    run = asked(tmp_path)
    first = run.latest
    run.close()
    run.close()
    assert run.history == [first]
    assert run.latest is first
    for act in (run.exact, run.resume, lambda: list(run)):
        with pytest.raises(RunClosed, match="closed"):
            act()
    kept = run.until(relative_error=1e-9)
    assert next(kept) is first
    with pytest.raises(RunClosed):
        next(kept)
    with pytest.raises(WatersmeetError, match="exact answer is known"):
        run.score()


# ---- files --------------------------------------------------------------------------------------

ROWS = 12_000


def write(path: Path, rows: int = ROWS, **columns: Any) -> Path:
    table = pa.table({"k": np.arange(rows), "x": np.arange(float(rows)), **columns})
    # Row groups of 50: more than one look.
    pq.write_table(table, path, row_group_size=50, write_statistics=False)
    return path


def asked(folder: Path, **options: Any) -> AggregateRun:
    left = write(folder / "l.parquet")
    right = pa.table({"k": np.arange(ROWS)})
    if options:
        right = write(folder / "r.parquet")
    return wm.local.aggregate(left, right, on="k", n=wm.count(), **options)


@pytest.fixture(params=["complete", "ripple"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AggregateRun]:
    options = {"memory": "1MB"} if request.param == "ripple" else {}
    with asked(tmp_path, **options) as run:
        assert str(blocks_of(run).plan.design) == request.param
        yield run


@pytest.mark.parametrize("change", ["gone", "rewritten", "longer", "cut short"])
def test_a_file_that_changes_while_it_is_read(
    run: AggregateRun, tmp_path: Path, change: str
) -> None:
    assert not run.latest.exact
    path = tmp_path / "l.parquet"
    match change:
        case "gone":
            path.unlink()
        case "rewritten":
            write(path, ROWS - 1)
        case "longer":
            path.write_bytes(path.read_bytes() + b"more")
        case "cut short":
            path.write_bytes(path.read_bytes()[:-1000])
    for _ in range(2):
        with pytest.raises(InputChanged, match=r"l\.parquet"):
            run.exact()
    assert len(run.history) == 1


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "l.parquet"
    path.write_bytes(b"PAR1 and then nothing")
    with pytest.raises(InvalidArgument, match=r"l\.parquet.* cannot be read as Parquet"):
        wm.local.aggregate(path, RIGHT, on="k", n=wm.count())
    with pytest.raises(InvalidArgument, match="nowhere"):
        wm.local.aggregate(tmp_path / "nowhere.parquet", RIGHT, on="k", n=wm.count())


@pytest.mark.parametrize("other", [{"k": ["text"]}, {"x": [1.0]}])
def test_files_of_one_table_with_different_columns(tmp_path: Path, other: dict[str, Any]) -> None:
    (tmp_path / "l").mkdir()
    write(tmp_path / "l" / "0.parquet")
    pq.write_table(pa.table(other), tmp_path / "l" / "1.parquet")
    with pytest.raises(SchemaError, match=r"1\.parquet has no column 'k' of type int64"):
        wm.local.aggregate(tmp_path / "l", RIGHT, on="k", n=wm.count())


def test_what_can_only_be_read_once_must_fit_in_memory_for_an_outer_join() -> None:
    rows = pa.record_batch({"k": np.arange(50_000), "a": np.arange(50_000)})
    batches = (batch for batch in [rows] * 3)
    with pytest.raises(InvalidArgument, match="does not fit in memory"):
        wm.local.aggregate(batches, RIGHT, on="k", how="left", memory="1MB", n=wm.count())


def test_nothing_is_left_in_the_spill_directory(tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    spill.mkdir()
    with asked(tmp_path, memory="1MB", spill_dir=spill) as run:
        assert blocks_of(run).plan.design is RIPPLE
        assert not run.latest.exact
        assert list(spill.rglob("*.arrow"))
    assert list(spill.iterdir()) == []
