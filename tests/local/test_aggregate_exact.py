"""The exact answer at once: rows that have a partner are added up over several blocks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from tests.aggregates.oracle import assert_same, by_group, expected
from watersmeet.aggregates.partials import met_rows
from watersmeet.aggregates.partials.met_rows import MetRows
from watersmeet.expressions.numbers import ArithmeticFailed
from watersmeet.local.engine import ThreadEngine, _Kept

ORDERS, ITEMS = 3_000, 24_000
ASKED: dict[str, Any] = {
    "n": wm.count(),
    "revenue": wm.sum("price * (1 - discount)"),
    "mean": wm.avg("price"),
    "wide": wm.sum("double"),
    "spread": wm.stddev("price"),
}


def tables(*, copies: int = 1, nulls: bool = False) -> tuple[pa.Table, pa.Table]:
    """Both in the order of the key; an order for two keys of three, `copies` times."""
    random = np.random.default_rng(11)
    keys = np.repeat(np.arange(ORDERS)[np.arange(ORDERS) % 3 > 0], copies)
    days = random.integers(9_000, 9_400, len(keys)).astype(np.int32)
    kinds = pa.array(["web", "shop", None]).take(pa.array(random.integers(0, 3, len(keys))))
    orders = pa.table(
        {
            "id": keys,
            "kind": kinds,
            "day": pa.array(days, pa.date32()),
            "weight": random.integers(0, 9, len(keys)),
        }
    )
    money = pa.decimal128(15, 2)
    items = pa.table(
        {
            "id": np.sort(random.integers(0, ORDERS, ITEMS)),
            "price": pa.array(random.integers(90, 900, ITEMS)).cast(pa.decimal128(19, 0)),
            "discount": pa.array(random.integers(0, 2, ITEMS)).cast(pa.decimal128(19, 0)),
            "double": random.gamma(2.0, 20.0, ITEMS),
        }
    )
    for place, name in ((1, "price"), (2, "discount")):
        items = items.set_column(place, name, items[name].cast(money))
    if nulls:
        for place in range(items.num_columns):
            there = pa.array(random.random(ITEMS) < 0.9)
            column = pa.compute.if_else(there, items.column(place), None)
            items = items.set_column(place, items.column_names[place], column)
    return items, orders


def written(folder: Path, both: tuple[pa.Table, pa.Table], **options: Any) -> tuple[Path, Path]:
    items, orders = folder / "items.parquet", folder / "orders.parquet"
    options = {"store_decimal_as_integer": True, **options}
    pq.write_table(both[0], items, row_group_size=400, **options)
    pq.write_table(both[1], orders, row_group_size=150, **options)
    return items, orders


def answered(paths: tuple[Path, Path], **asked: Any) -> Any:
    groups = asked.get("group_by") or []
    more: dict[str, Any] = {**asked, **ASKED}
    with wm.local.aggregate(*paths, on="id", **more) as run:
        return by_group(run.exact().answer.to_pylist(), groups)


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many batches waited for others, and how often they were added up."""
    counted: Counter[str] = Counter()
    add, totals = MetRows.add, MetRows.totals

    def adding(self: MetRows, *args: Any, **more: Any) -> int:
        counted["batches"] += 1
        return add(self, *args, **more)

    def totalling(self: MetRows) -> Any:
        found = totals(self)
        counted["totals"] += found is not None
        return found

    monkeypatch.setattr(MetRows, "add", adding)
    monkeypatch.setattr(MetRows, "totals", totalling)
    return counted


WHERE = {
    "all": None,
    "some": "day >= DATE '1995-01-01' AND day < DATE '1995-03-01'",
    "none": "day < DATE '1900-01-01'",
    "of both sides": "weight > 3 AND price > 200",
    "of two columns": "weight > 3 OR day < DATE '1995-01-01'",
    "a guard": "weight <> 0 AND 12 / weight > 3",
}


@pytest.mark.parametrize("where", WHERE.values(), ids=WHERE)
@pytest.mark.parametrize("group_by", [[], ["kind"]], ids=["one", "groups"])
@pytest.mark.parametrize("nulls", [False, True], ids=["", "nulls"])
def test_it_is_the_answer(
    tmp_path: Path, together: Counter[str], where: str | None, group_by: list[str], nulls: bool
) -> None:
    both = tables(nulls=nulls)
    found = answered(written(tmp_path, both), where=where, group_by=group_by)
    wanted = expected(*both, on=["id"], where=where, group_by=group_by, **ASKED)
    assert_same(found, wanted)
    assert together["batches"] > together["totals"] > 0


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "none"},
        {"compression": "zstd"},
        # A dictionary that is given up after a few values, so that plain pages follow.
        {"dictionary_pagesize_limit": 256, "data_page_size": 256},
        {"use_dictionary": ["id", "day"]},
        {"use_dictionary": False},
        {"data_page_version": "2.0"},
    ],
    ids=str,
)
def test_however_pages_were_written(tmp_path: Path, options: dict[str, Any]) -> None:
    both, where = tables(), WHERE["some"]
    found = answered(written(tmp_path, both, **options), where=where, group_by=["kind"])
    assert_same(found, expected(*both, on=["id"], where=where, group_by=["kind"], **ASKED))


def test_some_row_groups_with_a_dictionary_and_some_without(tmp_path: Path) -> None:
    both = tables()
    items, orders = written(tmp_path, both)
    with pq.ParquetWriter(items, both[0].schema, use_dictionary=False) as writer:
        writer.write_table(both[0].slice(0, ITEMS // 2), row_group_size=400)
    rest = tmp_path / "more.parquet"
    options: dict[str, Any] = {"row_group_size": 400, "store_decimal_as_integer": True}
    pq.write_table(both[0].slice(ITEMS // 2), rest, **options)
    with wm.local.aggregate([items, rest], orders, on="id", group_by=["kind"], **ASKED) as run:
        found = by_group(run.exact().answer.to_pylist(), ["kind"])
    assert_same(found, expected(*both, on=["id"], group_by=["kind"], **ASKED))


def test_keys_that_the_other_side_has_twice_are_added_up_block_by_block(
    tmp_path: Path, together: Counter[str]
) -> None:
    both = tables(copies=2)
    found = answered(written(tmp_path, both), group_by=["kind"], where=WHERE["some"])
    wanted = expected(*both, on=["id"], group_by=["kind"], where=WHERE["some"], **ASKED)
    assert_same(found, wanted)
    assert together["batches"] < 60


def test_rows_that_wait_fit_in_little_memory(
    tmp_path: Path, together: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batch is enough then, and what comes behind it of the same block counts, too."""
    monkeypatch.setattr(met_rows, "_ENOUGH", 1)
    both = tables()
    found = answered(written(tmp_path, both), group_by=["kind"], memory="1MB")
    assert_same(found, expected(*both, on=["id"], group_by=["kind"], **ASKED))
    assert together["totals"] >= 60


def test_looks_keep_their_blocks_apart(tmp_path: Path, together: Counter[str]) -> None:
    both = tables()
    with wm.local.aggregate(*written(tmp_path, both), on="id", group_by=["kind"], **ASKED) as run:
        next(iter(run))
        run.stop()
        assert not together["batches"]
        found = by_group(run.resume().exact().answer.to_pylist(), ["kind"])
    assert together["batches"]
    assert_same(found, expected(*both, on=["id"], group_by=["kind"], **ASKED))


def test_a_condition_that_fails_fails(tmp_path: Path) -> None:
    with pytest.raises(ArithmeticFailed):
        answered(written(tmp_path, tables()), where="12 / weight > 3")


def test_the_other_side_is_read_once_and_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: Counter[int] = Counter()
    kept: list[_Kept] = []
    make = ThreadEngine._make

    def counting(self: ThreadEngine, bundle: int) -> Any:
        made[bundle] += 1
        kept[:] = [self._kept]
        return make(self, bundle)

    monkeypatch.setattr(ThreadEngine, "_make", counting)
    both = tables()
    items, orders = written(tmp_path, both)
    # As many row groups as it takes to read them by ranges of keys.
    pq.write_table(both[0], items, row_group_size=200)
    pq.write_table(both[1], orders, row_group_size=40)
    with wm.local.aggregate(items, orders, on="id", **ASKED) as run:
        run.exact()
        assert set(made.values()) == {1}
        assert not kept[0]._results
        assert not kept[0]._held
