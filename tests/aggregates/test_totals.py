"""Totals of blocks add up to the totals of all rows, however rows were divided among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import watersmeet as wm
from tests.aggregates.oracle import assert_same, by_group
from tests.aggregates.questions import Question, questions
from watersmeet.aggregates.answer.ledger import BlockLedger, Ledger
from watersmeet.aggregates.ask.question import AggregateQuestion, ResolvedQuestion
from watersmeet.aggregates.partials.block import BlockAggregator
from watersmeet.aggregates.partials.gathering import make_key_sums
from watersmeet.aggregates.partials.key_sums import KeySums
from watersmeet.aggregates.partials.totals import BlockTotals, added_up
from watersmeet.model import Side


def resolved(question: Question) -> ResolvedQuestion:
    asked = AggregateQuestion.parse(
        list(question.on), question.how, group_by=list(question.group_by), where=question.where,
        aggregates=question.aggregates,
    )  # fmt: skip
    return asked.resolve((question.left.schema, question.right.schema))


def batches(table: pa.Table, names: Sequence[str], ends: Sequence[int]) -> list[pa.RecordBatch]:
    """The rows between these ends, empty ones too."""
    (whole,) = table.select(names).combine_chunks().to_batches() or [
        pa.RecordBatch.from_pylist([], schema=table.select(names).schema)
    ]
    edges = [0, *sorted(end % (len(whole) + 1) for end in ends), len(whole)]
    return [whole.slice(a, b - a) for a, b in pairwise(edges)]


def ledger_of(
    question: ResolvedQuestion, blocks: Sequence[BlockTotals], sampled: Side
) -> BlockLedger:
    ledger = BlockLedger(question, sampled=sampled, blocks=[None] * max(len(blocks), 1))
    for block in blocks:
        ledger.add([block])
    return ledger


def answer(ledger: Ledger, names: Sequence[str], group_by: Sequence[str]) -> Any:
    columns = [*ledger.group_values(), *ledger.answer()]
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    named = [*group_by, *names]
    return by_group([dict(zip(named, row, strict=True)) for row in rows], group_by)


@given(
    question=questions(hows=["inner", "left", "semi", "anti"]),
    ends=st.lists(st.integers(0, 30), max_size=5),
    other_ends=st.lists(st.integers(0, 30), max_size=2),
    joined=st.booleans(),
)
@settings(max_examples=60)
def test_blocks_in_any_division(
    question: Question, ends: list[int], other_ends: list[int], joined: bool
) -> None:
    """Also with the other side in several sets of entries, as ranges of keys have it."""
    asked = resolved(question)
    meeting = BlockAggregator(asked, sampled=Side.LEFT)
    entries = [
        key_sums([batch], asked)
        for batch in batches(question.right, asked.names(Side.RIGHT), other_ends)
    ]
    blocks = [
        meeting.totals([batch], entries, block=number, rows=len(batch), sketched=True)
        for number, batch in enumerate(batches(question.left, asked.names(Side.LEFT), ends))
    ]
    assert sum(block.rows for block in blocks) == len(question.left)
    if joined:
        blocks = [added_up(blocks, asked)]
    ledger = ledger_of(asked, blocks, Side.LEFT)
    found = answer(ledger, list(question.aggregates), question.group_by)
    assert_same(found, question.expected())
    # And the sample knows the same numbers as the exact totals.
    totals = ledger.totals()
    pairs = ledger.part.pairs
    np.testing.assert_allclose(totals.seen[: len(pairs), 0], pairs)


def sides(keys: Sequence[int], partners: Sequence[int]) -> tuple[pa.Table, pa.Table]:
    left = pa.table({"k": pa.array(keys, pa.int64()), "a": np.arange(len(keys), dtype=np.float64)})
    right = pa.table({"k": pa.array(partners, pa.int64()), "b": np.ones(len(partners))})
    return left, right


def entries_of(asked: ResolvedQuestion, right: pa.Table) -> KeySums:
    return key_sums(right.select(asked.names(Side.RIGHT)).to_batches(), asked)


def key_sums(batches: Sequence[pa.RecordBatch], asked: ResolvedQuestion) -> KeySums:
    return make_key_sums(lambda each: map(each.piece, batches), asked, sampled=Side.LEFT)


def asked_of(left: pa.Table, right: pa.Table, **aggregates: Any) -> ResolvedQuestion:
    return resolved(Question(left, right, ("k",), "inner", (), None, aggregates))


def test_rows_of_a_key_become_one_entry_unless_pairs_are_looked_at() -> None:
    left, right = sides([1, 2], [1, 1, 1, 2])
    merged = entries_of(asked_of(left, right, s=wm.sum("a * b")), right)
    assert len(merged) == 2
    assert merged.weights is not None
    assert merged.weights.tolist() == [3, 1]
    assert merged.rows is None
    pairs = entries_of(asked_of(left, right, s=wm.sum("a + b")), right)
    assert len(pairs) == 4
    assert pairs.weights is None
    assert pairs.rows is not None
    assert pairs.nbytes > merged.nbytes


@pytest.mark.parametrize("expression", ["a + b", "a * b"])
def test_a_row_counts_once_as_evidence_however_many_partners_it_has(expression: str) -> None:
    """A thousand pairs of one row say no more about the others than one pair does."""
    left, right = sides([1, 2, 9], [1] * 1000 + [2])
    asked = asked_of(left, right, s=wm.sum(expression))
    block = BlockAggregator(asked, sampled=Side.LEFT).totals(
        left.select(asked.names(Side.LEFT)).to_batches(), [entries_of(asked, right)],
        block=0, rows=3,
    )  # fmt: skip
    assert block.part.pairs.tolist() == [1001]
    assert block.part.rows.tolist() == [2]


def test_a_row_with_more_partners_than_are_looked_at_together() -> None:
    left, right = sides([3, 1, 2, 1, 5], [1] * 40 + [2] * 3 + [3])
    asked = asked_of(left, right, s=wm.sum("a + b"), n=wm.count())
    block = BlockAggregator(asked, sampled=Side.LEFT).totals(
        left.select(asked.names(Side.LEFT)).to_batches(),
        [replace(entries_of(asked, right), portion=7)], block=0, rows=5,
    )  # fmt: skip
    assert block.part.pairs.tolist() == [84]
    assert block.part.sums[0].floats().tolist() == [84 + 0 + 40 * 1 + 3 * 2 + 40 * 3]


def test_blocks_without_values_choose_no_centre() -> None:
    """Squares about zero of numbers near 1e8 would hide a spread of one."""
    left = pa.table({"k": [9, 9, 1, 2], "a": [0.0, 0.0, 1e8, 1e8 + 2]})
    right = pa.table({"k": [1, 2]})
    asked = asked_of(left, right, v=wm.var_pop("a"))
    meeting = BlockAggregator(asked, sampled=Side.LEFT)
    entries = [entries_of(asked, right)]
    blocks = [
        meeting.totals([batch], entries, block=number, rows=2, sketched=True)
        for number, batch in enumerate(batches(left, asked.names(Side.LEFT), [2]))
    ]
    assert blocks[0].traits[0].centre is None
    for divided in (blocks, [added_up(blocks, asked)]):
        ledger = ledger_of(asked, divided, Side.LEFT)
        assert ledger.answer()[0].to_pylist() == [1.0]
        assert ledger.centres == [1e8 + 1]
        assert ledger.tails[0].count == 2


def test_traits_of_added_blocks_are_those_of_all() -> None:
    """Whether a total can fall is read from the least value: it must not be lost."""
    left, right = sides([1, 2, 3, 4], [1, 2, 3, 4])
    left = left.set_column(1, "a", pa.array([5.0, 6.0, -7.0, 8.0]))
    asked = asked_of(left, right, s=wm.sum("a"))
    meeting = BlockAggregator(asked, sampled=Side.LEFT)
    blocks = [
        meeting.totals([batch], [entries_of(asked, right)], block=0, rows=2, sketched=True)
        for batch in batches(left, asked.names(Side.LEFT), [2])
    ]
    (traits,) = added_up(blocks, asked).traits
    assert (traits.least, traits.most) == (-7.0, 8.0)
    assert traits.tail is not None
    assert traits.tail.count == 4
