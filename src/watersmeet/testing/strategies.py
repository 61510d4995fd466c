"""Hypothesis strategies: schedules of a join and the circumstances it runs in."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from watersmeet.model import JoinType
from watersmeet.operators.family import find_algorithm
from watersmeet.operators.tuning import Costs, Invocation, Tuning
from watersmeet.policies.flush import Held
from watersmeet.policies.react import Owed
from watersmeet.testing.family import PublishedJoin
from watersmeet.testing.schedule import (
    REHASHES,
    Case,
    End,
    Punctuate,
    Push,
    Resize,
    Save,
    Settle,
    Stall,
    Step,
    Tidy,
    inputs_of,
)

# Memory limits for all rows, for a few dozen, and for none.
_MEMORIES = st.sampled_from([64 * 2**20, 20 * 2**10, 8 * 2**10, 5 * 2**10, 2500, 0])

# Keys of which few are equal, many, or all.
_KEYS = [
    st.none() | st.integers(-2, 2),
    st.integers(0, 40),
    st.just(7),
    st.sampled_from([7, 7, 7, 0, 1, 2, None]),
]

# Chosen by position: `sampled_from` would count a kind that is named twice only once.
_KINDS = [Push] * 8 + [Stall] * 3 + [Settle, Tidy, Save, Save, Resize, Punctuate]


@st.composite
def schedules(draw: st.DrawFn, inputs: int = 2) -> tuple[Step, ...]:
    """Steps in any order a runtime may take: all inputs end, and get no rows after that."""
    # Sizes are drawn first: left to itself, Hypothesis makes most schedules too short to spill.
    longest, most = draw(st.sampled_from([(30, 1), (24, 3), (16, 8), (8, 20)]))
    length = draw(st.integers(0, longest))
    rows = st.lists(draw(st.sampled_from(_KEYS)), min_size=most // 2, max_size=most).map(tuple)
    steps: list[Step] = []
    for _ in range(length):
        kind = _KINDS[draw(st.integers(0, len(_KINDS) - 1))]
        if kind is Push:
            steps.append(Push(draw(st.integers(0, inputs - 1)), draw(rows)))
        elif kind is Punctuate:
            promised = tuple(key for key in draw(rows)[:3] if key is not None)
            steps.append(Punctuate(draw(st.integers(0, inputs - 1)), promised))
        elif kind is Stall:
            steps.append(Stall(draw(st.integers(0, 30))))
        elif kind is Resize:
            steps.append(Resize(draw(_MEMORIES)))
        elif kind is Settle:
            steps.append(Settle(draw(st.sampled_from([0, 1, 3, 10_000]))))
        elif kind is Tidy:
            steps.append(Tidy())
        else:
            steps.append(Save(restores=draw(st.booleans())))
    for side in draw(st.permutations(range(inputs))):
        early = max(draw(st.integers(-2 * length, length)), 0)
        end = len(steps) - early
        late = [step for step in steps[end:] if not (isinstance(step, Push) and step.side == side)]
        steps = [*steps[:end], End(side), *late]
    return tuple(steps)


def cases(how: JoinType | None = None) -> st.SearchStrategy[Case]:
    """Schedules in all circumstances, for one join type or any."""
    return st.builds(
        Case,
        schedules(),
        how=st.sampled_from(JoinType if how is None else [how]),
        memory=_MEMORIES,
        key=st.sampled_from(["int64", "int64", "string"]),
        codes=st.sampled_from(list(REHASHES)),
        uneven=st.booleans(),
    )


def wide_cases(predicates: str) -> st.SearchStrategy[Case]:
    """Schedules for one kind of predicates, between two inputs or more."""
    inputs = inputs_of(predicates)
    return st.builds(
        Case,
        schedules(inputs),
        how=st.sampled_from(JoinType) if inputs == 2 else st.just(JoinType.INNER),
        memory=_MEMORIES,
        key=st.sampled_from(["int64", "string"]),
        codes=st.sampled_from(list(REHASHES)),
        uneven=st.booleans(),
        predicates=st.just(predicates),
    )


def tunings() -> st.SearchStrategy[Tuning]:
    """Settings with which a handful of rows take every path of the code."""
    return st.builds(
        Tuning,
        partitions=st.integers(1, 5),
        flush_share=st.sampled_from([0.0, 0.25, 0.5, 1.0]),
        fan_in=st.sampled_from([None, 2, 3]),
        chunk_rows=st.sampled_from([32_768, 1, 2, 3, 7]),
        # Given, because measuring a disk takes longer than the rest of an example.
        costs=st.sampled_from(
            [Costs(random=0.01, sequential=0.002), Costs(random=1.0, sequential=1.0)]
        ),
        page_rows=st.sampled_from([None, 1, 2, 5]),
        whole_tasks=st.booleans(),
        memory_rows=st.sampled_from([4, 1, 2, 8, 20, None]),
        distinct=st.sampled_from([None, 1, 10]),
        purge_share=st.sampled_from([0.5, 0.0]),
        purge_after=st.sampled_from([1, 1, 3, 100]),
        expected_rows=st.sampled_from([None, (0, 0), (20, 40), (5000, 3)]),
        invocation=st.builds(
            Invocation, gamma=st.sampled_from([1.0, 0.1, 3.0]), stops=st.booleans()
        ),
        remaps=st.booleans(),
    )


def published_joins(name: str) -> st.SearchStrategy[PublishedJoin]:
    """One published join under any tuning, with blocks of a row or of many."""
    find_algorithm(name)
    return st.builds(
        PublishedJoin,
        st.just(name),
        tuning=tunings(),
        block_bytes=st.sampled_from([None, 1, 200, 600]),
        tuning_after_restore=st.none() | tunings(),
    )


def _table(draw: st.DrawFn, values: st.SearchStrategy[float], partitions: int) -> NDArray[Any]:
    """A read-only array of numbers by [side, partition]."""
    side = st.lists(values, min_size=partitions, max_size=partitions)
    table = np.array([draw(side), draw(side)])
    table.flags.writeable = False
    return table


@st.composite
def held_rows(draw: st.DrawFn) -> Held:
    """What a flush policy may be shown."""
    partitions = draw(st.integers(1, 6))
    rows = _table(draw, st.integers(0, 5), partitions)
    return Held(rows, _table(draw, st.floats(0, 1), partitions))


@st.composite
def owed_work(draw: st.DrawFn) -> Owed:
    """What a react policy may be shown."""
    partitions = draw(st.integers(1, 6))
    results = st.sampled_from([0.0, 0.0, 0.25, 1.0, 7.0])
    seconds = st.sampled_from([0.0, 0.001, 1.0])
    return Owed(
        md_results=_table(draw, results, partitions),
        md_seconds=_table(draw, seconds, partitions),
        dd_results=_table(draw, results, partitions)[0],
        dd_seconds=_table(draw, seconds, partitions)[0],
        resident=_table(draw, st.integers(0, 5), partitions),
    )
