"""Schedules: speed ratios, order, batches without a copy, and the exact size of the join."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.errors import InvalidArgument
from watersmeet.kernels.hashing import partition_of
from watersmeet.model import Side
from watersmeet.sim.arrivals import Arrivals
from watersmeet.sim.delays import Delay, Exponential, Fixed
from watersmeet.sim.domain import join_schema, partition_members
from watersmeet.sim.keys import UniformKeys, UniqueKeys
from watersmeet.sim.schedule import SCHEMA, Schedule

KEYS = (UniformKeys(50), UniformKeys(50))


def mixed(rows: int = 20_000, ratio: float = 5.0, seed: int = 1) -> Schedule:
    return Schedule.mixed(
        Fixed(0.001), KEYS, rows=rows, speed_ratio=ratio, rng=np.random.default_rng(seed)
    )


def test_sides_arrive_in_the_stated_ratio() -> None:
    left = np.count_nonzero(mixed().sides == Side.LEFT)
    # Binomial(20000, 5/6) is outside five standard deviations of its mean almost never.
    assert abs(left - 20_000 * 5 / 6) < 5 * np.sqrt(20_000 * 5 / 36)


def test_the_same_seed_gives_the_same_schedule_to_the_row() -> None:
    first, again, other = mixed(seed=4), mixed(seed=4), mixed(seed=5)
    assert np.array_equal(first.keys, again.keys)
    assert np.array_equal(first.sides, again.sides)
    assert not np.array_equal(first.keys, other.keys)


def test_batches_cover_every_row_of_a_side_once_and_in_order() -> None:
    schedule = mixed(rows=1_000)
    edges = [0, 1, 2, 10, 500, 501, 1_000]
    for side in Side:
        pieces = [
            schedule.batch(side, start, stop).column(0).to_numpy()
            for start, stop in pairwise(edges)
        ]
        assert np.array_equal(np.concatenate(pieces), schedule.keys[schedule.sides == side])


def test_a_side_ends_after_its_last_row() -> None:
    schedule = Schedule(np.arange(4.0), np.array([1, 0, 1, 0], np.uint8), np.arange(4))
    assert schedule.last_of(Side.LEFT) == 4
    assert schedule.last_of(Side.RIGHT) == 3
    only_left = Schedule(np.arange(2.0), np.zeros(2, np.uint8), np.arange(2))
    assert only_left.last_of(Side.RIGHT) == 0


def test_merged_networks_keep_their_own_times() -> None:
    rng = np.random.default_rng(0)
    schedule = Schedule.of_networks((Fixed(1.0), Exponential(0.3)), KEYS, rows=(5, 20), rng=rng)
    assert schedule.arrive[schedule.sides == Side.LEFT].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert np.count_nonzero(schedule.sides == Side.RIGHT) == 20
    assert np.all(np.diff(schedule.arrive) >= 0)


def test_many_relations_arrive_each_in_its_own_order_and_time() -> None:
    tables = [pa.record_batch({"n": np.arange(rows)}) for rows in (3, 0, 7, 20)]
    delays: list[Delay] = [Fixed(1.0), Fixed(1.0), Fixed(0.3), Exponential(0.1)]
    arrivals = Arrivals.of_tables(delays, tables, rng=np.random.default_rng(0))
    assert len(arrivals) == 30
    assert arrivals.arrive[arrivals.inputs == 0].tolist() == [0.0, 1.0, 2.0]
    for input, table in enumerate(tables):
        pieces = [arrivals.batch(input, start, stop) for start, stop in pairwise([0, 1, 9, 30])]
        assert pa.Table.from_batches(pieces).equals(pa.Table.from_batches([table]))
        assert np.count_nonzero(arrivals.inputs[: arrivals.last_of(input)] == input) == len(table)


def test_a_primary_key_has_every_value_once_and_no_more() -> None:
    drawn = UniqueKeys(100).draw(100, np.random.default_rng(0))
    assert np.array_equal(np.sort(drawn), np.arange(1, 101))
    assert not np.array_equal(drawn, np.arange(1, 101))
    with pytest.raises(InvalidArgument, match="no 101 different keys"):
        UniqueKeys(100).draw(101, np.random.default_rng(0))


def test_the_join_size_is_the_number_of_pairs_with_equal_keys() -> None:
    schedule = mixed(rows=400, ratio=2.0)
    left, right = (schedule.keys[schedule.sides == side] for side in Side)
    assert schedule.join_size() == np.count_nonzero(left[:, np.newaxis] == right)
    apart = np.abs(left[:, np.newaxis] - right)
    assert schedule.join_size(width=3) == np.count_nonzero(apart <= 3)


def test_rows_out_of_order_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="order in which they arrive"):
        Schedule(np.array([1.0, 0.0]), np.zeros(2, np.uint8), np.arange(2))
    with pytest.raises(InvalidArgument, match="one of each per row"):
        Schedule(np.array([0.0, 1.0]), np.zeros(1, np.uint8), np.arange(2))
    with pytest.raises(InvalidArgument, match="speed_ratio"):
        mixed(ratio=0.0)


def test_every_partition_has_its_500_keys_by_the_operators_own_hash() -> None:
    members = partition_members(20, 500)
    assert members.shape == (20, 500)
    assert len(np.unique(members)) == 10_000
    assert members.min() == 1
    batch = pa.RecordBatch.from_arrays([pa.array(members.ravel())], schema=SCHEMA)
    hashes = join_schema().encode(Side.LEFT, batch).codes
    assert np.array_equal(partition_of(hashes, 20).reshape(20, 500)[:, 0], np.arange(20))
    assert np.all(partition_of(hashes, 20) == np.repeat(np.arange(20), 500))
    # Nothing smaller was passed over: the first integers of each partition, in order.
    assert np.all(np.diff(members, axis=1) > 0)
    every = pa.RecordBatch.from_arrays([pa.array(np.arange(1, members.max() + 1))], schema=SCHEMA)
    partitions = partition_of(join_schema().encode(Side.LEFT, every).codes, 20)
    assert np.array_equal(members[3], 1 + np.flatnonzero(partitions == 3)[:500])
