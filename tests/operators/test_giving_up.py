"""Which rows leave a table that is kept in several orders."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.kernels import sorting
from watersmeet.operators.giving_up import GivenUp, divide_again, give_up
from watersmeet.policies.regions import Region, Regions
from watersmeet.store.sorted_table import NewOrder, SortedTable

SCHEMA = pa.schema({"row": pa.int64()})


class Table:
    """Rows with two codes each, and the regions of both orders."""

    def __init__(self, codes: list[list[int]], *, joined: list[int] | None = None) -> None:
        rows = len(codes[0])
        bits = np.array(joined or [0] * rows, np.uint8)
        self.table = SortedTable(
            SCHEMA, rows=64, nbytes=2**16, encode=lambda index: index.astype(np.uint64), orders=2
        )
        self.regions = [Regions(), Regions()]
        new = []
        for each, regions in zip(codes, self.regions, strict=True):
            array = np.array(each, np.uint64)
            of = regions.of(array)
            regions.arrived(of, np.zeros(rows, np.int64))
            new.append(NewOrder(sorting.sort(array), of, bits.copy()))
        self.table.add(np.arange(rows), pa.record_batch([range(rows)], schema=SCHEMA), new)

    def give_up(self, count: int) -> GivenUp:
        return give_up(self.table.orders, self.regions, count)

    def flush(self, count: int) -> list[int]:
        given = self.give_up(count)
        left: list[int] = self.table.batch(np.flatnonzero(given.mask)).column(0).to_pylist()
        self.table.drop(given.mask == 0)
        divide_again(self.table.orders, self.regions, given, count)
        return left


CODES = [[1, 2, 3, 4, 5, 6, 7, 8], [8, 7, 6, 5, 4, 3, 2, 1]]


def test_rows_that_have_joined_stay_until_the_hand_comes_again() -> None:
    table = Table(CODES, joined=[0, 1, 0, 1, 0, 1, 0, 1])
    assert sorted(table.flush(3)) == [0, 2, 4]


def test_after_a_flush_both_orders_have_three_regions() -> None:
    table = Table(CODES)
    table.flush(2)
    for regions, order in zip(table.regions, table.table.orders, strict=True):
        assert regions.lower is not None
        assert regions.upper is not None
        assert regions.lower < regions.upper
        assert regions.rows.sum() == len(order.index) == 6
        assert regions.rows.tolist() == np.bincount(order.regions, minlength=3).tolist()


def test_the_region_with_fewest_results_per_row_in_any_order_goes_first() -> None:
    table = Table(CODES)
    table.flush(2)
    for regions in table.regions:
        regions.joins[:] = 9 * regions.rows
    table.regions[1].joins[Region.UPPER] = 0
    given = table.give_up(1)
    assert given.leading == 1
    assert given.flushed == [set(), {Region.UPPER}]
    _, rows = table.table.orders[1].index.in_order()
    assert np.flatnonzero(given.mask).tolist() == [rows[-1]]
    assert "upper 0.00" in given.reason


@given(
    codes=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30),
    counts=st.lists(st.integers(1, 12), max_size=4),
)
def test_as_many_rows_as_were_asked_for_leave(
    codes: list[tuple[int, int]], counts: list[int]
) -> None:
    table = Table([[one for one, _ in codes], [other for _, other in codes]])
    there = len(codes)
    for count in counts:
        if not there:
            break
        assert len(table.flush(count)) == min(count, there)
        there -= min(count, there)
        assert len(table.table) == there
