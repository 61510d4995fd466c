"""Totals that a task sends arrive as they were, whatever they are made of, and are small."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import watersmeet as wm
from tests.aggregates.questions import Question
from tests.aggregates.test_totals import key_sums, resolved
from watersmeet.aggregates.partials.block import BlockAggregator
from watersmeet.aggregates.partials.sums import Sums
from watersmeet.aggregates.partials.totals import BlockTotals, GroupTotals, Traits
from watersmeet.estimators.tails import TailSketch
from watersmeet.expressions.numbers import Numbers
from watersmeet.model import Side

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
def test_what_is_sent_arrives(totals: BlockTotals) -> None:
    found = pickle.loads(pickle.dumps(totals))
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
        same(mine.ends, sent.ends)
        if sent.total.exact:
            assert (mine.total.scale, mine.total.bounds) == (sent.total.scale, sent.total.bounds)
    for got, trait in zip(found.traits, totals.traits, strict=True):
        assert (got.centre, got.least, got.most) == (trait.centre, trait.least, trait.most)
        if trait.tail is None:
            assert got.tail is None
        else:
            assert got.tail is not None
            for name in ("centre", "count", "bounds"):
                assert getattr(got.tail, name) == getattr(trait.tail, name)
            for name in ("_largest", "_ends", "_sums"):
                same(getattr(got.tail, name), getattr(trait.tail, name))
            assert got.tail.reason() == trait.tail.reason()


def test_totals_of_a_few_groups_are_small_however_many_rows_there_were() -> None:
    """An Arrow array that is a slice is sent with all that it is a slice of."""
    rows = 200_000
    kinds = pa.array([f"kind {row % 7} of them all" for row in range(rows)])
    left = pa.table({"k": np.arange(rows), "a": np.arange(float(rows)), "g": kinds})
    right = pa.table({"k": np.arange(rows), "h": kinds, "b": np.ones(rows)})
    asked = resolved(
        Question(left, right, ("k",), "inner", ("g", "h"), None, {"s": wm.sum("a * b")})
    )
    entries = key_sums(right.select(asked.names(Side.RIGHT)).to_batches(), asked)
    batches = left.select(asked.names(Side.LEFT)).to_batches(max_chunksize=50_000)
    meeting = BlockAggregator(asked, sampled=Side.LEFT)
    totals = meeting.totals(batches, [entries], block=0, rows=rows, sketched=True)
    assert len(totals.part) == 7
    # A sketch of 256 large values is the largest part.
    assert len(pickle.dumps(totals)) < 8_000
