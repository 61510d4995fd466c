"""What every join operator and every policy must do, as checks to run on a new one.

An operator is checked through a `Maker` (testing/schedule.py says what that is; `PublishedJoin` in
testing/family.py is one to copy), a policy as it is:

    check_operator(MyMaker())
    check_flush_policy(my_policy)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from watersmeet.model import JoinType, Side
from watersmeet.policies.flush import FlushPolicy, Held
from watersmeet.policies.react import Owed, ReactPolicy, TaskKind
from watersmeet.testing.schedule import (
    Case,
    End,
    Maker,
    Punctuate,
    Push,
    Resize,
    Save,
    Settle,
    Stall,
    Step,
    Tidy,
    play,
)
from watersmeet.testing.strategies import cases, held_rows, owed_work, wide_cases

_SMALL = 8 * 2**10
_LIMITS = (2 * _SMALL, 2500, _SMALL, 2 * _SMALL, _SMALL, 800, 0)
_ROWS = 5
_ROUNDS = 4

Key = Callable[[int], int | None]


def check_operator(maker: Maker) -> None:
    """All forced cases and random schedules, for every join type."""
    for how in JoinType:
        for case in forced_cases(how).values():
            play(maker, case)
        check_schedules(st.just(maker), how)


def check_schedules(
    makers: st.SearchStrategy[Maker], how: JoinType, *, search: settings | None = None
) -> None:
    """Under random schedules in random circumstances no result is lost or comes twice, and no file
    is left behind.

    Hypothesis's current profile says how many are tried, unless `search` does.
    """

    @(search or settings())
    @given(maker=makers, case=cases(how))
    def every_schedule_gives_the_join(maker: Maker, case: Case) -> None:
        play(maker, case)

    every_schedule_gives_the_join()


def check_predicates(
    makers: st.SearchStrategy[Maker], predicates: str, *, search: settings | None = None
) -> None:
    """The same for one kind of predicates (`PREDICATES` in testing/schedule.py names them)."""

    @(search or settings())
    @given(maker=makers, case=wide_cases(predicates))
    def every_schedule_gives_the_join(maker: Maker, case: Case) -> None:
        play(maker, case)

    every_schedule_gives_the_join()


def forced_cases(how: JoinType) -> dict[str, Case]:
    """Circumstances that random schedules seldom bring about, one case for each."""
    plain = tuple(_rounds(lambda n: n % 4))
    one_key = tuple(_rounds(lambda n: 7))
    left_pushes = [step for step in plain if _is_push(step, Side.LEFT)]
    others = [step for step in plain if not _is_push(step, Side.LEFT)]
    return {
        "no rows at all": Case((End(Side.LEFT), End(Side.RIGHT)), how),
        "empty batches": Case(_ended([Push(Side.LEFT, ()), Push(Side.RIGHT, ())]), how),
        "one side only": Case(_ended(others), how, _SMALL),
        "null keys only": Case(_ended(_rounds(lambda n: None)), how, _SMALL),
        "one side ends first": Case(
            (*left_pushes, End(Side.LEFT), *others, End(Side.RIGHT)),
            how,
            _SMALL,
        ),
        "all in memory": Case(_ended(plain), how),
        "flush on every push": Case(_ended(plain), how, memory=0),
        "small memory": Case(_ended(plain), how, _SMALL, uneven=True),
        "all keys equal": Case(_ended(one_key), how, _SMALL),
        "all keys equal, flush on every push": Case(_ended(one_key), how, memory=0),
        "all hashes equal": Case(_ended(plain), how, _SMALL, codes="every hash 0"),
        "all hashes the largest": Case(
            _ended(plain), how, memory=0, codes="every hash at its largest"
        ),
        "save after every step": Case(
            _ended(step for each in plain for step in (each, Save())), how, _SMALL
        ),
        "save after every step, one key": Case(
            _ended(step for each in one_key for step in (each, Save())), how, memory=0
        ),
        # Each side twice in a row, so that a segment begins with the row after the last segment's.
        # Memory holds so many rows that a few of those that were saved have left it, but not most.
        "saves that add up": Case(
            _ended(
                step
                for number in range(40)
                for step in (
                    Push(Side(number // 2 % 2), tuple((number + n) % 9 for n in range(_ROWS))),
                    Save(restores=number % 5 == 4),
                )
            ),
            how,
            _SMALL,
        ),
        "settled now and then": Case(
            _ended(
                step
                for number, each in enumerate(plain)
                for step in (each, Settle(1 if number % 2 else 10_000), Tidy(), Save())
            ),
            how,
            memory=0,
        ),
        "short and long stalls": Case(
            _ended(
                step
                for number, each in enumerate(plain)
                for step in (each, Stall(40 if number % 5 == 4 else 2))
            ),
            how,
            memory=0,
        ),
        "a task is interrupted, and new rows come": Case(
            _ended(
                step
                for side in (Side.LEFT, Side.RIGHT)
                for step in (
                    Push(side, (1, 2, 3) * 5),
                    Push(side.other, (1, 2, 3)),
                    Stall(1),
                    Push(side.other, (1,)),
                    Stall(40),
                    Push(side, (9, 9, 9)),
                )
            ),
            how,
            _SMALL,
        ),
        "keys come, are promised away and go": Case(_ended(_passing_keys()), how, _SMALL),
        "keys go, flush on every push": Case(_ended(_passing_keys()), how, memory=0),
        "memory shrinks and grows": Case(
            _ended(
                step
                for number, each in enumerate(plain)
                for step in (each, Stall(2), Resize(_LIMITS[number % len(_LIMITS)]), Stall(1))
            ),
            how,
            _SMALL,
            key="string",
        ),
    }


def _rounds(key_of: Key) -> Iterator[Step]:
    """Pushes to both sides in turns, with a short stall after each turn."""
    for turn in range(_ROUNDS):
        keys = tuple(key_of(turn * _ROWS + n) for n in range(_ROWS))
        yield from (Push(Side.LEFT, keys), Push(Side.RIGHT, keys[turn % 3 :]), Stall(3 + 5 * turn))


def _passing_keys() -> Iterator[Step]:
    """New keys in every turn, which both sides promise, one before the other's last rows of the
    turn and one after. Some rows find no partner, and some come after the other side's promise."""
    for turn in range(2 * _ROUNDS):
        keys = tuple(range(3 * turn, 3 * turn + _ROWS))
        early, late = Side(turn % 2), Side((turn + 1) % 2)
        yield from (Push(early, keys), Push(late, keys[2:]), Stall(turn))
        yield from (Punctuate(early, keys[:4]), Save(restores=turn % 3 == 1), Push(late, keys[:3]))
        yield from (Settle(10_000 if turn % 3 == 2 else 1), Tidy(), Save(restores=turn % 3 == 2))
        yield from (Punctuate(late, keys[:3]), Save())


def _is_push(step: Step, side: Side) -> bool:
    return isinstance(step, Push) and step.side == side


def _ended(steps: Iterable[Step]) -> tuple[Step, ...]:
    return (*steps, End(Side.RIGHT), End(Side.LEFT))


def check_flush_policy(policy: FlushPolicy) -> None:
    """Its victims name all rows in memory, each once, so that a flush can always free enough.

    >>> from watersmeet.policies import flush
    >>> check_flush_policy(flush.largest)
    >>> try:
    ...     check_flush_policy(lambda held: flush.largest(held)[1:])
    ... except AssertionError as error:
    ...     print(str(error).splitlines()[0])
    never given up: {(<Side.RIGHT: 1>, 0)}
    """

    @settings(max_examples=200)
    @given(held=held_rows())
    def names_all_of_memory_once(held: Held) -> None:
        victims = policy(held)
        named = [(side, victim.partition) for victim in victims for side in victim.sides]
        assert len(named) == len(set(named)), "the same rows twice"
        held_at = {(Side(side), int(p)) for side, p in np.argwhere(held.rows)}
        assert held_at <= set(named), f"never given up: {held_at - set(named)}"
        for victim in victims:
            assert any(held.rows[side, victim.partition] for side in victim.sides), "no rows there"
            assert victim.reason, "no reason"
        assert policy(held) == victims, "another answer to the same question"

    names_all_of_memory_once()


def check_react_policy(policy: ReactPolicy) -> None:
    """The task it names has something to report; if no task has, it returns None."""

    @settings(max_examples=200)
    @given(owed=owed_work())
    def names_a_task_worth_doing(owed: Owed) -> None:
        task = policy(owed)
        if task is None:
            return
        if task.kind is TaskKind.MD:
            assert owed.md_results[task.side, task.partition] > 0
        else:
            assert owed.dd_results[task.partition] > 0
        assert policy(owed) == task, "another answer to the same question"

    names_a_task_worth_doing()
