"""Totals arrive as they were sent, whatever they are made of."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.aggregates.partials.sums import Sums
from watersmeet.aggregates.partials.totals import BlockTotals, GroupTotals, Traits
from watersmeet.aggregates.partials.wire import pack, unpack
from watersmeet.estimators.tails import TailSketch
from watersmeet.expressions.numbers import Numbers

NUMBERS = {
    "long": st.integers(-(2**63), 2**63 - 1),
    "wide": st.integers(-(10**37), 10**37),
    "float": st.floats(width=64),
}


@st.composite
def sums(draw: st.DrawFn, groups: int) -> Sums:
    kind = draw(st.sampled_from(sorted(NUMBERS)))
    values = draw(st.lists(NUMBERS[kind], min_size=groups, max_size=groups))
    if kind == "float":
        total = Numbers(np.array(values, np.float64), None)
    else:
        total = Numbers(np.array(values, object), None, draw(st.integers(0, 18))).tight()
    floats = np.array(draw(st.lists(st.floats(0, 1e9), min_size=groups, max_size=groups)))
    return Sums(
        np.arange(groups, dtype=np.int64),
        total,
        floats if kind == "float" else None,
        floats if draw(st.booleans()) else None,
    )


@st.composite
def blocks(draw: st.DrawFn) -> BlockTotals:
    groups = draw(st.integers(0, 4))
    # More than ten columns, so that an order by name would show.
    names = tuple(
        pa.array([None if (row + column) % 3 == 0 else f"{row}-{column}" for row in range(groups)],
                 pa.string())
        for column in range(draw(st.sampled_from([0, 1, 12])))
    )  # fmt: skip
    expressions = draw(st.integers(0, 3))
    tail = TailSketch(centre=2.5)
    tail.add(np.array(draw(st.lists(st.floats(-1e6, 1e6), max_size=8)), np.float64))
    traits = [
        Traits(1.5, -np.inf, np.inf, None),
        Traits(None, np.inf, -np.inf, tail),
        Traits(-3.0, 1.0, 2.0, tail),
    ]
    count = np.arange(groups, dtype=np.int64)
    found = tuple(draw(sums(groups)) for _ in range(expressions))
    return BlockTotals(
        7, 1234, GroupTotals(names, count, count * 2, found), tuple(traits[:expressions])
    )


def same(one: Any, other: Any) -> None:
    if one is None or other is None:
        assert one is other
    else:
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@given(blocks())
def test_what_is_packed_is_unpacked(totals: BlockTotals) -> None:
    found = unpack(pack(totals))
    assert (found.block, found.rows) == (7, 1234)
    assert [each.to_pylist() for each in found.part.groups] == [
        each.to_pylist() for each in totals.part.groups
    ]
    same(found.part.pairs, totals.part.pairs)
    same(found.part.rows, totals.part.rows)
    for mine, sent in zip(found.part.sums, totals.part.sums, strict=True):
        same(mine.count, sent.count)
        same(mine.total.values, sent.total.values)
        same(mine.error, sent.error)
        same(mine.squares, sent.squares)
        if sent.total.exact:
            assert (mine.total.scale, mine.total.bounds) == (sent.total.scale, sent.total.bounds)
    for got, trait in zip(found.traits, totals.traits, strict=True):
        assert (got.centre, got.least, got.most) == (trait.centre, trait.least, trait.most)
        if trait.tail is None:
            assert got.tail is None
        else:
            assert got.tail is not None
            assert json.dumps(got.tail.describe()) == json.dumps(trait.tail.describe())
