"""The checksum that memory tests and benchmarks trust instead of a second join."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.cases import Input
from benchmarks.checksum import Tally, expected
from benchmarks.inputs import LEFT, RIGHT, batches

INPUTS = [
    Input(rows=3_000, distinct=900, batch_rows=1_000),
    Input(rows=3_000, distinct=900, batch_rows=1_000, key="string"),
    Input(rows=500, distinct=90, batch_rows=100, extra_ints=2, text_bytes=24),
]


def joined_by_arrow(given: Input) -> pa.RecordBatch:
    left, right = (pa.Table.from_batches(batches(given, side)) for side in (LEFT, RIGHT))
    (batch,) = left.join(right, "key", join_type="inner").combine_chunks().to_batches()
    return batch


def added_up(batch: pa.RecordBatch, given: Input) -> tuple[int, int]:
    tally = Tally(given)
    tally.add(batch)
    return tally.rows, tally.checksum


@pytest.mark.parametrize("given", INPUTS, ids=["narrow", "string keys", "wide"])
def test_a_true_join_adds_up_in_any_order_and_split(given: Input) -> None:
    result = joined_by_arrow(given)
    assert added_up(result, given) == expected(given)
    shuffled = result.take(np.random.default_rng(3).permutation(result.num_rows))
    tally = Tally(given)
    for start in range(0, shuffled.num_rows, 77):
        tally.add(shuffled.slice(start, 77))
    assert (tally.rows, tally.checksum) == expected(given)


def _swapped(values: np.ndarray) -> np.ndarray:
    values = values.copy()
    unlike = int(np.argmax(values != values[0]))
    values[[0, unlike]] = values[[unlike, 0]]
    return values


@pytest.mark.parametrize("column", ["left_row", "right_row", "key", "left_1", "right_text"])
def test_two_exchanged_values_of_any_column_are_noticed(column: str) -> None:
    given = INPUTS[2]
    result = joined_by_arrow(given)
    index = result.schema.get_field_index(column)
    values = _swapped(result.column(index).to_numpy(zero_copy_only=False))
    wrong = result.set_column(index, result.schema.field(index), pa.array(values))
    rows, checksum = added_up(wrong, given)
    assert rows == expected(given)[0]
    assert checksum != expected(given)[1]


def test_a_row_that_replaces_another_is_noticed() -> None:
    given = INPUTS[0]
    result = joined_by_arrow(given)
    index = np.arange(result.num_rows)
    index[5] = 6
    rows, checksum = added_up(result.take(index), given)
    assert rows == expected(given)[0]
    assert checksum != expected(given)[1]
