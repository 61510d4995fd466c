"""The nested loop can be left after every inner block: what is done is what it says is done."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from watersmeet.model import Side
from watersmeet.operators.family import make_operator
from watersmeet.operators.regions.join import RegionJoin
from watersmeet.operators.tuning import Costs, Tuning
from watersmeet.rows.address import Matches
from watersmeet.rows.bands import Band
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.runs import Piece
from watersmeet.store.spill import SpillArea
from watersmeet.testing.schedule import Pause

SCHEMAS = [pa.schema({"t": pa.int64(), name: pa.int64()}) for name in ("left", "right")]
BAND = Band("t", "t", low=-2, high=2)
SCHEMA = JoinSchema.resolve(SCHEMAS[0], SCHEMAS[1], BAND)
TUNING = Tuning(
    memory_rows=8, flush_share=0.5, costs=Costs(random=0.01, sequential=0.001), chunk_rows=1000
)
ONE_ROW, SOME_ROWS = 1, 100
Pairs = Counter[tuple[int, int]]


class Inputs:
    """A join with all that was pushed to it and all that it has reported."""

    def __init__(self, name: str, directory: Path, *, block_bytes: int, memory: int) -> None:
        join = make_operator(
            name,
            SCHEMA,
            memory=MemoryAccount(memory),
            spill=SpillArea(directory),
            clock=lambda: 0.0,
            tuning=TUNING,
        )
        assert isinstance(join, RegionJoin)
        self.join = join
        self.join.workspace.block_bytes = block_bytes
        self.values: tuple[list[int], list[int]] = ([], [])
        self.reported: Pairs = Counter()

    def take(self, matches: Iterable[Matches]) -> None:
        for each in matches:
            rows = SCHEMA.materialise(each)
            left, right = (rows.column(name).to_pylist() for name in ("left", "right"))
            self.reported.update(zip(left, right, strict=True))

    def push(self, side: Side, values: list[int]) -> None:
        numbers = range(len(self.values[side]), len(self.values[side]) + len(values))
        batch = pa.record_batch([values, list(numbers)], schema=SCHEMAS[side])
        self.values[side].extend(values)
        self.take(self.join.push(side, batch))

    def stall(self, polls: int) -> None:
        self.take(self.join.idle(Pause(polls)))

    def finish(self) -> Pairs:
        for side in Side:
            self.take(self.join.end(side))
        self.take(self.join.finish())
        self.join.close()
        return self.reported

    def partners(self) -> Pairs:
        """All pairs of the join of what was pushed."""
        pairs = itertools.product(enumerate(self.values[0]), enumerate(self.values[1]))
        return Counter((n, m) for (n, x), (m, y) in pairs if -2 <= x - y <= 2)

    # ---- what the invariant says ----------------------------------------------------------------

    def blocks(self, side: Side) -> list[Piece]:
        blocks = self.join.workspace.blocks[side]
        return [blocks.read(number) for number in range(len(blocks))]

    def check(self) -> None:
        """Reported are: the pairs that were in memory together, those of the first joined[0] and
        the first joined[1] blocks, and those that the round has come to. Each once."""
        loop = self.join.loop
        met = self._met_in_memory()
        pieces = {side: self.blocks(side) for side in Side}
        done = {(n, m) for n in range(loop.joined[0]) for m in range(loop.joined[1])}
        if loop.round is not None:
            outer = Side(loop.round.outer)
            inner_count = loop.joined[outer.other]
            order = loop._outer_blocks().tolist()
            place = 0
            came_to = [(loop.round.done, inner_count), *loop.round.begun]
            for count, inner in came_to:
                for block in order[place : place + count]:
                    for other in range(inner):
                        done.add((block, other) if outer is Side.LEFT else (other, block))
                place += count
        for n, m in done:
            for left in _numbers(pieces[Side.LEFT][n], Side.LEFT):
                for right in _numbers(pieces[Side.RIGHT][m], Side.RIGHT):
                    met.add((left, right))
        assert self.reported == Counter({pair: 1 for pair in self.partners() if pair in met})

    def _met_in_memory(self) -> set[tuple[int, int]]:
        stays = []
        for side in Side:
            table = self.join.workspace.memory.tables[side]
            known = dict.fromkeys(range(0), (0, 0))
            names = table.batch(np.arange(len(table))).column(1).to_pylist()
            for number, stamp in zip(names, table.stamps.tolist(), strict=True):
                known[number] = (stamp, 2**62)
            for piece in self.blocks(side):
                rows = zip(
                    _numbers(piece, side), piece.ats.tolist(), piece.dts.tolist(), strict=True
                )
                for number, came, left in rows:
                    assert number not in known, "a row is in two places"
                    known[number] = (came, left)
            assert len(known) == len(self.values[side]), "a row is nowhere"
            stays.append(known)
        return {
            (n, m)
            for (n, mine), (m, others) in itertools.product(stays[0].items(), stays[1].items())
            if max(mine[0], others[0]) < min(mine[1], others[1])
        }


def _numbers(piece: Piece, side: Side) -> list[int]:
    numbers: list[int] = piece.rows.column(1).to_pylist()
    return numbers


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(Side), st.lists(st.integers(0, 12), min_size=1, max_size=9)),
        st.integers(0, 4),
    ),
    max_size=18,
)


@pytest.mark.parametrize("name", ["diner", "diner-plain"])
def test_what_is_done_is_what_the_loop_says(name: str, tmp_path: Path) -> None:
    many = settings(
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    )
    counter = itertools.count()

    @many
    @given(
        steps=STEPS,
        block_bytes=st.sampled_from([ONE_ROW, SOME_ROWS]),
        memory=st.sampled_from([2**26, 2**13]),
    )
    def holds(steps: list[tuple[Side, list[int]] | int], block_bytes: int, memory: int) -> None:
        directory = tmp_path / str(next(counter))
        directory.mkdir()
        inputs = Inputs(name, directory, block_bytes=block_bytes, memory=memory)
        for step in steps:
            if isinstance(step, int):
                inputs.stall(step)
            else:
                inputs.push(*step)
            if inputs.join.workspace.algorithm.skips:
                # What is out of reach is not read, and nothing in it is a pair.
                assert not (inputs.reported - inputs.partners())
            inputs.check()
        assert inputs.finish() == inputs.partners()

    holds()


@pytest.mark.parametrize("name", ["diner", "diner-plain"])
def test_left_after_every_inner_block(name: str, tmp_path: Path) -> None:
    """Until nothing is left to do; more is flushed while a round is being done."""
    inputs = Inputs(name, tmp_path, block_bytes=ONE_ROW, memory=2**12)
    for start in range(0, 20, 4):
        for side in Side:
            inputs.push(side, [start + n for n in range(5)])
            inputs.check()
        inputs.stall(0)
        inputs.check()
    pauses = 0
    while not inputs.join.loop.is_done:
        inputs.stall(0)
        inputs.check()
        pauses += 1
    assert pauses > 5
    assert inputs.finish() == inputs.partners()


def test_roles_change(tmp_path: Path) -> None:
    """Each input's blocks are outer ones in some round."""
    inputs = Inputs("diner-plain", tmp_path, block_bytes=ONE_ROW, memory=2**26)
    outers = set[int]()
    for start in range(0, 60, 3):
        inputs.push(Side(start % 2), [start + n for n in range(6)])
        inputs.stall(1)
        if inputs.join.loop.round is not None:
            outers.add(inputs.join.loop.round.outer)
        inputs.stall(1000)
        assert inputs.join.loop.is_done
        inputs.check()
    assert outers == set(Side)
    assert inputs.finish() == inputs.partners()


def test_blocks_out_of_reach_are_not_read(tmp_path: Path) -> None:
    """For a narrow band many pairs of blocks are left out, and the result is the same."""
    values = np.random.default_rng(5).integers(0, 2000, (2, 300))
    read = {}
    for name in ("diner", "diner-plain"):
        directory = tmp_path / name
        directory.mkdir()
        inputs = Inputs(name, directory, block_bytes=SOME_ROWS, memory=2**13)
        for start in range(0, 300, 20):
            for side in Side:
                inputs.push(side, values[side][start : start + 20].tolist())
        assert inputs.finish() == inputs.partners()
        metrics = inputs.join.metrics
        read[name] = metrics.blocks_joined
        assert (metrics.blocks_skipped > 0) == (name == "diner")
    assert read["diner"] < read["diner-plain"]
