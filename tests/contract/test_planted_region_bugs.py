"""Mistakes in the joins by regions, made on purpose: the contract must notice each of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from tests.contract.test_every_operator import FEW_ROWS
from tests.contract.test_planted_bugs import Bug
from tests.kernels import test_regions as clock
from tests.policies import test_regions as policy
from tests.unit import test_edges as edges
from watersmeet.kernels import regions as kernels
from watersmeet.model import JoinType, Side
from watersmeet.operators.leaving import AnyOrder
from watersmeet.operators.regions import state
from watersmeet.operators.regions import workspace as region_workspace
from watersmeet.operators.regions.arrival import ArrivingPhase
from watersmeet.operators.regions.flushing import Flushing
from watersmeet.operators.regions.join import RegionJoin
from watersmeet.operators.regions.loops import NestedLoop
from watersmeet.operators.regions.memory import RegionMemory
from watersmeet.operators.tuning import Tuning
from watersmeet.policies.regions import Regions
from watersmeet.rows.edges import ByBucketThenKey, Edge
from watersmeet.store.sorted_table import RowOrder
from watersmeet.testing.family import PublishedJoin
from watersmeet.testing.schedule import (
    Case,
    End,
    Push,
    Resize,
    Save,
    Settle,
    Stall,
    Step,
    Tidy,
    play,
)

BUGS = {
    # ---- arrivals, and what leaves ----
    "an arrival is taken for the one that has its place in the order": Bug(
        "diner",
        (ArrivingPhase, "_meet"),
        "order[asked].astype(np.int64)",
        "asked",
    ),
    "codes are stored in another order than their rows": Bug(
        "diner",
        (RowOrder, "add"),
        "self.index.add_in_order(*new.ordered)",
        "self.index.add_in_order(new.ordered[0], np.arange(len(new.regions), dtype=np.int32))",
    ),
    "arrivals are dropped though partners wait on disk": Bug(
        "diner",
        (ArrivingPhase, "_undecided"),
        "if workspace.ended[side.other] and not len(workspace.blocks[side.other]):",
        "if workspace.ended[side.other]:",
    ),
    "rows in memory are dropped though partners wait on disk": Bug(
        "diner",
        (ArrivingPhase, "drop_complete_rows"),
        "if len(workspace.blocks[side.other]) or not len(table)",
        "if not len(table)",
    ),
    "a flush has the stamp of an earlier event": Bug(
        "diner",
        (Flushing, "_write"),
        "stamp = workspace.draw()",
        "stamp = workspace.draw() - 9",
    ),
    "rows are written with the codes of others": Bug(
        "diner",
        (Flushing, "_write"),
        "codes=codes[places]",
        "codes=codes[: len(places)]",
    ),
    "rows that are flushed stay in memory": Bug(
        "diner",
        (Flushing, "_flush"),
        "keep = given.mask == 0",
        "keep = given.mask == 0\n    keep[index[:1]] = True",
    ),
    # ---- the nested loop ----
    "rows that met in memory are joined again": Bug(
        "diner",
        (NestedLoop, "_join_blocks"),
        "new = arrived >= np.minimum(piece.dts[found], block.dts[asked])",
        "new = arrived < np.minimum(piece.dts[found], block.dts[asked])",
    ),
    "only one departure is looked at": Bug(
        "diner-plain",
        (NestedLoop, "_join_blocks"),
        "np.minimum(piece.dts[found], block.dts[asked])",
        "piece.dts[found]",
    ),
    "inner and outer rows are taken for each other": Bug(
        "diner",
        (NestedLoop, "_join_blocks"),
        "index = in_order(outer, found[new], asked[new])",
        "index = (found[new], asked[new])",
    ),
    "the roles do not change": Bug(
        "diner-plain",
        (NestedLoop, "_join_load"),
        "numbers = order[round.done : round.done + load[0]]",
        "numbers = np.arange(len(order))[round.done : round.done + load[0]]",
    ),
    "the current inner block is forgotten after a pause": Bug(
        "diner-plain",
        (NestedLoop, "_join_load"),
        "load[1] = int(inner[together - 1]) + 1",
        "load[1] = 0",
    ),
    "an inner block is left out after a pause": Bug(
        "diner-plain",
        (NestedLoop, "_join_load"),
        "load[1] = int(inner[together - 1]) + 1",
        "load[1] = int(inner[together - 1]) + 2",
    ),
    "a load counts as done before its last inner block": Bug(
        "diner-plain",
        (NestedLoop, "_join_load"),
        "if not len(inner):",
        "if len(inner) <= 1:",
    ),
    "several inner blocks are joined and one is counted": Bug(
        "diner",
        (NestedLoop, "_join_load"),
        "load[1] = int(inner[together - 1]) + 1",
        "load[1] = int(inner[0]) + 1",
    ),
    "a round claims a block that was written meanwhile": Bug(
        "diner-plain",
        (NestedLoop, "_finish_round"),
        "self.joined[self.round.outer] = self.round.until",
        "self.joined[self.round.outer] = min(self.round.until + 1,"
        " len(self._workspace.blocks[self.round.outer]))",
    ),
    "a round joins inner blocks that are not done": Bug(
        "diner-plain",
        (NestedLoop, "_inner_blocks"),
        "inner = np.arange(current, self.joined[outer.other])",
        "inner = np.arange(current, len(workspace.blocks[outer.other]))",
    ),
    "a load that was cut in two begins anew": Bug(
        "diner-plain",
        (NestedLoop, "_next_load"),
        "[count - fits, current]",
        "[count - fits, 0]",
    ),
    "the second half of a load that was cut in two is forgotten": Bug(
        "diner-plain",
        (NestedLoop, "_next_load"),
        "round.begun[:1] = [[fits, current], [count - fits, current]]",
        "round.begun[:1] = [[fits, current]]",
    ),
    "a block whose first code is just within reach is not read": Bug(
        "diner",
        (Edge, "can_meet"),
        "(others[0] <= np.uint64(last))",
        "(others[0] < np.uint64(last))",
    ),
    "a block whose last code is just within reach is not read": Bug(
        "diner",
        (Edge, "can_meet"),
        "(others[1] >= np.uint64(first))",
        "(others[1] > np.uint64(first))",
    ),
    "what the first outer row reaches is taken for what all reach": Bug(
        "diner",
        (Edge, "around"),
        "return int(first.min()), int(last.max())",
        "return int(first.min()), int(last.min())",
    ),
    # ---- the end ----
    "rows in memory are left out of the clean-up": Bug(
        "diner",
        (RegionJoin, "_make_way"),
        "workspace.blocks[side].append(ResidentBlocks(table, block_rows=rows))",
        "pass",
    ),
    "memory is not written before the clean-up": Bug(
        "diner-plain",
        (RegionJoin, "_make_way"),
        "self.flushing.flush_all()",
        "()",
    ),
    "memory that was not joined is written": Bug(
        "pmj-sorted",
        (Flushing, "flush_all"),
        "if not self._workspace.algorithm.joins_on_arrival:",
        "if False:",
    ),
    "memory that was not joined meets nothing in the clean-up": Bug(
        "pmj-sorted",
        (RegionJoin, "_make_way"),
        "self.flushing.join_memory()",
        "()",
    ),
    "rows on disk that found no partner are forgotten": Bug(
        "diner",
        (RegionJoin, "_unmatched"),
        "for run in workspace.blocks[side].runs:",
        "for run in workspace.blocks[side].runs[1:]:",
    ),
    "rows in memory that found no partner are forgotten": Bug(
        "diner",
        (RegionJoin, "_unmatched"),
        "np.arange(len(table))",
        "np.arange(len(table) - 1)",
    ),
    # ---- while it goes on for ever ----
    "blocks are merged in the middle of a round": Bug(
        "diner-plain",
        (NestedLoop, "untouched_from"),
        "return max(self.joined[side], self.round.until)",
        "return self.joined[side]",
    ),
    "merged blocks count as if they had not met": Bug(
        "diner",
        (RegionJoin, "tidy"),
        "sum(run.block_count for run in old[side])",
        "sum(run.block_count for run in old[side][1:])",
    ),
    "memory owes nothing to what left before the last flush": Bug(
        "diner",
        (RegionJoin, "_memory_owes"),
        "stamps[-1] > min(left)",
        "stamps[-1] > max(left)",
    ),
    # ---- saved state ----
    "a restored loop begins anew": Bug(
        "diner",
        (state, "load"),
        'join.loop.load(manifest["loop"])',
        "pass",
    ),
    "a restored round has forgotten its inner block": Bug(
        "diner-plain",
        (NestedLoop, "load"),
        'Round(**saved["round"])',
        'Round(**saved["round"] | {"begun": []})',
    ),
    "rows that have left are restored to memory": Bug(
        "diner",
        (RegionMemory, "drop"),
        "self.leaving.dropped(input, keep)",
        "pass",
    ),
    "a bit is cleared for another row than the one that left": Bug(
        "diner",
        (AnyOrder, "dropped"),
        "alive = np.flatnonzero(self._alive[input])",
        "alive = np.arange(np.count_nonzero(self._alive[input]))",
    ),
    "segments that were given up keep their bits": Bug(
        "diner",
        (AnyOrder, "forgotten"),
        "self._alive[input] = np.empty(0, np.bool_)",
        "pass",
    ),
    # ---- codes ----
    "one neighbour of a bucket is not looked at": Bug(
        "diner",
        (ByBucketThenKey, "reaches"),
        "for apart in (-1, 0, 1):",
        "for apart in (0, 1):",
    ),
    "rows of near buckets are taken for rows of one key": Bug(
        "diner",
        (ByBucketThenKey, "decides"),
        "return False",
        "return part == self.equal",
    ),
    "a null counts in the last part only": Bug(
        "diner",
        (Edge, "_encode"),
        "valid = each.valid if valid is None else valid & each.valid",
        "valid = each.valid",
    ),
    "candidates are overwritten before they are reported": Bug(
        "diner",
        (region_workspace, "find"),
        "found, asked = (each.copy() for each in pair)",
        "found, asked = pair",
    ),
}

VALUES = [tuple(range(start, start + 6)) for start in (0, 3, 1, 6, 4, 9)]
PUSHES: list[Step] = [Push(side, values) for values in VALUES for side in Side]
SINGLE: list[Step] = [Push(Side(n % 2), (n % 5,)) for n in range(15)]
MIXED: list[Step] = [Push(Side(n % 2), (9, 2, 7, 0, 5, 3, 8)) for n in range(4)]
LEFT_ONLY, RIGHT_ONLY = PUSHES[::2], PUSHES[1::2]
ENDS: list[Step] = [End(Side.LEFT), End(Side.RIGHT)]
MORE_ROWS = replace(FEW_ROWS, memory_rows=30)


@dataclass(frozen=True)
class Forced:
    """A schedule that brings a mistake about, with the memory that it needs for that."""

    steps: list[Step]
    how: JoinType = JoinType.FULL
    memory: int = 64 * 2**20
    tuning: Tuning = FEW_ROWS
    block_bytes: int = 1
    codes: str = "true hashes"

    def play(self, algorithm: str, predicates: str) -> None:
        case = Case(
            (*self.steps, *ENDS), self.how, self.memory, codes=self.codes, predicates=predicates
        )
        play(PublishedJoin(algorithm, self.tuning, block_bytes=self.block_bytes), case)


FORCED = {
    # Interrupted after every inner block, while more is flushed.
    "interrupted": Forced([step for push in PUSHES for step in (push, Stall(1))]),
    "interrupted, few blocks at a time": Forced(
        [step for push in PUSHES for step in (push, Stall(1))], JoinType.INNER, 200 * 2**10
    ),
    "in any order": Forced(MIXED, tuning=replace(FEW_ROWS, memory_rows=200)),
    "one side first": Forced([*LEFT_ONLY, End(Side.LEFT), *RIGHT_ONLY]),
    "memory becomes smaller while a load is joined": Forced(
        [*PUSHES, *PUSHES, Stall(2), Resize(2500), Stall(2), Resize(0), Stall(3)]
    ),
    "most is in memory at the end": Forced(
        [*PUSHES[:6], *MIXED[:2], Push(Side.LEFT, (98, 99)), Push(Side.RIGHT, (-98, -99))],
        tuning=MORE_ROWS,
    ),
    "merged in the middle of a round": Forced(
        [step for _ in range(3) for step in (*PUSHES, Stall(3), *PUSHES, Tidy(), Stall(5))]
    ),
    "merged when all have met": Forced(
        [step for _ in range(3) for step in (*PUSHES, *PUSHES, Settle(10_000), Tidy())],
        block_bytes=150,
    ),
    "settled now and then": Forced(
        [step for count in range(1, 16) for step in (*SINGLE[:count], Settle(10_000))],
        JoinType.INNER,
    ),
    "saved before and after rows leave": Forced(
        [step for push in PUSHES for step in (push, Save(restores=False), Stall(2), Save())]
    ),
    "equal hashes": Forced(PUSHES[:6], codes="every hash 0"),
}

# The schedule and the predicates that bring each out; those that are not listed need no more than
# a band and a loop that is interrupted.
NEEDS = {
    "an arrival is taken for the one that has its place in the order": ("in any order", "band"),
    "codes are stored in another order than their rows": ("in any order", "band"),
    "arrivals are dropped though partners wait on disk": ("one side first", "band"),
    "several inner blocks are joined and one is counted": (
        "interrupted, few blocks at a time", "band",
    ),
    "a load that was cut in two begins anew": (
        "memory becomes smaller while a load is joined", "band",
    ),
    "the second half of a load that was cut in two is forgotten": (
        "memory becomes smaller while a load is joined", "band",
    ),
    "rows in memory are left out of the clean-up": ("most is in memory at the end", "band"),
    "memory that was not joined meets nothing in the clean-up": (
        "most is in memory at the end", "band",
    ),
    "rows on disk that found no partner are forgotten": ("interrupted", "open band"),
    "rows in memory that found no partner are forgotten": (
        "most is in memory at the end", "band",
    ),
    "blocks are merged in the middle of a round": ("merged in the middle of a round", "band"),
    "merged blocks count as if they had not met": ("merged when all have met", "band"),
    "memory owes nothing to what left before the last flush": ("settled now and then", "band"),
    "a restored loop begins anew": ("saved before and after rows leave", "band"),
    "a restored round has forgotten its inner block": (
        "saved before and after rows leave", "band",
    ),
    "rows that have left are restored to memory": ("saved before and after rows leave", "band"),
    "a bit is cleared for another row than the one that left": (
        "saved before and after rows leave", "equal and band",
    ),
    "segments that were given up keep their bits": ("saved before and after rows leave", "band"),
    "one neighbour of a bucket is not looked at": ("interrupted", "equal and band"),
    "rows of near buckets are taken for rows of one key": ("equal hashes", "equal and band"),
    "a null counts in the last part only": ("interrupted", "equal and band"),
}  # fmt: skip


def needs(name: str) -> tuple[str, str]:
    return NEEDS.get(name, ("interrupted", "band"))


@pytest.mark.parametrize("forced", FORCED)
@pytest.mark.parametrize(
    "algorithm",
    [
        "diner",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("diner-plain", "pmj-sorted")),
    ],
)
def test_without_a_bug_all_is_well(algorithm: str, forced: str) -> None:
    """Otherwise any bug would be noticed."""
    used = {needs(name) for name in BUGS} | {(forced, "band")}
    for predicates in sorted(predicates for each, predicates in used if each == forced):
        FORCED[forced].play(algorithm, predicates)


@pytest.mark.parametrize("name", BUGS)
def test_the_contract_notices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[name].plant(monkeypatch)
    forced, predicates = needs(name)
    # Rows that are taken for others may not be there at all.
    with pytest.raises((AssertionError, IndexError)):
        FORCED[forced].play(BUGS[name].algorithm, predicates)


# ---- mistakes that give the right results, but not as they should be found ----------------------

# With the test that must fail.
BESIDE = {
    "the lower region ends before its last code": (
        Bug("", (Regions, "of"), "codes <= np.uint64(self.lower)", "codes < np.uint64(self.lower)"),
        policy.test_after_the_first_flush_a_block_of_rows_is_at_either_end,
    ),
    "the upper region begins behind its first code": (
        Bug("", (Regions, "of"), "codes >= np.uint64(self.upper)", "codes > np.uint64(self.upper)"),
        policy.test_after_the_first_flush_a_block_of_rows_is_at_either_end,
    ),
    "a block at either end has a row too many": (
        Bug("", (Regions, "move"), "min(block, len(codes)) - 1", "min(block, len(codes) - 1)"),
        policy.test_after_the_first_flush_a_block_of_rows_is_at_either_end,
    ),
    "the boundaries of regions cross": (
        Bug("", (Regions, "move"), "if self.lower >= self.upper:", "if False:"),
        policy.test_codes_that_rise_with_time_leave_no_boundary_behind,
    ),
    "most results per row go first": (
        Bug("", (Regions, "benefit"), "self.joins[region] / max", "-self.joins[region] / max"),
        policy.test_fewest_results_per_row_go_first,
    ),
    "the hand takes rows that have joined": (
        Bug("", (kernels, "sweep"), "if joined[row]:", "if False:"),
        clock.test_it_passes_rows_that_have_joined_and_clears_their_bits,
    ),
    "the hand passes rows and leaves their bits": (
        Bug("", (kernels, "sweep"), "joined[row] = 0", "pass"),
        clock.test_it_passes_rows_that_have_joined_and_clears_their_bits,
    ),
    "the hand begins at the first row always": (
        Bug("", (kernels, "sweep"), "hand if start <= hand < stop else start", "start"),
        clock.test_it_goes_on_where_it_stood,
    ),
    "the hand takes a row twice": (
        Bug("", (kernels, "sweep"), "not taken[position - start]", "True"),
        clock.test_it_is_a_clock,
    ),
    "rows of near buckets are taken for partners": (
        Bug("", (ByBucketThenKey, "decides"), "return False", "return part == self.band"),
        edges.test_values_a_whole_turn_of_buckets_apart_are_no_partners,
    ),
    "blocks beyond the first bucket are out of reach of the last": (
        Bug("", (Edge, "around"), "int(first.min())", "int(first[0])"),
        edges.test_buckets_begin_again_behind_the_last,
    ),
}


@pytest.mark.parametrize("name", BESIDE)
def test_another_test_notices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug, test = BESIDE[name]
    test()
    bug.plant(monkeypatch)
    with pytest.raises(AssertionError):
        test()
