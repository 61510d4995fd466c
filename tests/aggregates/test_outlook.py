"""Forecasts and explanations: do they say what then happens?"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from watersmeet.aggregates import allowance
from watersmeet.aggregates.run import AggregateRun
from watersmeet.errors import InvalidArgument

ORDERS, ITEMS = 4_000, 200_000


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Items in no order of the key, in 500 row groups."""
    folder = tmp_path_factory.mktemp("tables")
    random = np.random.default_rng(3)
    orders = pa.table({"id": range(ORDERS), "kind": [n % 4 for n in range(ORDERS)]})
    items = pa.table(
        {"order_id": random.integers(0, ORDERS, ITEMS), "price": random.exponential(10, ITEMS)}
    )
    pq.write_table(orders, folder / "orders.parquet")
    pq.write_table(items, folder / "items.parquet", row_group_size=400)
    return folder / "items.parquet", folder / "orders.parquet"


def question(tables: tuple[Path, Path], group_by: str = "kind") -> AggregateRun:
    return wm.local.aggregate(
        *tables, on={"order_id": "id"}, group_by=group_by, revenue=wm.sum("price"), n=wm.count()
    )


@pytest.mark.parametrize("wanted", [0.02, 0.03, 0.05])
def test_the_forecast_names_the_look_that_is_narrow_enough(
    wanted: float, tables: tuple[Path, Path]
) -> None:
    """Seconds are the machine's; so ask what share of the way the forecast sees it at."""
    with question(tables) as run:
        first = next(iter(run))
        told = run.outlook(wanted)
        reached = [*run.until(relative_error=wanted)][-1]
    assert told.seconds is not None
    assert not told.exact
    slope = first.seconds / first.progress.bytes_read
    expected = told.seconds / slope
    # A look reads twice as much as the one before: the forecast is off by one at most.
    assert 0.45 <= expected / reached.progress.bytes_read <= 2.2


def test_the_exact_answer_is_expected_when_all_has_been_read(tables: tuple[Path, Path]) -> None:
    with question(tables) as run:
        first = next(iter(run))
        told = run.outlook()
        share = first.progress.bytes_read / first.progress.nbytes
        assert told.exact_seconds == pytest.approx(first.seconds / share)
        exact = run.exact()
        told = run.outlook()
    assert told.exact
    assert told.exact_seconds == pytest.approx(exact.seconds)


def test_many_groups_need_everything(tables: tuple[Path, Path]) -> None:
    with question(tables, group_by="order_id") as run:
        next(iter(run))
        assert re.match(
            r"1% needs everything: 3,\d{3} groups; exact in about", str(run.outlook("1%"))
        )


def test_what_has_been_reached_is_told_as_past(tables: tuple[Path, Path]) -> None:
    with question(tables) as run:
        narrow = [*run.until(relative_error="5%")][-1]
        told = run.outlook("5%")
    assert told.reached
    assert told.seconds == narrow.seconds
    assert str(told).startswith("5% after ")


def test_no_part_of_a_whole_is_refused(tables: tuple[Path, Path]) -> None:
    with question(tables) as run, pytest.raises(InvalidArgument, match="no part of a whole"):
        run.outlook("lots")


def test_explain_tells_the_plan_before_and_the_forecast_after_a_look(
    tables: tuple[Path, Path],
) -> None:
    with wm.local.aggregate(
        *tables, on={"order_id": "id"}, group_by="kind", where="price > 1", n=wm.count()
    ) as run:
        before = run.explain()
        facts = _facts(before)
        assert facts["aggregate"] == (
            "n = count(*) by kind, inner join on order_id = id where price > 1"
        )
        assert facts["left"].startswith("sampled, 500 blocks, 200,000 rows")
        assert "read first" in facts["right"]
        assert facts["design"].startswith("complete, because the right side fits in memory")
        assert facts["looks"] == "after 24, 48, 96, 192 and all 500 blocks"
        assert facts["forecast"] == "comes with the first estimate"
        assert not run.history, "explaining reads nothing"
        run.latest  # noqa: B018
        assert re.match(r"1% .*, exact in about .* s$", _facts(run.explain())["forecast"])
    assert all(len(line) <= 88 for line in before.splitlines())


def test_explain_says_when_pairs_must_be_seen(tables: tuple[Path, Path]) -> None:
    mixed = wm.sum("CASE WHEN price > kind THEN 1 ELSE 0 END")
    with wm.local.aggregate(*tables, on={"order_id": "id"}, mixed=mixed) as run:
        assert "pairs of rows" in _facts(run.explain())["rows"]


@pytest.fixture(autouse=True)
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """So little that small tables do not fit, which no user can ask for."""
    monkeypatch.setattr(allowance, "SMALLEST_MEMORY", 0)


def test_both_sides_too_large_are_explained_as_a_rectangle(tables: tuple[Path, Path]) -> None:
    with wm.local.aggregate(*tables, on={"order_id": "id"}, n=wm.count(), memory="10KB") as run:
        facts = _facts(run.explain())
    assert facts["design"].startswith("ripple, because neither side fits in memory")
    assert facts["left"].startswith("sampled")
    assert facts["right"].startswith("sampled")
    assert "on disk" in facts["memory"]


def test_an_objection_to_all_intervals_is_told_beforehand(tmp_path: Path) -> None:
    """Both sides follow the key, but a block of one meets too many of the other."""
    keys = np.sort(np.random.default_rng(2).integers(0, 100_000, 60_000))
    loose = np.random.default_rng(2).permutation(keys[:30_000]), keys[30_000:]
    pq.write_table(pa.table({"k": np.concatenate(loose)}), tmp_path / "a", row_group_size=500)
    pq.write_table(pa.table({"k": np.concatenate(loose)}), tmp_path / "b", row_group_size=500)
    files = [(tmp_path / name).rename(tmp_path / f"{name}.parquet") for name in "ab"]
    with wm.local.aggregate(files[0], files[1], on="k", n=wm.count(), memory="10KB") as run:
        facts = _facts(run.explain())
        assert facts["doubt"].startswith("no interval is to be trusted before the end: both inputs")
        assert not run.latest.trusted


def _facts(text: str) -> dict[str, str]:
    """Each paragraph by its word."""
    paragraphs = re.split(r"\n(?=\S)", text)
    return {
        name: " ".join(rest.split()) for name, _, rest in (p.partition(" ") for p in paragraphs)
    }
