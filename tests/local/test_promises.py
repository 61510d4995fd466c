"""Local joins with promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from watersmeet.errors import InvalidArgument, PromiseBroken
from watersmeet.promises.kinds import PromiseOfValues

NEWS = pa.table({"sno": [79, 80, 81], "keyword": ["card", "bank", "coin"]})
READS = pa.table(
    {
        "sno": [79, 81, 79, 79, 80, 79],
        "ipaddr": ["a", "b", "c", None, "d", "late"],
        "over": [False, False, False, True, False, False],
    }
)
PROMISES: list[PromiseOfValues] = [
    wm.unique("left", "sno"),
    wm.punctuated("right", "over", {"sno": "equal"}),
]


def test_the_example_of_the_paper(tmp_path: Path) -> None:
    """MJoin, Figures 2 to 4: marker rows are no rows, and what breaks a promise is set aside."""
    join = wm.local.join(
        NEWS, READS, "sno", promises=PROMISES, purge="memory",
        on_broken="quarantine", quarantine_dir=tmp_path,
    )  # fmt: skip
    rows = {(row["keyword"], row["ipaddr"]) for row in join.read_all().to_pylist()}
    assert rows == {("card", "a"), ("coin", "b"), ("card", "c"), ("bank", "d")}
    assert join.metrics.broken_promises == 1
    words = join.explain()
    assert "1 row broke punctuated(when over)" in " ".join(words.split())
    (aside,) = pq.read_table(tmp_path).to_pylist()
    assert (aside["ipaddr"], aside["broken_promise"]) == ("late", "punctuated(when over)")


def test_a_broken_promise_fails_by_default() -> None:
    with pytest.raises(PromiseBroken, match="late"):
        wm.local.join(NEWS, READS, "sno", promises=PROMISES).read_all()


def test_an_interval_join_is_hashed_by_its_key() -> None:
    times = pa.table({"id": [1, 2], "at": pa.array([0, 10**6], pa.timestamp("us"))})
    on: Any = ["id", wm.within("at", "1 second")]
    promises = [wm.watermark(side, "at", "1 second") for side in ("left", "right")]
    join = wm.local.join(times, times, on, promises=promises)
    assert "rpj" in join.explain()
    assert join.read_all().num_rows == 2


@pytest.mark.parametrize(
    ("on", "more", "words"),
    [
        (wm.within("sno", 1), {}, "can make no use of promises"),
        ("sno", {"algorithm": "grace"}, "can make no use of promises"),
        ("sno", {"purge": "never"}, "does not say when to purge"),
        ("sno", {"on_broken": "ignore"}, "says nothing about rows"),
        ("sno", {"on_broken": "quarantine"}, "and a directory"),
        ("sno", {"promises": ["unique"]}, "are no promises"),
    ],
)
def test_what_cannot_be_is_refused_at_the_call(on: Any, more: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        wm.local.join(NEWS, READS, on, **{"promises": PROMISES} | more)
