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
MUTE = [wm.punctuated("right", "over", {"ipaddr": "equal"})]
"""Nothing about a column of the join."""


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
        ("sno", {"punctuations": "keyword"}, "name of a column of the result already"),
        ("sno", {"punctuations": ""}, "is no column name"),
        ("sno", {"punctuations": "m", "promises": []}, "nothing is promised"),
        ("sno", {"punctuations": "m", "promises": MUTE}, "which values come no more"),
    ],
)
def test_what_cannot_be_is_refused_at_the_call(on: Any, more: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        wm.local.join(NEWS, READS, on, **{"promises": PROMISES} | more)


def test_a_second_join_reads_the_marker_rows_of_the_first() -> None:
    """Figure 4, and then who reads what beside the users' towns; the rows are those of two joins
    without promises."""
    first = wm.local.join(NEWS, READS.slice(0, 5), "sno", promises=PROMISES, punctuations="done")
    assert first.schema.names == ["sno", "keyword", "ipaddr", "over", "done"]
    assert first.pattern == {"sno": "equal"}
    prices = pa.table({"sno": [79, 81, 82, 79], "price": [1, 2, 3, 4]})
    told: list[PromiseOfValues] = [
        wm.punctuated("left", "done", first.pattern),
        wm.clustered("right", "sno"),
    ]
    second = wm.local.join(first, prices.take([0, 3, 1, 2]), "sno", "full", promises=told)
    rows = second.read_all().select(["sno", "ipaddr", "price"]).to_pylist()
    assert sorted(map(str, (tuple(row.values()) for row in rows))) == sorted(
        map(str, [(79, "a", 1), (79, "a", 4), (79, "c", 1), (79, "c", 4), (81, "b", 2),
                  (80, "d", None), (82, None, 3)])
    )  # fmt: skip
    assert "marker rows so far; a next join reads them by" in " ".join(first.explain().split())
    assert wm.local.join(NEWS, READS, "sno").pattern is None
