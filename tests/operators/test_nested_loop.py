"""How many blocks DINER's nested loop has in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.model import Side
from watersmeet.operators.family import make_operator
from watersmeet.operators.regions.join import RegionJoin
from watersmeet.operators.tuning import Tuning
from watersmeet.rows.address import Index
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.runs import Piece
from watersmeet.store.spill import SpillArea

SCHEMA = pa.schema({"k": pa.int64()})


@pytest.mark.parametrize("algorithm", ["diner", "diner-plain"])
@pytest.mark.parametrize("outer_blocks", [1, 3, None])
def test_a_stall_loads_no_more_outer_blocks_than_it_may_and_clean_up_all_that_fit(
    algorithm: str, outer_blocks: int | None, tmp_path: Path
) -> None:
    join = make_operator(
        algorithm,
        JoinSchema.resolve(SCHEMA, SCHEMA, "k"),
        memory=MemoryAccount(2**26),
        spill=SpillArea(tmp_path),
        tuning=Tuning(memory_rows=40, flush_share=0.1, outer_blocks=outer_blocks),
    )
    assert isinstance(join, RegionJoin)
    loaded: list[int] = []
    read = join.loop._read

    def spy(side: Side, numbers: Index) -> Piece:
        if join.loop.round is not None and side == join.loop.round.outer:
            loaded.append(len(numbers))
        return read(side, numbers)

    join.loop._read = spy  # type: ignore[method-assign]
    rng = np.random.default_rng(3)
    found, keys = 0, rng.integers(0, 20, (2, 400))
    for start in range(0, 400, 10):
        for side in Side:
            rows = pa.record_batch([pa.array(keys[side, start : start + 10])], schema=SCHEMA)
            found += sum(map(len, join.push(side, rows)))
        if start == 200:
            found += sum(map(len, join.idle(lambda: False)))
            most = max(loaded)
            loaded.clear()
    for side in Side:
        found += sum(map(len, join.end(side)))
    found += sum(map(len, join.finish()))
    join.close()
    assert found == sum(np.count_nonzero(keys[0] == key) for key in keys[1])
    assert most == outer_blocks if outer_blocks else most > 3
    assert max(loaded) > 3
