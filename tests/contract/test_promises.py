"""Promises in any order with all else that can happen to a join, against a model that keeps all.

The model knows every row that came and every key that was promised away. It says at any moment
which rows may go, and of outer and anti joins which of them must have been reported by then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.crossing import crossed
from watersmeet.model import JoinType, Side
from watersmeet.operators.family import ALGORITHMS, MECHANISMS, find_mechanism
from watersmeet.operators.progressive.join import ProgressiveJoin
from watersmeet.operators.stage import Stage
from watersmeet.operators.tuning import Costs, Tuning
from watersmeet.rows.promises import Promise
from watersmeet.store.account import MemoryAccount
from watersmeet.store.index import Codes
from watersmeet.store.spill import IoKind, SpillArea
from watersmeet.testing.family import PublishedJoin, watched_values
from watersmeet.testing.schedule import (
    Case,
    End,
    Player,
    Punctuate,
    Push,
    Resize,
    Resources,
    Save,
    Settle,
    Stall,
    Step,
    Tidy,
)
from watersmeet.testing.strategies import published_joins

PURGING = [name for name in ALGORITHMS if find_mechanism(name).purges]
FEW_ROWS = Tuning(
    partitions=2,
    fan_in=2,
    chunk_rows=3,
    flush_share=0.5,
    costs=Costs(random=0.01, sequential=0.001),
    page_rows=1,
    memory_rows=8,
    purge_share=0.0,
)


@dataclass(frozen=True)
class Advance:
    """A promise about the values of a watched predicate: no more rows of an input come whose value
    is below this one."""

    side: Side
    value: int


# Below all values of the schedules.
_LEAST = -60


class Model(Player):
    """Plays a case and looks, after all has been settled and tidied, whether what may go has gone.

    It expects a join that reads its runs at every `tidy` (`purge_share=0`). Rows of the other side
    of those that have one partner at most have keys that come once.
    """

    def __init__(self, maker: PublishedJoin, case: Case, directory: Path) -> None:
        super().__init__(maker, case, directory)
        self._settled = False
        self.looked = 0
        self.went = 0
        self._one_partner = maker.one_partner
        self._watched = watched_values(self._schema) if maker.watches_values else None
        self._came: list[set[int | None]] = [set(), set()]

    def _do(self, step: Step | Advance) -> None:
        if isinstance(step, Advance):
            self._advance(step)
        else:
            super()._do(self._unique(step))
        self._check_memory_before_the_stamp()
        if isinstance(step, Tidy) and self._settled and not self._ended:
            self._check_all_has_gone()
        self._settled = isinstance(step, Settle) and step.polls >= 1000
        self.went = self.operator.metrics.rows_purged

    def _advance(self, step: Advance) -> None:
        predicates = self._watched or self._schema.predicates
        if len(predicates) == 1:
            return
        self._promised[step.side].update(range(_LEAST, step.value))
        encode = predicates[1].encoder(step.side)
        # No value is null in a batch of one row.
        code = int(encode(self._case.batch(step.side, (step.value,), 0)).codes[0])
        promise = Promise.between(1, 0, code - 1)
        self._drain(self.operator.punctuate(step.side, promise))

    def _unique(self, step: Step) -> Step:
        if not isinstance(step, Push) or Side(step.side).other not in self._one_partner:
            return step
        keys = dict.fromkeys(key for key in step.keys if key not in self._came[step.side])
        self._came[step.side].update(keys)
        return Push(step.side, tuple(keys))

    @property
    def _join(self) -> ProgressiveJoin:
        assert isinstance(self.operator, ProgressiveJoin)
        return self.operator

    def _check_memory_before_the_stamp(self) -> None:
        """What a restored join goes by: see operators/progressive/purging.py."""
        workspace = self._join.workspace
        if any(workspace.watching.unswept):
            return
        for side, table in zip(Side, workspace.memory.tables, strict=True):
            every = np.arange(len(table))
            codes = table.codes(every)
            early = table.stamps < workspace.purged[side][workspace.memory.partition_of(codes)]
            values = table.batch(every[early]).column(self._column).to_pylist()
            assert not any(self._may_go(side, value) for value in values)

    def _check_all_has_gone(self) -> None:
        self.looked += 1
        for side in Side:
            for batch in self._rows_there(side):
                values = batch.column(self._column).to_pylist()
                there = [value for value in values if self._may_go(side, value)]
                assert not there, "settled and tidied, and still there"
                if side in self._one_partner:
                    others = set(self._rows_of(side.other))
                    rows = zip(*self._keys(batch), strict=True)
                    assert not any(self._partners(side, row, others) for row in rows)
        assert self._stages[Stage.UNMATCHED] == sum(map(self._reported_by_now, Side))

    def _rows_there(self, side: Side) -> Iterator[pa.RecordBatch]:
        workspace = self._join.workspace
        table = workspace.memory.tables[side]
        yield table.batch(np.arange(len(table)))
        for disk in workspace.disk.partitions:
            for run in disk.runs[side]:
                read = run.open(IoKind.SCAN)
                yield from (read(number).rows for number in range(run.block_count))

    # ---- what the model knows -------------------------------------------------------------------

    @property
    def _has_band(self) -> bool:
        return self._case.predicates == "equal and band"

    @property
    def _column(self) -> str:
        """What promises are about."""
        return "t" if self._has_band else "k"

    def _may_go(self, side: Side, value: int | None) -> bool:
        """Whether no partner of a row with this value will come."""
        if value is None:
            return True
        near = range(value - 3, value + 4) if self._has_band else [value]
        return self._promised[side.other].issuperset(near)

    def _keys(self, batch: pa.RecordBatch) -> list[list[int | None]]:
        names = ["k", "t"] if self._has_band else ["k"]
        return [batch.column(name).to_pylist() for name in names]

    def _rows_of(self, side: Side) -> list[tuple[int | None, ...]]:
        return [row for batch in self._inputs[side] for row in zip(*self._keys(batch), strict=True)]

    def _partners(
        self, side: Side, row: tuple[int | None, ...], others: set[tuple[int | None, ...]]
    ) -> bool:
        if self._has_band and None not in row:
            key, value = row
            assert value is not None
            return any((key, near) in others for near in range(value - 3, value + 4))
        return None not in row and row in others

    def _reported_by_now(self, side: Side) -> int:
        """Rows without a partner of which that is certain."""
        if not self._case.how.keeps_unmatched(side):
            return 0
        others = set(self._rows_of(side.other))
        return sum(
            None in row or (self._may_go(side, row[-1]) and not self._partners(side, row, others))
            for row in self._rows_of(side)
        )


KEYS = st.integers(0, 9)
WATCHED = ["keys", "values of keys", "band"]


@st.composite
def schedules(draw: st.DrawFn) -> tuple[Step, ...]:
    """Rows and promises about them, and in any order between them all that a runtime may ask."""
    steps: list[Step] = []
    most = draw(st.sampled_from([2, 6]))
    rows = st.lists(st.none() | KEYS, min_size=1, max_size=most).map(tuple)
    side = st.sampled_from(Side)
    each: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
        "push": st.tuples(st.builds(Push, side, rows)),
        "punctuate": st.tuples(st.builds(Punctuate, side, st.lists(KEYS, max_size=3).map(tuple))),
        "advance": st.tuples(st.builds(Advance, side, st.integers(-2, 14))),
        "stall": st.tuples(st.builds(Stall, st.integers(0, 12))),
        "settle": st.tuples(st.builds(Settle, st.sampled_from([1, 4, 10_000]))),
        "settle and tidy": st.just((Settle(10_000), Tidy())),
        "tidy": st.just((Tidy(),)),
        "save": st.tuples(st.builds(Save, restores=st.booleans())),
        "resize": st.tuples(st.builds(Resize, st.sampled_from([0, 2500, 2**13, 2**26]))),
    }
    kinds = ["push"] * 8 + ["punctuate"] * 2 + ["advance"] * 2
    kinds += ["settle and tidy"] * 2 + ["save"] * 2 + list(each)
    for _ in range(draw(st.integers(1, 22))):
        steps += draw(each[kinds[draw(st.integers(0, len(kinds) - 1))]])
    return (*steps, Settle(10_000), Tidy(), End(Side.LEFT), End(Side.RIGHT))


def play_model(maker: PublishedJoin, case: Case, directory: Path) -> Model:
    model = Model(maker, case, directory)
    model.play()
    return model


def check_promises(name: str, how: JoinType, directory: Path, *, search: settings) -> None:
    @search
    @given(
        steps=schedules(),
        maker=published_joins(name),
        memory=st.sampled_from([2**26, 2**13, 2500, 0]),
        watched=st.sampled_from(WATCHED),
        one_partner=st.sampled_from([(), (), (Side.LEFT,), (Side.RIGHT,), (Side.LEFT, Side.RIGHT)]),
    )
    def what_may_go_has_gone(
        steps: tuple[Step, ...],
        maker: PublishedJoin,
        memory: int,
        watched: str,
        one_partner: tuple[Side, ...],
    ) -> None:
        tuning = replace(maker.tuning, purge_share=0.0)
        maker = replace(
            maker,
            tuning=tuning,
            tuning_after_restore=None,
            watches_values=watched == "values of keys",
            # The rows of a case with a band have few keys, which do not come once.
            one_partner=() if watched == "band" else one_partner,
        )
        predicates = "equal and band" if watched == "band" else "equal"
        case = Case(steps, how, memory, predicates=predicates)
        assert play_model(maker, case, directory).looked

    what_may_go_has_gone()


@pytest.mark.parametrize("how", JoinType)
@pytest.mark.parametrize("name", ["shj", "xjoin", "hmj", "pmj", "rpj"])
def test_what_may_go_has_gone_and_nothing_else(name: str, how: JoinType, tmp_path: Path) -> None:
    few = settings(max_examples=settings().max_examples // 5)
    check_promises(name, how, tmp_path, search=few)


@pytest.mark.slow
@pytest.mark.parametrize("how", JoinType)
@pytest.mark.parametrize("name", PURGING)
def test_of_many_more_schedules_too(name: str, how: JoinType, tmp_path: Path) -> None:
    check_promises(name, how, tmp_path, search=settings(max_examples=1000))


# ---- forced -------------------------------------------------------------------------------------


def passing(turns: int = 12) -> Iterator[Step]:
    """Each turn has a key of its own in both sides, one that only the left has, and one that only
    the right has. All three are promised away by both in the turn after, and the first by the right
    in every other turn as soon as it has come.

    Some rows came before all these and stay, so that a saved join cannot know by the age of its
    oldest row which of the others have gone.
    """
    for side in Side:
        yield Push(side, tuple(range(900, 920)))
    for turn in range(turns):
        both, left, right = 3 * turn, 3 * turn + 1, 3 * turn + 2
        yield Push(Side.LEFT, (both, both, left))
        yield Push(Side.RIGHT, (both, right))
        if turn % 2 == 0:
            yield Punctuate(Side.RIGHT, (both,))
        if turn:
            old = (both - 3, left - 3, right - 3)
            yield from (Punctuate(Side.LEFT, old), Save(), Punctuate(Side.RIGHT, old))
        yield from (Settle(10_000), Tidy(), Save(restores=turn % 2 == 0))


ALL_IN_MEMORY = replace(FEW_ROWS, memory_rows=None)


@pytest.mark.parametrize(("name", "how"), crossed(PURGING, JoinType))
@pytest.mark.parametrize("tuning", [FEW_ROWS, ALL_IN_MEMORY], ids=["spilling", "in memory"])
def test_of_keys_that_pass_by_only_the_latest_are_there(
    name: str, how: JoinType, tuning: Tuning, tmp_path: Path
) -> None:
    case = Case((*passing(), End(Side.LEFT), End(Side.RIGHT)), how, 2**26)
    model = play_model(PublishedJoin(name, tuning, block_bytes=1), case, tmp_path)
    assert model.looked == 12
    assert model.went > 0


def rising(turns: int = 12) -> Iterator[Step | Advance]:
    """Values that rise on both sides, which both promise now and then. One row of each side that
    came before all others stays."""
    for side in Side:
        yield Push(side, (900, 901 + side))
    for turn in range(turns):
        yield Push(Side.LEFT, tuple(range(2 * turn, 2 * turn + 4)))
        yield Push(Side.RIGHT, tuple(range(2 * turn + 1, 2 * turn + 9, 2)))
        yield from (Advance(Side(turn % 2), 2 * turn), Save(restores=turn % 3 == 0))
        yield from (Advance(Side((turn + 1) % 2), 2 * turn - 2), Stall(turn))
        yield from (Settle(10_000), Tidy(), Save(restores=turn % 3 == 1))


def many_to_one(turns: int = 12) -> Iterator[Step]:
    """A key of the right side comes once, and rows of the left side before it and long after."""
    for turn in range(turns):
        yield Push(Side.LEFT, (turn, turn + 1, turn - 2))
        yield Push(Side.RIGHT, (turn,))
        yield from (Push(Side.LEFT, (turn, turn - 1)), Save(restores=turn % 2 == 0))
        yield from (Settle(10_000), Tidy(), Punctuate(Side.LEFT, (turn - 3,)))


FORCED = {
    "one partner": (many_to_one, ALL_IN_MEMORY, "equal"),
    "one partner, spilling": (many_to_one, replace(FEW_ROWS, purge_after=3), "equal"),
    "in batches": (passing, replace(ALL_IN_MEMORY, purge_after=100), "equal"),
    "in batches, spilling": (passing, replace(FEW_ROWS, purge_after=3), "equal"),
    "values": (rising, replace(ALL_IN_MEMORY, purge_after=2), "equal"),
    "values, spilling": (rising, FEW_ROWS, "equal"),
    "band": (rising, replace(ALL_IN_MEMORY, purge_after=100), "equal and band"),
    "band, spilling": (rising, replace(FEW_ROWS, purge_after=2), "equal and band"),
}
"""Schedules, settings and predicates by name."""


def play_forced(name: str, mode: str, how: JoinType, directory: Path) -> None:
    schedule, tuning, predicates = FORCED[mode]
    steps: tuple[Any, ...] = (*schedule(), End(Side.LEFT), End(Side.RIGHT))
    maker = PublishedJoin(
        name,
        tuning,
        block_bytes=1,
        watches_values=mode.startswith("values"),
        one_partner=(Side.LEFT,) if mode.startswith("one partner") else (),
    )
    model = play_model(maker, Case(steps, how, 2**26, predicates=predicates), directory)
    assert model.looked == 12
    assert model.went > 0


@pytest.mark.parametrize("how", [JoinType.FULL, JoinType.ANTI])
@pytest.mark.parametrize("mode", FORCED)
def test_of_watched_values_and_sweeps_that_wait(mode: str, how: JoinType, tmp_path: Path) -> None:
    play_forced("rpj", mode, how, tmp_path)


def test_the_registry_says_who_lets_go_of_rows() -> None:
    assert {mechanism.name for mechanism in MECHANISMS if mechanism.purges} == {
        "progressive",
        "reference",
    }


# ---- promises that are broken -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rpj", "pmj", "pr-join"])
@pytest.mark.parametrize("how", [JoinType.INNER, JoinType.FULL])
def test_who_breaks_a_promise_is_counted_and_joined_with_what_is_there(
    name: str, how: JoinType, tmp_path: Path
) -> None:
    case = Case((), how, 2**26)
    schema, maker = case.schema(), PublishedJoin(name, FEW_ROWS)
    operator = maker.make(schema, Resources(MemoryAccount(2**26), SpillArea(tmp_path)))
    rows: Counter[tuple[int | None, int | None]] = Counter()

    def take(found: Iterator[object]) -> None:
        for matches in found:
            batch = schema.materialise(matches)  # type: ignore[arg-type]
            rows.update(zip(*(batch.column(n).to_pylist() for n in ("a", "b")), strict=True))

    def codes(*keys: int) -> Codes:
        return schema.encode(Side.LEFT, case.batch(Side.LEFT, keys, 0)).codes

    take(operator.push(Side.LEFT, case.batch(Side.LEFT, (1, 2), 0)))
    take(operator.punctuate(Side.LEFT, Promise.of_codes(0, codes(1, 2))))
    take(operator.push(Side.RIGHT, case.batch(Side.RIGHT, (2, 3), 0)))
    take(operator.push(Side.LEFT, case.batch(Side.LEFT, (3, 2, 1, 1), 2)))
    for side in Side:
        take(operator.end(side))
    take(operator.finish())
    purges = find_mechanism(name).purges
    assert operator.metrics.broken_promises == (3 if purges else 0)
    pairs = Counter(pair for pair in rows.elements() if None not in pair)
    assert {(1, 0), (2, 1)} <= set(pairs) <= {(1, 0), (2, 1), (3, 0)}
    assert max(pairs.values()) == 1
    if how is JoinType.FULL:
        assert {a for a, _ in rows if a is not None} == set(range(6))
    operator.close()


def test_a_promise_about_codes_that_do_not_decide_lets_nothing_go(tmp_path: Path) -> None:
    case = Case((), JoinType.LEFT, 2**26, key="string")
    schema = case.schema()
    operator = PublishedJoin("rpj", FEW_ROWS).make(
        schema, Resources(MemoryAccount(2**26), SpillArea(tmp_path))
    )
    for side in Side:
        list(operator.push(side, case.batch(side, (1,), 0)))
    codes = schema.encode(Side.RIGHT, case.batch(Side.RIGHT, (1,), 0)).codes
    assert not list(operator.punctuate(Side.RIGHT, Promise.of_codes(0, codes)))
    again = operator.push(Side.RIGHT, case.batch(Side.RIGHT, (1,), 1))
    found = [schema.materialise(matches) for matches in again]
    assert pa.Table.from_batches(found).num_rows == 1
    operator.close()
