"""Which rows leave memory: the papers' rules on small arrays."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.operators.inputs import COSTS, SCHEMA, batch, make
from watersmeet.model import Side
from watersmeet.operators.tuning import Tuning
from watersmeet.policies import flush
from watersmeet.policies.flush import BOTH, Held, Victim

L, R = Side


def held(left: list[int], right: list[int], arriving: list[list[float]] | None = None) -> Held:
    rows = np.array([left, right])
    return Held(rows, np.zeros(rows.shape) if arriving is None else np.array(arriving))


def named(victims: list[Victim]) -> list[tuple[tuple[Side, ...], int]]:
    return [(victim.sides, victim.partition) for victim in victims]


def test_xjoin_gives_up_the_largest_partition_of_either_side() -> None:
    victims = flush.largest(held([3, 9, 0], [7, 1, 2]))
    assert named(victims) == [((L,), 1), ((R,), 0), ((L,), 0), ((R,), 2), ((R,), 1)]


def test_hmj_gives_up_both_sides_of_a_partition_together() -> None:
    memory = held([5, 9, 1, 0], [5, 1, 6, 0])
    assert named(flush.largest_pair(memory)) == [(BOTH, 1), (BOTH, 2), (BOTH, 0)]
    assert named(flush.smallest_pair(memory)) == [(BOTH, 1), (BOTH, 2), (BOTH, 0)]
    assert named(flush.everything(memory)) == [(BOTH, 0), (BOTH, 1), (BOTH, 2)]


def test_the_adaptive_flush_wants_sizes_that_are_close_and_a_large_sum() -> None:
    balanced_but_small, balanced_and_large, lopsided_and_large = 0, 1, 2
    victims = flush.adaptive(held([2, 10, 21], [2, 11, 1]))
    assert [v.partition for v in victims] == [
        balanced_and_large,
        lopsided_and_large,
        balanced_but_small,
    ]


# RPJ 4.1's example has two values of A_join, here two partitions: 20 tuples of each relation in
# memory, ten of each value. The paper's second p_2(1) is p_2(2) = 30%.
ARRIVING = [[0.35, 0.25], [0.10, 0.30]]


def test_the_least_likely_arrival_evicts_the_opposite_relation() -> None:
    victims = flush.optimal(held([10, 10], [10, 10], ARRIVING))
    assert named(victims) == [((L,), 0), ((R,), 1), ((L,), 1), ((R,), 0)]
    assert all(victim.divisible for victim in victims)
    assert "10.000%" in victims[0].reason


def test_the_papers_example_evicts_ten_and_then_five(tmp_path: Path) -> None:
    """10 tuples of R1 with value 1, then 5 of R2 with value 2."""
    join = make("rpj", tmp_path, Tuning(partitions=2, memory_rows=40, costs=COSTS))
    one, two = keys_by_partition()
    for side in Side:
        list(join.push(side, batch(side, [one, two] * 10)))
    memory = join.workspace.memory
    assert memory.rows.tolist() == [[10, 10], [10, 10]]
    taken, reasons = memory.choose(flush.optimal(Held(memory.rows, np.array(ARRIVING))), 15)
    assert taken.tolist() == [[10, 0], [0, 5]]
    list(join.arrivals.flush(taken, reasons))
    assert memory.rows.tolist() == [[0, 10], [10, 5]]
    assert [(r.side, r.partition, r.rows) for r in join.metrics.flushes] == [(L, 0, 10), (R, 1, 5)]
    assert [r.reason[:4] for r in join.metrics.flushes] == ["10.0", "25.0"]
    join.close()


def keys_by_partition() -> list[int]:
    """A key for either of two partitions."""
    codes = SCHEMA.encode(L, batch(L, range(100))).codes
    return [int(np.flatnonzero(codes >> np.uint64(63) == p)[0]) for p in (0, 1)]


def expected_results(rows: np.ndarray, arriving: np.ndarray) -> float:
    """Equation 3: what stays in memory, weighed by what may arrive on the other side."""
    return float((rows * arriving[::-1]).sum())


@pytest.mark.parametrize("seed", range(20))
def test_no_other_flush_keeps_more_expected_results(seed: int) -> None:
    """Lemma 1, by trying every other way to evict as many rows."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 4, (2, 2))
    arriving = rng.choice([0.01, 0.05, 0.1, 0.2, 0.3, 0.4], (2, 2))
    nflush = int(rng.integers(0, rows.sum() + 1))
    best = max(
        expected_results(rows - np.array(taken).reshape(2, 2), arriving)
        for taken in product(*(range(n + 1) for n in rows.ravel()))
        if sum(taken) == nflush
    )
    left = rows.copy()
    for victim in flush.optimal(Held(rows, arriving)):
        (side,) = victim.sides
        gone = min(nflush, left[side, victim.partition])
        left[side, victim.partition] -= gone
        nflush -= gone
    assert nflush == 0
    assert expected_results(left, arriving) == pytest.approx(best)


def test_rows_of_a_side_go_first_when_the_other_has_ended() -> None:
    """p_1 = 0 once R1 has ended: rows of R2 can meet nothing that is still to come."""
    victims = flush.optimal(held([3, 3], [1, 2], [[0.0, 0.0], [0.6, 0.4]]))
    assert named(victims)[:2] == [((R,), 1), ((R,), 0)]


def test_probabilities_that_agree_in_two_digits_count_as_equal() -> None:
    nearly_equal = [[0.2501, 0.2499], [0.0, 0.0]]
    victims = flush.optimal(held([0, 0], [3, 8], nearly_equal))
    assert named(victims) == [((R,), 1), ((R,), 0)]
