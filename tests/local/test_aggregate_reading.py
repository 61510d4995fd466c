"""What local aggregates read of files, and what they keep of it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt
import pytest

import watersmeet as wm
from tests.aggregates.oracle import assert_same, by_group, expected
from tests.aggregates.readings import blocks_of
from watersmeet.aggregates import allowance
from watersmeet.aggregates.sampling.designs import RANGES
from watersmeet.expressions.numbers import ArithmeticFailed
from watersmeet.local.blocks import ParquetTable
from watersmeet.local.engine import ThreadEngine, _Kept

ORDERS, ITEMS = 4_000, 20_000
ASKED: dict[str, Any] = {"n": wm.count(), "s": wm.sum("price"), "m": wm.avg("price * weight")}


def tables(*, kinds: list[str | None], step: int = 1) -> tuple[pa.Table, pa.Table]:
    """Both in the order of the key; only every `step`-th key has an order."""
    random = np.random.default_rng(5)
    keys = np.arange(0, ORDERS * step, step)
    names = pa.array(kinds).take(pa.array(random.integers(0, len(kinds), ORDERS)))
    orders = pa.table({"id": keys, "kind": names, "weight": random.integers(1, 9, ORDERS)})
    items = pa.table(
        {
            "id": np.sort(random.integers(-5, ORDERS * step + 5, ITEMS)),
            "price": random.integers(1, 999, ITEMS),
            "sort": pa.array(["x", None, "yy"]).take(pa.array(random.integers(0, 3, ITEMS))),
        }
    )
    return items, orders


def written(folder: Path, both: tuple[pa.Table, pa.Table], **options: Any) -> tuple[Path, Path]:
    items, orders = folder / "items.parquet", folder / "orders.parquet"
    pq.write_table(both[0], items, row_group_size=200, **options)
    pq.write_table(both[1], orders, row_group_size=80, **options)
    return items, orders


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often the entries of each row group of the other side were made."""
    counted: Counter[int] = Counter()
    make = ThreadEngine._make

    def counting(self: ThreadEngine, bundle: int) -> Any:
        counted[bundle] += 1
        return make(self, bundle)

    monkeypatch.setattr(ThreadEngine, "_make", counting)
    return counted


@pytest.mark.parametrize("kinds", [["a", "b", None], [f"{n:040}" for n in range(900)]])
def test_all_looks_read_the_other_side_once(
    tmp_path: Path, made: Counter[int], kinds: list[str | None]
) -> None:
    both = tables(kinds=kinds)
    with wm.local.aggregate(*written(tmp_path, both), on="id", group_by="kind", **ASKED) as run:
        assert blocks_of(run).plan.design is RANGES
        assert len(list(run)) > 1
        assert made == dict.fromkeys(range(50), 1)
        found = by_group(run.exact().answer.to_pylist(), ["kind"])
    assert_same(found, expected(*both, on=["id"], group_by=["kind"], **ASKED))


def test_with_little_memory_it_is_read_again(
    tmp_path: Path, made: Counter[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allowance, "SMALLEST_MEMORY", 0)
    both = tables(kinds=["a", "b"])
    paths = written(tmp_path, both)
    with wm.local.aggregate(*paths, on="id", group_by="kind", memory=100_000, **ASKED) as run:
        assert blocks_of(run).plan.design is RANGES
        list(run)
        found = by_group(run.exact().answer.to_pylist(), ["kind"])
    assert set(made) == set(range(50))
    assert sum(made.values()) > 50
    assert_same(found, expected(*both, on=["id"], group_by=["kind"], **ASKED))


class Entries:
    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


def test_what_is_kept_fits_and_is_the_latest() -> None:
    calls: list[int] = []

    def make(number: int) -> Any:
        calls.append(number)
        return Entries(40)

    kept = _Kept(make, nbytes=100)
    for number in (1, 2, 1, 3, 1, 2):
        kept.get(number)
    # With the third there is room for two: the second is the one that nobody asked for lately.
    assert calls == [1, 2, 3, 2]
    kept.clear()
    kept.get(1)
    assert calls[-1] == 1


def test_entries_that_cannot_be_made_are_asked_for_again() -> None:
    tries: list[int] = []

    def make(number: int) -> Any:
        tries.append(number)
        if len(tries) == 1:
            raise OSError("gone")
        return Entries(1)

    kept = _Kept(make, nbytes=10)
    with pytest.raises(OSError, match="gone"):
        kept.get(7)
    assert kept.get(7).nbytes == 1


@pytest.mark.parametrize("group_by", [["kind"], ["sort"], ["kind", "sort"], ["weight", "kind"]])
@pytest.mark.parametrize(
    "options",
    [
        {},
        # A dictionary that is given up after a few values, and text that Arrow calls views.
        {"dictionary_pagesize_limit": 64},
        {"use_dictionary": False},
    ],
)
def test_text_to_group_by(tmp_path: Path, group_by: list[str], options: dict[str, Any]) -> None:
    both = tables(kinds=["", "a", "ä" * 30, None, "b"])
    views = both[1].set_column(1, "kind", both[1]["kind"].cast(pa.string_view()))
    paths = written(tmp_path, (both[0], views), **options)
    with wm.local.aggregate(*paths, on="id", group_by=group_by, **ASKED) as run:
        found = by_group(run.exact().answer.to_pylist(), group_by)
    assert_same(found, expected(*both, on=["id"], group_by=group_by, **ASKED))


def test_text_that_is_asked_for_more_than_its_group(tmp_path: Path) -> None:
    both = tables(kinds=["a", "b", None])
    asked: dict[str, Any] = {"n": wm.sum("CASE WHEN kind = 'a' THEN price ELSE 1 END")}
    with wm.local.aggregate(
        *written(tmp_path, both), on="id", group_by="kind", where="kind <> 'b'", **asked
    ) as run:
        found = by_group(run.exact().answer.to_pylist(), ["kind"])
    kept = (both[0], both[1].filter(pa.compute.field("kind") == "a"))
    whole: dict[str, Any] = {"n": wm.sum("price")}
    assert_same(found, expected(*kept, on=["id"], group_by=["kind"], **whole))


@pytest.mark.parametrize(
    ("options", "batch_bytes", "numbered"),
    [
        ({}, 2**20, True),
        ({"use_dictionary": False}, 2**20, False),
        # Less than reading all of a row group at once takes.
        ({}, 2000, False),
    ],
)
def test_numbers_keep_the_dictionary_of_the_file(
    tmp_path: Path, options: dict[str, Any], batch_bytes: int, numbered: bool
) -> None:
    names = ["id", "price"]
    items, _ = tables(kinds=["a"])
    path, _ = written(tmp_path, (items, items), **options)
    table = ParquetTable([path], argument="left")
    rows = []
    for block in range(len(table.blocks("id", names))):
        for _, batch in table.read([block], names, batch_bytes=batch_bytes, numbered=names):
            assert all(pt.is_dictionary(kind) is numbered for kind in batch.schema.types)
            rows.append(batch.cast(items.select(names).schema))
    assert pa.Table.from_batches(rows).equals(items.select(names))


def test_numbers_that_are_asked_for_more_than_a_sum(tmp_path: Path) -> None:
    """A price that is compared and grouped by, and one that is multiplied alone."""
    both = tables(kinds=["a", "b"])
    items, orders = written(tmp_path, both)
    for more in ({"where": "price > 500"}, {"group_by": "price"}, {"group_by": "id"}):
        asked = {"on": "id", **ASKED, **more}
        groups = [more["group_by"]] if "group_by" in more else []
        found = wm.local.aggregate(items, orders, **asked).exact().answer.to_pylist()
        wanted = wm.local.aggregate(*both, **asked).exact().answer.to_pylist()
        assert_same(by_group(found, groups), by_group(wanted, groups))


@pytest.mark.parametrize("step", [1, 7])
def test_only_rows_with_a_partner_can_fail(tmp_path: Path, step: int) -> None:
    """Where few rows have one, nothing is computed of the others; where most have, they are left
    out when something fails."""
    items, orders = tables(kinds=["a"], step=step)
    there = np.isin(items["id"].to_numpy(), orders["id"].to_numpy())
    zero = np.where(there, 2, 0)
    asked: dict[str, Any] = {"s": wm.sum("price / by")}
    paths = written(tmp_path, (items.append_column("by", pa.array(zero)), orders))
    with wm.local.aggregate(*paths, on="id", **asked) as run:
        (row,) = run.exact().answer.to_pylist()
    assert row["s"] == pytest.approx(items["price"].to_numpy()[there].sum() / 2)
    zero[np.flatnonzero(there)[-1]] = 0
    paths = written(tmp_path, (items.append_column("by", pa.array(zero)), orders))
    with (
        wm.local.aggregate(*paths, on="id", **asked) as run,
        pytest.raises(ArithmeticFailed),
    ):
        run.exact()
