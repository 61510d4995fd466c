"""A condition on pairs is part of the match, for every algorithm and join type."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.contract.running import run, spilling
from tests.crossing import crossed
from watersmeet.model import JoinType
from watersmeet.operators.family import ALGORITHMS
from watersmeet.rows.condition import ConditionLike
from watersmeet.rows.schema import JoinSchema
from watersmeet.testing.oracle import (
    assert_same,
    counted,
    expected_rows,
    pairs_by_duckdb,
    pairs_by_loop,
)

ROWS = 60


def side(name: str) -> pa.Table:
    rng = random.Random(name)
    return pa.table(
        {
            "k": pa.array([rng.choice([None, *"abcd"]) for _ in range(ROWS)]),
            "n": pa.array([rng.choice([None, 1, 2, 3]) for _ in range(ROWS)], pa.int32()),
            name: pa.array(range(ROWS), pa.int64()),
        }
    )


def lower_number(pairs: pa.RecordBatch) -> pa.Array:
    return pc.less(pairs.column("left"), pairs.column("right"))


CONDITIONS: dict[str, ConditionLike] = {
    "columns of both sides, with nulls": pc.field("n") < pc.field("n_right"),
    "columns of one side": pc.field("n_right") == 2,
    "a key": pc.field("k") != "a",
    "a function": lower_number,
    "never": pc.field("left") < 0,
}


@pytest.mark.parametrize(("condition", "how"), crossed(CONDITIONS, JoinType, times=2))
def test_a_pair_that_fails_the_condition_is_no_match(
    condition: str, how: JoinType, tmp_path: Path
) -> None:
    inputs = side("left"), side("right")
    schema = JoinSchema.resolve(
        inputs[0].schema, inputs[1].schema, "k", how, condition=CONDITIONS[condition]
    )
    pairs = pairs_by_duckdb(schema, inputs)
    assert pairs == pairs_by_loop(schema, inputs)
    expected = expected_rows(schema, inputs, pairs)
    for name in ALGORITHMS:
        assert_same(counted(run(spilling(name), schema, inputs, directory=tmp_path)), expected)
