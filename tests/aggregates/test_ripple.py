"""A rectangle that grows meets every pair of blocks once, whichever side grows when."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import watersmeet as wm
from tests.aggregates.oracle import assert_same
from tests.aggregates.questions import Question, questions
from tests.aggregates.test_totals import answer, batches, resolved
from watersmeet.aggregates.allowance import Allowance
from watersmeet.aggregates.answer.ledger import PairLedger
from watersmeet.aggregates.sampling.ripple import Rectangle, RippleWork, Scanned, partitions_for
from watersmeet.model import Side
from watersmeet.store.exchange import ExchangeDir


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> ExchangeDir:
    return ExchangeDir(tmp_path_factory.mktemp("storage").as_uri())


@given(
    question=questions(),
    ends=st.tuples(*[st.lists(st.integers(0, 30), max_size=4)] * 2),
    growing=st.lists(st.sampled_from(Side), max_size=12),
    sampled=st.sampled_from(Side),
    partitions=st.integers(1, 5),
)
@settings(max_examples=40)
def test_any_way_of_growing_gives_the_same_totals(
    storage: ExchangeDir,
    question: Question,
    ends: tuple[list[int], list[int]],
    growing: list[Side],
    sampled: Side,
    partitions: int,
) -> None:
    asked = resolved(question)
    work = RippleWork(asked, sampled, partitions, storage, Allowance(2**20, 1))
    tables = (question.left, question.right)
    waiting = [
        list(enumerate(batches(tables[side], asked.names(side), ends[side]))) for side in Side
    ]
    counts = (len(waiting[0]), len(waiting[1]))
    ledger = PairLedger(asked, blocks=counts, rows=(None, None))
    rectangle = Rectangle()
    # One block at a time, in turn where nothing is said; what is left in the end at once.
    for side in [*growing, None]:
        chosen: list[list[Scanned]] = [[], []]
        for each in Side:
            take = len(waiting[each]) if side is None else int(each is side)
            for number, batch in waiting[each][:take]:
                scanned = work.scan(each, number, [batch])
                assert Scanned.from_description(scanned.describe()) == scanned
                assert scanned.rows == len(batch)
                chosen[each].append(scanned)
                ledger.read(each, number, rows=len(batch))
            del waiting[each][:take]
        rectangle = rectangle.grown((tuple(chosen[0]), tuple(chosen[1])))
        found = [work.meet(partition, rectangle) for partition in range(partitions)]
        ledger.add([pickle.loads(pickle.dumps(each)) for each in found if each is not None])
    assert_same(answer(ledger, list(question.aggregates), question.group_by), question.expected())
    totals = ledger.totals()
    assert totals.exact
    np.testing.assert_allclose(totals.value[: ledger.groups, 0], ledger.part.pairs)


def test_a_row_is_in_the_partition_of_its_key_and_no_other(tmp_path: Path) -> None:
    left = pa.table({"k": pa.array([1, 2, 3, 4, None, 1] * 20), "a": np.arange(120)})
    asked: dict[str, Any] = {"s": wm.sum("a")}
    question = resolved(Question(left, left.select(["k"]), ("k",), "inner", (), "a > 5", asked))
    work = RippleWork(question, Side.LEFT, 4, ExchangeDir(tmp_path.as_uri()), Allowance(2**20, 1))
    (batch,) = left.to_batches()
    scanned = work.scan(Side.LEFT, 3, [batch])
    assert scanned.rows == 120
    seen: dict[int, int] = {}
    for partition in range(4):
        for rows in work._read(Side.LEFT, [scanned], partition):
            assert set(rows.column("__left_block").to_pylist()) == {3}
            for key in rows.column("k").to_pylist():
                assert seen.setdefault(key, partition) == partition
    # Neither a row without a key nor one that the condition drops is kept.
    assert set(seen) == {1, 2, 3, 4}
    assert scanned.sections.rows == 100 - 5


@pytest.mark.parametrize(
    ("held", "memory", "wanted"),
    [(0, 100, 1), (50, 100, 1), (51, 100, 2), (1000, 100, 20), (10**12, 1, 256)],
)
def test_partitions(held: int, memory: int, wanted: int) -> None:
    assert partitions_for(held, memory=memory) == wanted


def test_a_value_travels(tmp_path: Path) -> None:
    """Tasks get it pickled; what was made from it on the way must not go along."""
    left = pa.table({"k": [1, 2], "a": [1, 2]})
    asked: dict[str, Any] = {"s": wm.sum("a")}
    question = resolved(Question(left, left.select(["k"]), ("k",), "inner", (), None, asked))
    work = RippleWork(question, Side.LEFT, 2, ExchangeDir(tmp_path.as_uri()), Allowance(2**20, 1))
    fresh = len(pickle.dumps(work))
    assert [len(work.numbered.schemas[side]) for side in Side] == [3, 2]
    assert question.join.keys
    assert len(pickle.dumps(work)) == fresh
    copied = pickle.loads(pickle.dumps(work))
    assert copied.numbered.names(Side.RIGHT) == ["k", "__right_block"]
