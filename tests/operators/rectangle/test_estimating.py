"""Estimates over a running rectangle join: equal to brute force, unbiased, exact in the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.operators.making import make_rectangle
from watersmeet.errors import InvalidArgument
from watersmeet.estimators.totals import Totals
from watersmeet.model import Side
from watersmeet.operators.rectangle import estimating
from watersmeet.operators.rectangle.estimating import RectangleEstimate
from watersmeet.operators.rectangle.join import RectangleJoin
from watersmeet.operators.tuning import Invocation, Tuning
from watersmeet.rows.address import Matches
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea

SCHEMA = pa.schema([("key", pa.int64()), ("val", pa.float64()), ("group", pa.int64())])
JOIN = JoinSchema.resolve(SCHEMA, SCHEMA, "key", "inner")
MEMORY = 60


def relations(rows: tuple[int, int], *, seed: int) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """A fixed m:n join whose rows come in an order decided by the seed."""
    fixed, rng = np.random.default_rng(7), np.random.default_rng(seed)
    made = []
    for count in rows:
        columns = [
            fixed.integers(0, 90, count),
            fixed.gamma(2.0, 3.0, count),
            fixed.integers(0, 3, count),
        ]
        order = rng.permutation(count)
        arrays = [pa.array(column[order]) for column in columns]
        made.append(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
    return made[0], made[1]


def joining(
    algorithm: str, rows: tuple[int, int], spill: Path, *, partitions: int
) -> RectangleJoin:
    return make_rectangle(
        algorithm,
        JOIN,
        memory=MemoryAccount(64 * 2**20),
        spill=SpillArea(spill),
        tuning=Tuning(
            partitions=partitions,
            memory_rows=MEMORY,
            expected_rows=rows,
            invocation=Invocation(stops=False, together=True),
            remaps=False,
        ),
    )


def moments(matches: Matches) -> tuple[np.ndarray, np.ndarray]:
    """Groups are the left side's; the expression is left.val * right.val around 5."""
    assert matches.left is not None
    assert matches.right is not None
    left, right = (
        rows.source.take(1, rows.index).to_numpy() for rows in (matches.left, matches.right)
    )
    groups = matches.left.source.take(2, matches.left.index).to_numpy()
    x = left * right - 5.0
    ones = np.ones_like(x)
    return groups, np.stack([ones, ones, x, x * x], axis=1)


def running(
    join: RectangleJoin, sides: tuple[pa.RecordBatch, pa.RecordBatch], estimate: RectangleEstimate
) -> Iterator[str]:
    """Runs the join, stopping after every push, every result of the end, and at the end."""
    step = 11
    for start in range(0, max(map(len, sides)), step):
        for side in Side:
            piece = sides[side].slice(start, step)
            if len(piece):
                for matches in join.push(side, piece):
                    estimate.observe(estimate.located(matches), *moments(matches))
                    yield "inside"
        yield "pushed"
    for side in Side:
        assert not list(join.end(side))
    for matches in join.finish():
        estimate.observe(estimate.located(matches), *moments(matches))
        yield "finishing"
    yield "finished"


def partitions_of(join: RectangleJoin, batch: pa.RecordBatch) -> np.ndarray:
    """By hand, from the high bits of the hash: not the way the estimate asks."""
    slots = join.workspace.memory.slots
    high = JOIN.encode(Side.LEFT, batch).codes >> np.uint64(32)
    found: np.ndarray = slots[(high * np.uint64(len(slots))) >> np.uint64(32)]
    return found


def by_hand(
    join: RectangleJoin,
    sides: tuple[pa.RecordBatch, pa.RecordBatch],
    parts: list[np.ndarray],
) -> np.ndarray:
    """Every pair of every completed rectangle, scaled up by its partition's own depth."""
    now, ended = join.rectangles, all(join.workspace.ended)
    keys, values = zip(
        *((side.column(0).to_numpy(), side.column(1).to_numpy()) for side in sides), strict=True
    )
    groups = sides[0].column(2).to_numpy()
    totals = np.zeros((3, 4))
    for p in range(join.workspace.partitions):
        rows, scale = [], 1.0
        for side in Side:
            mine = np.flatnonzero(parts[side] == p)[: now.joined[side, p]]
            rows.append(mine)
            if ended:
                scale *= now.arrived[side, p] / max(now.joined[side, p], 1)
            else:
                scale *= len(sides[side]) / now.seen[side, p]
        left, right = np.nonzero(keys[0][rows[0]][:, None] == keys[1][rows[1]][None, :])
        x = values[0][rows[0][left]] * values[1][rows[1][right]] - 5.0
        each = np.stack([np.ones_like(x), np.ones_like(x), x, x * x], axis=1)
        np.add.at(totals, groups[rows[0][left]], scale * each)
    return totals


def padded(totals: Totals) -> np.ndarray:
    value = np.zeros((3, 4))
    value[: totals.groups] = totals.value
    return value


@pytest.mark.parametrize("algorithm", ["pr-join", "ripple", "hash-ripple"])
def test_totals_are_those_of_completed_rectangles_at_every_depth(
    algorithm: str, tmp_path: Path
) -> None:
    rows = (300, 420)
    sides = relations(rows, seed=1)
    join = joining(algorithm, rows, tmp_path, partitions=1 if algorithm == "ripple" else 5)
    estimate = RectangleEstimate(join, rows=rows, moments=4)
    parts = [partitions_of(join, side) for side in sides]
    looked, waited = 0, 0
    for where in running(join, sides, estimate):
        if not join.rectangles.seen.all():
            continue
        before = join.rectangles.completed
        totals = estimate.totals()
        np.testing.assert_allclose(
            padded(totals), by_hand(join, sides, parts), rtol=1e-9, atol=1e-6
        )
        looked += 1
        waited += where == "inside" and join.rectangles.completed == before
        assert totals.exact == (where == "finished")
    assert looked > 40
    assert waited > 0, "no estimate was asked for in the middle of a rectangle"
    join.close()


def test_grace_is_a_sample_of_partitions_until_all_are_joined(tmp_path: Path) -> None:
    rows = (300, 420)
    sides = relations(rows, seed=1)
    join = joining("grace", rows, tmp_path, partitions=5)
    estimate = RectangleEstimate(join, rows=rows, moments=4)
    parts = [partitions_of(join, side) for side in sides]
    some = [estimate.totals() for where in running(join, sides, estimate) if where == "finishing"]
    assert some
    assert not any(totals.exact for totals in some)
    last = estimate.totals()
    assert last.exact
    np.testing.assert_allclose(padded(last), by_hand(join, sides, parts), rtol=1e-9)
    join.close()


def test_staggered_partitions_are_unbiased(tmp_path: Path) -> None:
    rows = (160, 160)
    found, expected_error = [], []
    for seed in range(120):
        sides = relations(rows, seed=seed)
        join = joining("pr-join", rows, tmp_path, partitions=4)
        estimate = RectangleEstimate(join, rows=rows, moments=4)
        for where in running(join, sides, estimate):
            now = join.rectangles
            if where == "pushed" and now.arrived.sum() >= 180:
                break
        assert len(set(now.seen[0].tolist())) > 1, "the partitions are equally deep"
        totals = estimate.totals()
        found.append(totals.value[:, [0, 2]])
        expected_error.append(totals.covariance[:, 0])
        join.close()
    left, right = relations(rows, seed=0)
    joined = left.to_pandas().merge(right.to_pandas(), on="key")
    x = joined.val_x * joined.val_y - 5.0
    truth = np.stack([joined.groupby("group_x").size(), x.groupby(joined.group_x).sum()], axis=1)
    spread = np.std(found, axis=0, ddof=1)
    # Four standard errors of the mean: six quantities leave them once in 2,600 suites.
    assert np.all(np.abs(np.mean(found, axis=0) - truth) < 4 * spread / np.sqrt(len(found)))
    # And what is said about the error is the error, within a third.
    said = np.sqrt(np.mean(expected_error, axis=0))
    np.testing.assert_allclose(said, spread[:, 0], rtol=1 / 3)


def test_joins_without_one_corner_or_with_partitions_made_from_the_data_are_refused(
    tmp_path: Path,
) -> None:
    with pytest.raises(InvalidArgument, match="side by side"):
        RectangleEstimate(joining("sms", (9, 9), tmp_path, partitions=2), rows=(9, 9), moments=4)
    evened = make_rectangle(
        "pr-join", JOIN, memory=MemoryAccount(2**22), spill=SpillArea(tmp_path), tuning=Tuning()
    )
    with pytest.raises(InvalidArgument, match="looks larger"):
        RectangleEstimate(evened, rows=(9, 9), moments=4)
    together = Tuning(invocation=Invocation(together=True))
    evened = make_rectangle(
        "pr-join", JOIN, memory=MemoryAccount(2**22), spill=SpillArea(tmp_path), tuning=together
    )
    with pytest.raises(InvalidArgument, match="no random sample"):
        RectangleEstimate(evened, rows=(9, 9), moments=4)


def test_pairs_that_are_added_up_while_they_wait_count_as_others_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = (400, 300)
    sides = relations(rows, seed=3)
    found: list[list[np.ndarray]] = []
    for most in (1 << 15, 3):
        monkeypatch.setattr(estimating, "_MOST_WAITING", most)
        join = joining("pr-join", rows, tmp_path, partitions=5)
        estimate = RectangleEstimate(join, rows=rows, moments=4)
        found.append([])
        for where in running(join, sides, estimate):
            if where != "inside":
                totals = estimate.totals()
                found[-1] += [padded(totals), totals.covariance]
        join.close()
    assert len(found[0]) == len(found[1]) > 60
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
