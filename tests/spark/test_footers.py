"""The driver opens each file of a table once, whatever is asked about it."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from tests.parquet.opens import count_opens
from tests.spark.scans import plain
from watersmeet.spark.scans.ranges import facts_of, ranges_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

FILES = ("left-0.parquet", "left-1.parquet", "right-0.parquet", "right-1.parquet")


@pytest.fixture
def frames(spark: SparkSession, tmp_path: Path) -> tuple[DataFrame, DataFrame]:
    rng = np.random.default_rng(1)
    for name in FILES:
        side, number = name.removesuffix(".parquet").split("-")
        first = 4_000 * int(number)
        table = pa.table(
            {
                "k": np.arange(first, first + 4_000),
                "j": rng.integers(0, 9, 4_000),
                side: rng.random(4_000),
            }
        )
        (tmp_path / side).mkdir(exist_ok=True)
        pq.write_table(table, tmp_path / side / name, row_group_size=500)
    left, right = (spark.read.parquet(str(tmp_path / side)) for side in ("left", "right"))
    return left, right


def test_an_aggregate_opens_each_footer_once(
    frames: tuple[DataFrame, DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    opens = count_opens(monkeypatch)
    left, right = frames
    with wm.aggregate(left.where("j > 2"), right, on="k", n=wm.count(), s=wm.sum("right")) as run:
        assert run.latest.progress.rows_read
        assert run.exact().answer["n"].to_pylist() == [left.where("j > 2").count()]
    assert opens == Counter(FILES)


def test_a_join_on_two_columns_opens_each_footer_once(
    frames: tuple[DataFrame, DataFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    opens = count_opens(monkeypatch)
    left, right = frames
    with wm.join(left, right, on=["j", "k"]) as run:
        rows = sum(wave.rows.count() for wave in run)
    assert rows == left.join(right, ["j", "k"]).count()
    assert opens == Counter(FILES)


def test_footers_stay_on_the_driver(frames: tuple[DataFrame, DataFrame]) -> None:
    scan = plain(frames[0])
    assert [ends for ends in ranges_of(scan, "k") if ends == (0, 499)] == [(0, 499)]
    assert facts_of(scan, "left").extremes is not None
    sent = pickle.loads(pickle.dumps(scan))
    assert sent == scan
    assert sent.footers == ()
