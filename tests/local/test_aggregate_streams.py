"""Aggregates over inputs that can only be read once and do not fit in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom  # type: ignore[import-untyped]

import watersmeet as wm
from tests.crossing import crossed
from watersmeet.aggregates.run import AggregateRun
from watersmeet.errors import InvalidArgument
from watersmeet.local.streaming import StreamReading

LEFT, RIGHT, KEYS = 45_000, 35_000, 8_000
ASKED: dict[str, Any] = {
    "n": wm.count(),
    "s": wm.sum("v * w"),
    "a": wm.avg("v"),
    "d": wm.stddev("v + w"),
}


def tables() -> tuple[pa.Table, pa.Table]:
    rng = np.random.default_rng(7)
    none = rng.random(LEFT) < 0.05
    left = pa.table(
        {
            "k": pa.array(rng.integers(0, KEYS, LEFT), mask=none),
            "v": pa.array(rng.gamma(2, 3, LEFT), mask=rng.random(LEFT) < 0.1),
            "g": rng.choice(["a", "b"], LEFT, p=[0.7, 0.3]),
        }
    )
    right = pa.table(
        {
            "k": rng.integers(0, KEYS, RIGHT),
            "w": rng.random(RIGHT),
            "c": rng.integers(0, 3, RIGHT).astype(np.int8),
        }
    )
    return left, right


TABLES = tables()


def stream(table: pa.Table, seed: int | None = None, *, rows: int = 1_000) -> Iterator[Any]:
    """Batches of a table, once, in a random order of its rows."""
    if seed is not None:
        table = table.take(pa.array(np.random.default_rng(seed).permutation(len(table))))
    for start in range(0, len(table), rows):
        yield from table.slice(start, rows).to_batches()


def run_of(seed: int | None = 0, **options: Any) -> AggregateRun:
    left, right = (stream(table, seed) for table in TABLES)
    asked = {"memory": "1MB", "expected_rows": (LEFT, RIGHT), **ASKED, **options}
    run = wm.local.aggregate(left, right, on="k", **asked)
    assert isinstance(run._reading, StreamReading)
    return run


def rows_of(run: AggregateRun) -> list[dict[str, Any]]:
    order = [(name, "ascending") for name in run.exact().group_names]
    answer = run.exact().answer
    rows: list[dict[str, Any]] = (answer.sort_by(order) if order else answer).to_pylist()
    return rows


@cache
def exact() -> list[dict[str, Any]]:
    """The plain answer, from tables that are read in blocks."""
    with wm.local.aggregate(*TABLES, on="k", **ASKED) as run:
        return rows_of(run)


def assert_alike(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """Floats are added up in another order."""
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.keys() == theirs.keys()
        for name, value in theirs.items():
            close = isinstance(value, float)
            assert mine[name] == (pytest.approx(value, rel=1e-9) if close else value), name


def words(run: AggregateRun) -> str:
    return " ".join(run.explain().split())


QUESTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "groups of both": {"group_by": ["g", "c"]},
    "conditions on each side": {"where": "v < 9 AND w > 0.2", "group_by": "g"},
    "a condition on pairs": {"where": "v > 8 * w", "group_by": "g"},
    "nothing passes": {"where": "v < 0"},
}


@pytest.mark.parametrize(("name", "looks"), crossed(QUESTIONS, [False, True]))
def test_the_end_is_exact(name: str, looks: bool) -> None:
    question = QUESTIONS[name]
    with run_of(**question) as run:
        if looks:
            estimates = list(run)
            assert len(estimates) > 2
            assert [each.exact for each in estimates[:-1]] == [False] * (len(estimates) - 1)
        found = rows_of(run)
    options = {**ASKED, **question}
    with wm.local.aggregate(*TABLES, on="k", **options) as plain:
        expected = rows_of(plain)
    assert_alike(found, expected)


def test_decimals_and_texts_are_exact(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    cents = rng.integers(-(10**6), 10**6, 30_000).tolist()
    prices = pa.array([Decimal(cent).scaleb(-2) for cent in cents], pa.decimal128(15, 2))
    keys = [f"key {key:05}" for key in rng.integers(0, 3_000, 30_000).tolist()]
    left = pa.table({"k": keys, "price": prices})
    right = pa.table({"k": [f"key {key:05}" for key in range(3_000)], "rate": range(3_000)})
    asked: dict[str, Any] = {"on": "k", "total": wm.sum("price * rate"), "mean": wm.avg("price")}
    with wm.local.aggregate(stream(left, 1), right, memory="1MB", **asked) as run:
        assert isinstance(run._reading, StreamReading)
        found = run.exact().answer
    with wm.local.aggregate(left, right, **asked) as plain:
        assert found.equals(plain.exact().answer)


@pytest.mark.slow
def test_estimates_are_unbiased_and_intervals_hold() -> None:
    """Each seed is another order of the same rows. The last look before the end has spilled most.

    Intervals that hold as often as they promise fail this for one choice of seeds in ten thousand.
    """
    seeds = 40
    with wm.local.aggregate(*TABLES, on="k", group_by="g", **ASKED) as plain:
        answer = plain.exact()
        truth = dict(zip(answer.keys(), answer.cells.value.T, strict=True))
    held, trusted, errors = np.zeros(4), np.zeros(4), []
    for seed in range(seeds):
        with run_of(seed, group_by="g") as run:
            *_, last = run.until(fraction=0.5)
            reading: Any = run._reading
            assert reading._join.workspace.full
        cells = last.cells
        for group, key in enumerate(last.keys()):
            inside = (cells.low[:, group] <= truth[key]) & (truth[key] <= cells.high[:, group])
            held += inside & cells.trusted[:, group]
            trusted += cells.trusted[:, group]
            errors.append(cells.value[:, group] / truth[key] - 1)
    assert (trusted[:3] > 0.5 * 2 * seeds).all()
    assert (held >= binom.ppf(1e-4, trusted, 0.95)).all()
    spread = np.std(errors, axis=0) / np.sqrt(seeds)
    assert (np.abs(np.mean(errors, axis=0)) < 4 * spread)[:3].all()


def test_without_sizes_there_are_ratios_and_no_totals() -> None:
    with run_of(expected_rows=(None, None)) as run:
        looks = iter(run)
        first, second = next(looks), next(looks)
        assert np.isnan(second.cells.value[:2]).all()
        assert "unknown" in second.cells.reason[0, 0]
        assert second.cells.low[2, 0] < second.cells.value[2, 0] < second.cells.high[2, 0]
        assert np.isnan(second.fraction)
        assert f"{second.progress.rows_read:,} rows" in repr(second)
        assert "give expected_rows" in words(run)
        assert "exact when the inputs end" in str(run.outlook())
        assert first.progress.rows_read < second.progress.rows_read
        assert_alike(rows_of(run), exact())


@pytest.mark.parametrize("promised", [(20_000, 15_000), (90_000, 90_000), (0, 0)])
def test_a_promise_that_is_not_kept_costs_no_row(promised: tuple[int, int]) -> None:
    with run_of(expected_rows=promised) as run:
        *_, last = run
        assert_alike(rows_of(run), exact())
    assert last.progress.rows == last.progress.rows_read == LEFT + RIGHT


ORDERS: dict[str, Callable[[pa.Table], pa.Table]] = {
    "sorted by value": lambda table: table.sort_by("v"),
    "sorted by key": lambda table: table.sort_by("k"),
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS.keys())
def test_an_order_that_is_not_random_is_doubted(order: Callable[[pa.Table], pa.Table]) -> None:
    left, right = order(TABLES[0]), TABLES[1]
    with wm.local.aggregate(
        stream(left), stream(right, 1), on="k", memory="1MB", expected_rows=(LEFT, RIGHT), **ASKED
    ) as run:
        *earlier, last = run
        assert earlier
        for look in earlier:
            assert not look.cells.trusted.any()
            assert "random order" in look.cells.reason[0, 0]
        assert last.exact
        assert "do not come in random order" in words(run)


def test_a_side_in_files_comes_in_blocks_and_is_doubted(tmp_path: Path) -> None:
    pq.write_table(TABLES[1], tmp_path / "r.parquet", row_group_size=5_000)
    with wm.local.aggregate(
        stream(TABLES[0], 0), tmp_path / "r.parquet", on="k", memory="1MB",
        expected_rows=(LEFT, None), **ASKED,
    ) as run:  # fmt: skip
        first = run.latest
        assert not first.trusted
        assert "block by block" in first.cells.reason[0, 0]
        assert_alike(rows_of(run), exact())


def test_a_table_in_memory_beside_a_stream_comes_in_random_order() -> None:
    left, right = TABLES[0], TABLES[1].sort_by("w")
    with wm.local.aggregate(
        stream(left, 0), right, on="k", memory="1MB", expected_rows=(LEFT, None), **ASKED
    ) as run:
        *earlier, last = run
        assert earlier[-1].progress.rows == LEFT + RIGHT
        assert earlier[-1].cells.trusted[0, 0]
        assert last.exact
        assert_alike(rows_of(run), exact())


def test_stopped_and_resumed_it_loses_nothing() -> None:
    with run_of() as run:
        reading: Any = run._reading
        add, seen = reading._pairs.add, threading.Event()

        def slowly(matches: Any) -> None:
            add(matches)
            if reading._join.workspace.full:
                seen.set()
                reading._cancelled.wait(0.01)

        reading._pairs.add = slowly
        waiting = threading.Thread(target=lambda: list(run))
        waiting.start()
        assert seen.wait(60), "nothing was spilled"
        run.stop()
        waiting.join()
        assert not run.complete
        reading._pairs.add = add
        assert_alike(rows_of(run.resume()), exact())


def test_after_an_interrupted_exact_answer_no_estimate_is_made_from_half_a_sample() -> None:
    with run_of() as run:
        assert not run.latest.exact
        reading: Any = run._reading
        check = reading._check

        def stopped() -> None:
            reading._check = check
            run.stop()
            check()

        reading._check = stopped
        with pytest.raises(wm.errors.WatersmeetError, match="stopped"):
            run.exact()
        (last,) = run.resume()
        assert last.exact
        assert_alike(rows_of(run), exact())


def test_a_source_that_fails_does_not_look_like_one_that_has_ended() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from (batch for _, batch in zip(range(40), stream(TABLES[0], 0), strict=False))
        raise OSError("the line is dead")

    with wm.local.aggregate(broken(), stream(TABLES[1], 0), on="k", memory="1MB", **ASKED) as run:
        for _ in range(2):
            with pytest.raises(OSError, match="the line is dead"):
                run.exact()
        assert not run.complete


def test_more_groups_than_intervals_fit_are_counted_exactly() -> None:
    with run_of(group_by="left.k", n=wm.count()) as run:
        reading: Any = run._reading
        reading.ledger.most_groups = 500
        *_, last = run
        assert "intervals do not fit" in words(run)
    with wm.local.aggregate(*TABLES, on="k", n=wm.count()) as plain:
        assert sum(last.answer["n"].to_pylist()) == plain.exact().answer["n"][0].as_py()


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    with run_of(spill_dir=tmp_path) as run:
        *_, _last = run.until(fraction=0.5)
        assert list(tmp_path.rglob("*.arrow"))
    assert list(tmp_path.iterdir()) == []


def test_the_join_stays_within_its_part_of_the_memory() -> None:
    with run_of(memory="2MB") as run:
        reading: Any = run._reading
        run.exact()
        account = reading._join.workspace.account
        assert account.peak <= account.limit == 2**20
        sums = reading._estimate._sample._pairs.values()
        kept = [len(rows.entries()[0]) for pairs in sums for rows in pairs._rows]
        assert max(kept, default=0) <= reading._estimate._sample._most


def test_other_joins_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="does not fit in memory") as caught:
        run_of(how="left", n=wm.count())
    assert "Parquet" in caught.value.remedy


@pytest.mark.parametrize("rows", [5, (1,), (1, -2), (1.5, 2), (True, 2), ("1", 2)])
def test_sizes_that_are_none(rows: Any) -> None:
    with pytest.raises(InvalidArgument, match="expected_rows"):
        run_of(expected_rows=rows)


def test_a_frame_that_does_not_fit_knows_its_size() -> None:
    random = np.random.default_rng(1)
    # Nulls would become floats on the way through pandas.
    whole = [table.drop_null() for table in TABLES]
    left, right = (
        table.take(pa.array(random.permutation(len(table)))).to_pandas() for table in whole
    )
    with wm.local.aggregate(left, right, on="k", memory="1MB", **ASKED) as run:
        assert isinstance(run._reading, StreamReading)
        *earlier, last = run
        found = rows_of(run)
    assert earlier[0].progress.sized
    assert earlier[-1].cells.trusted[0, 0]
    assert last.progress.rows == len(left) + len(right)
    with wm.local.aggregate(whole[0], whole[1], on="k", **ASKED) as plain:
        assert_alike(found, rows_of(plain))


def test_a_list_of_batches_is_in_memory_already() -> None:
    batches = TABLES[0].to_batches(max_chunksize=1_000)
    with wm.local.aggregate(batches, TABLES[1], on="k", memory="1MB", **ASKED) as run:
        assert not isinstance(run._reading, StreamReading)
        assert_alike(rows_of(run), exact())
