"""Promises of streams through the host without Spark: who hears of them, when, and what follows."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.endless_promises import PromisedDrive
from tests.contract.test_planted_bugs import Bug
from tests.spark.streams.promised import (
    LEFT,
    RIGHT,
    WIDTH,
    Cluster,
    Row,
    Rows,
    close,
    make_plan,
    moment,
)
from tests.spark.streams.test_host import Failure, fail_somewhere
from watersmeet.errors import PromiseBroken
from watersmeet.model import Side
from watersmeet.promises.kinds import punctuated, unique, watermark
from watersmeet.spark.explain_stream import explain_stream
from watersmeet.spark.microbatches.asked import Asked
from watersmeet.spark.microbatches.metrics import stream_metrics
from watersmeet.spark.microbatches.standing import Standing
from watersmeet.spark.streams.promised_arrivals import PromisedArrivals
from watersmeet.testing.oracle import assert_same

WATERMARKS = (watermark("left", "t", "10 seconds"), watermark("right", "u", "10 seconds"))
MARKED = (punctuated("right", "b < 0", {"k": "equal"}),)
L, R = Side.LEFT, Side.RIGHT
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close()


def cluster(path: Path, patch: pytest.MonkeyPatch, *promises: object, **changes: object) -> Cluster:
    return Cluster(make_plan(path, promises or WATERMARKS, **changes), patch)  # type: ignore[arg-type]


def test_the_latest_time_of_all_instances_counts_in_the_next_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row without a partner is in one instance, and the time that proves it in the other."""
    join = cluster(tmp_path, monkeypatch)
    assert not join.run(join.rows(L, (0, 0, 1)))
    assert not join.run(join.rows(R, (1, 100, 7)))
    assert join.run() == {(0, moment(0), 1, None, None): 1}
    assert not join.run()
    assert join.about()["rows_kept"] == 1
    with pytest.raises(PromiseBroken, match=r"watermark.*2026-01-01 00:01:2"):
        join.run(join.rows(R, (0, 80, 8)))


def test_batches_are_due_until_all_that_was_promised_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = cluster(tmp_path, monkeypatch)

    join.run(join.rows(L, (0, 50, 1)))
    assert is_due(join)
    join.run()
    assert not is_due(join)
    join.run(join.rows(L, (2, 45, 2)))  # says nothing new
    assert not is_due(join)
    join.run(join.rows(R, (1, 51, 3)))
    assert is_due(join)


def is_due(join: Cluster) -> bool:
    instances = [join.plan.state.instance(n) for n in range(2)]
    manifests = [each.read(join.batch) for each in instances]
    return Standing.of([each for each in manifests if each], 1e9).is_due


def marker_before_rows(join: Cluster) -> Rows:
    """In one batch a marker row, then a row that it would promise away, and its partner."""
    marker = join.marker(0, (0, 0, -1))
    found = join.run(marker, join.rows(R, (0, 2, 5)), join.rows(L, (0, 1, 4)))
    return found + join.run(join.rows(L, (0, 3, 6)))


def check_markers_wait(join: Cluster) -> None:
    assert {row[2::2] for row in marker_before_rows(join)} == {(4, 5), (6, 5)}


def test_marker_rows_wait_for_all_rows_of_their_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = cluster(tmp_path, monkeypatch, *MARKED)
    check_markers_wait(join)
    with pytest.raises(PromiseBroken, match=r"punctuated\(when b < 0\)"):
        join.run(join.rows(R, (0, 9, 8)))


BUGS = {
    "a marker row takes effect before the rows of its batch": Bug(
        "",
        (PromisedArrivals, "_note_markers"),
        "self._markers.append((number, rows))",
        "self._tell(self._promises.mark(number, rows))",
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_the_test_above_notices(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    join = cluster(tmp_path, monkeypatch, *MARKED)
    # Rows that are put together with a marker are pushed before it is heard, bug or not.
    monkeypatch.setattr("watersmeet.spark.streams.arrivals.pushed_bytes", lambda memory: 1)
    BUGS[name].plant(monkeypatch)
    with pytest.raises((AssertionError, PromiseBroken)):
        check_markers_wait(join)


def by_duckdb(sides: tuple[list[Row], list[Row]], how: str) -> Rows:
    """The numbers of rows that DuckDB's own join gives, but for those that are still awaited."""
    l, r = table_of(sides[0], LEFT), table_of(sides[1], RIGHT)  # noqa: E741, F841
    both = "l.a, r.b" if how not in ("semi", "anti") else "l.a"
    near = f"l.k = r.k AND abs(epoch(l.t) - epoch(r.u)) <= {WIDTH}"
    rows = duckdb.execute(f"SELECT {both} FROM l {how} JOIN r ON {near}").fetchall()
    return Counter(row for row in rows if -1 not in row)


def table_of(rows: list[Row], schema: pa.Schema) -> pa.Table:
    named = [
        dict(zip(schema.names, (key, moment(seconds or 0), number), strict=True))
        for key, seconds, number in rows
    ]
    return pa.Table.from_pylist(named, schema)


# ---- whatever happens to attempts ---------------------------------------------------------------


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 12))]
)
def test_true_promises_change_no_row_and_bound_what_is_kept(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times pass, rows are late by up to ten seconds; attempts fail anywhere and are made again."""
    chance = random.Random(seed)
    how = chance.choice(["left", "full", "anti", "semi", "inner"])
    join = cluster(tmp_path, monkeypatch, how=how, memory=chance.choice([2**15, 2**20]))
    sides: tuple[list[Row], list[Row]] = ([], [])
    found: Rows = Counter()
    kept: list[int] = []
    for number in itertools.count():
        if number > 23 and not is_due(join):
            break
        assert number < 100
        arriving = []
        for side in Side:
            for _ in range(chance.randrange(4) if number < 23 else 0):
                late = chance.randrange(11)
                row = (chance.randrange(4), 4 * number - late, len(sides[side]))
                sides[side].append(row)
                arriving += join.rows(side, row)
        if number == 22:
            # Times at which all rows before have been decided.
            for side in Side:
                sides[side].append((int(side), 1000, -1))
                arriving += join.rows(side, sides[side][-1])
        join.batch += 1
        for instance in range(2):
            while chance.random() < 0.3:
                with contextlib.suppress(Failure), monkeypatch.context() as patched:
                    fail_somewhere(chance, patched)
                    join.attempt(instance, arriving)
            found += join.attempt(instance, chance.sample(arriving, len(arriving)))
        if chance.random() < 0.3:
            join.again(arriving)
        kept.append(join.about()["rows_kept"])
    places = (2, 4) if join.plan.join.how.emits_pairs else (2,)
    numbers: Rows = Counter()
    for row, count in found.items():
        numbers[tuple(row[place] for place in places)] += count
    assert_same(numbers, by_duckdb(sides, how))
    # Rows of about 35 seconds: the band, the delay, and two batches until all have heard.
    assert max(kept) <= 2 * 3 * (WIDTH + 10 + 3 * 4 + 8) // 4 + 6
    assert kept[-1] <= 2


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 8))]
)
def test_rows_that_break_promises_are_put_aside_once(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    join = cluster(tmp_path, monkeypatch, on_broken="quarantine", how="inner")
    broken = []
    for number in range(12):
        arriving = join.rows(L, (number % 4, 20 * number, number))
        if number > 1 and chance.random() < 0.5:
            broken.append(1000 + number)
            arriving += join.rows(L, (chance.randrange(4), 20 * number - 60, broken[-1]))
        join.batch += 1
        for instance in range(2):
            while chance.random() < 0.3:
                with contextlib.suppress(Failure), monkeypatch.context() as patched:
                    fail_somewhere(chance, patched)
                    join.attempt(instance, arriving)
            join.attempt(instance, arriving)
            if chance.random() < 0.3:
                join.attempt(instance, arriving)
    files = sorted((tmp_path / "state" / "quarantine").glob("*.parquet"))
    rows = [row for path in files for row in pq.read_table(path).to_pylist()]
    assert sorted(row["left"]["a"] for row in rows) == broken
    assert {row["promise"] for row in rows} <= {str(WATERMARKS[0])}
    assert all(row["right"] is None and row["side"] == "left" for row in rows)


def test_rows_that_break_promises_are_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = cluster(tmp_path, monkeypatch, on_broken="drop")
    join.run(join.rows(L, (0, 100, 1)))
    join.run(join.rows(L, (0, 10, 2), (1, 10, 3), (1, 95, 4)))
    assert join.about()["broken"] == {f"left: {WATERMARKS[0]}": 2}
    assert join.about()["rows_kept"] == 2


def test_a_promise_about_one_key_reaches_its_instance_and_others_reach_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join = cluster(tmp_path, monkeypatch, *MARKED)
    join.run(join.rows(L, (0, 1, 1), (1, 1, 2), (3, 1, 3)))
    assert {row[2] for row in join.run(join.marker(0, (1, 0, -1)))} == {2}
    assert {row[2] for row in join.run(join.marker(0, (None, 0, -1)))} == {1, 3}


# ---- when rows go -------------------------------------------------------------------------------


@pytest.mark.parametrize("purge", [5, "output_rate"])
def test_rows_go_after_so_many_promises_however_often_the_join_is_restored(
    purge: int | str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches go on counting where those before stopped, in whichever process they are."""
    chance = random.Random(4)
    calm = cluster(tmp_path / "calm", monkeypatch, purge=purge)
    told: list[tuple[Rows, int]] = []
    for struck in (False, True):
        join = cluster(tmp_path / "struck", monkeypatch, purge=purge) if struck else calm
        for number in range(12):
            rows = join.rows(L, (number, 20 * number, number))
            rows += join.rows(R, (number + 1, 20 * number, number))
            join.batch += 1
            found: Rows = Counter()
            for instance in range(2):
                while struck and chance.random() < 0.5:
                    with contextlib.suppress(Failure), monkeypatch.context() as patched:
                        fail_somewhere(chance, patched)
                        join.attempt(instance, rows)
                found += join.attempt(instance, rows)
            if not struck:
                told.append((found, join.about()["rows_kept"]))
            else:
                assert (found, join.about()["rows_kept"]) == told[number]
            close()
        # A batch without rows lets go of what may go, whatever was counted, and is asked for.
        assert is_due(join)
        waited = told[-1][1]
        assert join.run()
        assert join.about()["rows_kept"] < waited
        assert not is_due(join)
    went = [number for number, (found, _) in enumerate(told) if found]
    # Two promises a batch, from the second on: the fifth is the first one of the fourth batch.
    assert went == ([3, 5, 8, 10] if purge == 5 else [])


def test_a_row_goes_when_it_has_met_its_one_partner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of the side that is not unique are not kept after that, or go with the next look."""
    join = cluster(tmp_path, monkeypatch, unique("left"), how="inner", purge=1000)
    join.run(join.rows(L, (0, 0, 1), (1, 0, 2)), join.rows(R, (5, 0, 3)))
    assert len(join.run(join.rows(R, (0, 1, 4), (1, 2, 5), (7, 2, 6)))) == 2
    assert join.about()["rows_kept"] == 4
    close()
    assert len(join.run(join.rows(L, (5, 1, 7)))) == 1
    join.run()
    assert join.about()["rows_kept"] == 4
    with pytest.raises(PromiseBroken, match="unique"):
        join.run(join.rows(L, (5, 3, 8)))


def test_rows_that_go_are_counted_and_told_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = (WATERMARKS[0], punctuated("right", "rlike(b, 'x')", {"k": "equal"}))
    join = cluster(tmp_path, monkeypatch, *both, how="inner", on_broken="drop")
    plan = join.plan
    Asked(plan.identity(None).parameters, plan.bounds()).note(plan.state)
    before = " ".join(explain_stream(plan.state.uri).split())
    assert before.startswith("join inner, left with right, on k and t within 5 seconds of u;")
    left = "bounded by punctuated(when rlike(b, 'x')) of the right input: a left row goes when a"
    assert f"left rows {left} marker row says that no more right rows come with its 'k'" in before
    assert "no batch of a query has been committed" in before
    join.run(join.rows(L, (0, 0, 1), (1, 0, 2)), join.marker(0, (0, 0, -1)))
    join.run(join.rows(L, (0, 1, 3), (1, 50, 4)))
    counted = [each["promises"] for each in stream_metrics(plan.state.uri)]
    assert [(each["purged"], each["dropped_on_arrival"]) for each in counted] == [(1, 0), (0, 1)]
    join.run(join.rows(L, (1, 1, 5)))
    words = " ".join(explain_stream(plan.state.uri).split())
    assert f"left rows {left}" in words
    assert (
        "promises 2 rows in the state after the latest batch; rows dropped from the state so far: "
        "1, not kept because they could meet nothing to come: 1; 1 row broke left: "
        "watermark(t, 10 seconds)"
    ) in words


# ---- without end --------------------------------------------------------------------------------


@pytest.mark.parametrize("batches", [200, pytest.param(12_000, marks=pytest.mark.slow)])
def test_what_is_kept_does_not_grow_with_the_batches(batches: int, tmp_path: Path) -> None:
    drive = PromisedDrive(tmp_path / "drive")
    drive.run([batches // 2, batches])
    first, last = drive.looks
    assert not drive.broken()
    assert last.files <= first.files + 1
    # Stamps and counts have more digits, and the latest hundred batches are remembered.
    assert last.manifest_bytes < 1.05 * first.manifest_bytes
    assert last.state_bytes < 1.1 * first.state_bytes
