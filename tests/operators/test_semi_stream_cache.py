"""The cache of master rows: entries are found, evicted whole, and chosen by the inequality."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.operators.semistream.cache import Cache, expanded, spread
from watersmeet.operators.semistream.keeping import fitting
from watersmeet.operators.semistream.waiting import RowOrder
from watersmeet.policies.caching import costs_less_cached
from watersmeet.rows.address import Index
from watersmeet.store.index import Codes, PairBuffer

COLUMNS = pa.schema({"x": pa.int64(), "text": pa.string()})


def codes(*numbers: int) -> Codes:
    return np.array(numbers, np.uint64)


def index(*numbers: int) -> Index:
    return np.array(numbers, np.int64)


def rows(*numbers: int) -> pa.RecordBatch:
    texts = pa.array(["t" * n for n in numbers], pa.string())
    return pa.record_batch([pa.array(numbers, pa.int64()), texts], schema=COLUMNS)


def filled() -> Cache:
    cache = Cache(COLUMNS, nbytes=2**20)
    cache.add(codes(5, 9, 2**64 - 1), index(2, 0, 1), rows(50, 51, 70), hits=0, born=1)
    cache.add(codes(7), index(3), rows(1, 2, 3), hits=0, born=2)
    return cache


def found(cache: Cache, wanted: Codes) -> list[list[int]]:
    """For each wanted code the numbers of its cached rows; [-1] if it has no entry."""
    entries = cache.find(wanted)
    lists: list[list[int]] = [[-1] if entry < 0 else [] for entry in entries]
    hits = np.flatnonzero(entries >= 0)
    for asked, row in cache.pairs(hits, entries[hits], PairBuffer(2)):
        for i, value in zip(asked, cache.rows.take(0, row).to_pylist(), strict=True):
            lists[i].append(value)
    return lists


def test_an_entry_has_all_its_rows_and_a_negative_one_has_none() -> None:
    wanted = codes(7, 9, 8, 5, 2**64 - 1, 7)
    assert found(filled(), wanted) == [[1, 2, 3], [], [-1], [50, 51], [70], [1, 2, 3]]


def test_hits_are_counted_unless_one_only_asks_whether_it_is_there() -> None:
    cache = filled()
    cache.find(codes(7, 7, 9, 8))
    assert cache.hits.tolist() == [0, 1, 0, 2]
    assert cache.has(codes(7, 8)).tolist() == [True, False]
    assert cache.hits.tolist() == [0, 1, 0, 2]


def test_evicted_entries_go_with_all_their_rows() -> None:
    cache = filled()
    before = cache.nbytes
    cache.keep(np.array([False, True, True, True]))
    assert found(cache, codes(5, 9, 2**64 - 1, 7)) == [[-1], [], [70], [1, 2, 3]]
    assert len(cache) == 3
    assert len(cache.rows) == 4
    assert cache.negative == 1
    assert cache.born.tolist() == [1, 1, 2]
    assert cache.nbytes < before
    cache.clear()
    assert found(cache, codes(9)) == [[-1]]
    assert cache.nbytes == 0


def test_what_is_added_takes_the_bytes_that_were_foretold() -> None:
    cache = Cache(COLUMNS, nbytes=2**22)
    for start in range(0, 4000, 100):
        some = rows(*range(start % 7, start % 7 + 100))
        growth, before = cache.growth(100, some), cache.nbytes
        cache.add(
            np.arange(start, start + 100).astype(np.uint64), np.ones(100, np.int64), some,
            hits=0, born=0,
        )  # fmt: skip
        assert cache.nbytes - before == growth
    assert cache.has(np.arange(5000).astype(np.uint64)).sum() == 4000


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_pairs_come_in_chunks_that_fit(size: int) -> None:
    pairs = list[tuple[int, int]]()
    for first, second in expanded(
        index(4, 5, 6), index(10, 0, 7), index(3, 0, 2), PairBuffer(size)
    ):
        assert 0 < len(first) <= size
        pairs += zip(first.tolist(), second.tolist(), strict=True)
    assert pairs == [(4, 10), (4, 11), (4, 12), (6, 7), (6, 8)]
    assert spread(index(10, 0, 7), index(3, 0, 2)).tolist() == [10, 11, 12, 7, 8]


def test_what_fits_is_what_brings_most_for_a_byte() -> None:
    benefits, nbytes = np.array([1.0, 5.0, 3.0]), np.array([10.0, 10.0, 10.0])
    assert fitting(benefits, nbytes, 25.0).tolist() == [1, 2]
    assert fitting(benefits, nbytes, 30.0).tolist() == [0, 1, 2]
    assert fitting(benefits, nbytes, 5.0).tolist() == []


def test_a_value_that_costs_as_much_in_the_cache_stays_where_it_is() -> None:
    worth = costs_less_cached(index(2, 2), np.array([40.0, 39.0]), row_bytes=20.0)
    assert worth.tolist() == [False, True]
    # With a switching factor of 2 it must cost less than half.
    worth = costs_less_cached(index(2, 2), np.array([20.0, 19.0]), row_bytes=20.0, factor=2.0)
    assert worth.tolist() == [False, True]


def test_an_order_stays_in_order_while_rows_come_and_go() -> None:
    order, expected = RowOrder(1000), list[tuple[int, int]]()
    rng = np.random.default_rng(0)
    first = 0
    for _ in range(30):
        new = np.sort(rng.integers(0, 50, 9)).astype(np.uint64)
        numbers = np.arange(first, first + 9, dtype=np.int32)
        order.merge(new, numbers)
        expected = sorted([*expected, *zip(new.tolist(), numbers.tolist(), strict=True)])
        first += 9
        gone = int(rng.integers(0, len(order)))
        assert order.below(int(order.codes[gone])) <= gone < order.until(int(order.codes[gone]))
        order.drop(gone)
        expected = expected[gone:]
        assert list(zip(order.codes.tolist(), order.rows.tolist(), strict=True)) == expected
