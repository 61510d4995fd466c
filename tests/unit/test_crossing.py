"""Of parameters that cross, all combinations are there, and each value in a fast one."""

from __future__ import annotations

import pytest

from tests.crossing import crossed


@pytest.mark.parametrize("sizes", [(10, 16), (3, 3), (29, 6), (5, 6), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("times", [1, 2, 3])
def test_each_value_is_in_a_fast_combination(sizes: tuple[int, ...], times: int) -> None:
    cells = crossed(*(range(size) for size in sizes), times=times)
    everything = 1
    for size in sizes:
        everything *= size
    assert len({cell.values for cell in cells}) == len(cells) == everything
    fast = [cell.values for cell in cells if not cell.marks]
    assert len(fast) <= times * max(sizes)
    for place, size in enumerate(sizes):
        assert {values[place] for values in fast} == set(range(size))
