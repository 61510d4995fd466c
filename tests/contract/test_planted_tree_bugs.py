"""Mistakes in the joins of many inputs, made on purpose: the contract must notice each of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from tests.contract.test_every_operator import FEW_ROWS
from tests.contract.test_many_inputs import ended, turns
from tests.contract.test_planted_bugs import Bug
from watersmeet.operators.tree import state
from watersmeet.operators.tree.combining import Combining
from watersmeet.operators.tree.flushing import Flushing
from watersmeet.operators.tree.join import TreeJoin
from watersmeet.operators.tree.loading import Loaded
from watersmeet.operators.tree.loops import TreeLoop
from watersmeet.operators.tree.memory import TreeMemory
from watersmeet.operators.tree.workspace import TreeWorkspace
from watersmeet.operators.tuning import Tuning
from watersmeet.rows.tree import JoinTree
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
    inputs_of,
    play,
)

BUGS = {
    # ---- arrivals ----
    "combinations are reported before the last edge is verified": Bug(
        "miner",
        (Combining, "_allowed"),
        "if mask is None or mask.all():",
        "if True:",
    ),
    "rows found so far are not repeated with their partners": Bug(
        "miner",
        (Combining, "complete"),
        "{input: rows[asked] for input, rows in chosen.items()}",
        "{input: rows[: len(asked)] for input, rows in chosen.items()}",
    ),
    "arrivals are dropped though rows of others are on disk": Bug(
        "miner",
        (TreeWorkspace, "is_complete"),
        "self.ended[n] and not len(self.blocks[n])",
        "self.ended[n]",
    ),
    "one ended input makes all others complete": Bug(
        "miner",
        (TreeWorkspace, "is_complete"),
        "return all(",
        "return any(",
    ),
    "edges of two attributes share an order": Bug(
        "miner",
        (JoinTree, "order"),
        "return self.orders[input][self.at[input].index(edge)]",
        "return 0",
    ),
    "a table keeps the codes of one order in all": Bug(
        "miner",
        (TreeMemory, "codes_in_orders"),
        "codes_of[orders.index(n)]",
        "codes_of[0]",
    ),
    # ---- what leaves ----
    "a flush has the stamp of an earlier event": Bug(
        "miner",
        (Flushing, "_flush"),
        "self._workspace.draw())",
        "self._workspace.draw() - 9)",
    ),
    "rows that are flushed stay in memory": Bug(
        "miner",
        (Flushing, "_flush"),
        "given.mask == 0",
        "(given.mask == 0) | (np.cumsum(given.mask) == 1)",
    ),
    "a partition leaves at the stamp of an earlier event": Bug(
        "mjoin",
        (Flushing, "_flush_partitions"),
        "stamp = self._workspace.draw()",
        "stamp = self._workspace.draw() - 9",
    ),
    # ---- the nested loop ----
    "rows that met in memory are joined again": Bug(
        "miner",
        (TreeLoop, "_join_rows"),
        "new = arrived >= departed",
        "new = arrived >= 0",
    ),
    "only two stays are looked at": Bug(
        "miner",
        (TreeLoop, "_join_rows"),
        "for other in workspace.others(input):",
        "for other in workspace.others(input)[:1]:",
    ),
    "stays must overlap pair by pair with one row only": Bug(
        "miner-plain",
        (TreeLoop, "_join_rows"),
        "departed = np.minimum(departed, sources[other].piece.dts[chosen[other]])",
        "pass",
    ),
    "the block is joined again after a pause": Bug(
        "miner-plain",
        (TreeLoop, "_join_innermost"),
        "box[input][0] = int(places[together - 1]) + 1",
        "box[input][0] = int(places[together - 1])",
    ),
    "a block is left out after a pause": Bug(
        "miner-plain",
        (TreeLoop, "_join_innermost"),
        "box[input][0] = int(places[together - 1]) + 1",
        "box[input][0] = int(places[together - 1]) + 2",
    ),
    "a box that was cut loses its second part": Bug(
        "miner-plain",
        (TreeLoop, "_cut"),
        "round.boxes.append(",
        "round.boxes.__setitem__(-1, ",
    ),
    "a block is left out where a box is cut": Bug(
        "miner-plain",
        (TreeLoop, "_cut"),
        "[[at, last] if n == input",
        "[[at + 1, last] if n == input",
    ),
    "blocks that are not done take part": Bug(
        "miner-plain",
        (TreeLoop, "_order_places"),
        "first, last = 0, self.joined[input]",
        "first, last = 0, len(blocks)",
    ),
    "a round claims a block that was written meanwhile": Bug(
        "miner-plain",
        (TreeLoop, "run"),
        "self.joined[self.round.outer] = self.round.until",
        "self.joined[self.round.outer] = len(self._workspace.blocks[self.round.outer])",
    ),
    "rows of another box are still loaded": Bug(
        "miner-plain",
        (TreeLoop, "_load"),
        "self._loaded[input][0] == ranges",
        "True",
    ),
    "a row at the end of a reach has no partner": Bug(
        "miner",
        (Loaded, "partners"),
        'np.searchsorted(codes, last, side="right")',
        'np.searchsorted(codes, last, side="left")',
    ),
    "a block whose first code is just within reach is not read": Bug(
        "miner",
        (TreeLoop, "_within_reach"),
        "(ranges.first[numbers] <= np.uint64(last))",
        "(ranges.first[numbers] < np.uint64(last))",
    ),
    "blocks are skipped by the codes of another order": Bug(
        "miner",
        (TreeLoop, "_within_reach"),
        "meets |= ranges.order[numbers] != workspace.tree.order(step.following, step.edge)",
        "pass",
    ),
    # ---- the end ----
    "memory is not written before the clean-up": Bug(
        "miner-plain",
        (TreeJoin, "_make_way"),
        "self.flushing.flush_all()",
        "pass",
    ),
    "rows in memory are left out of the clean-up": Bug(
        "miner",
        (TreeJoin, "_make_way"),
        "workspace.blocks[input].append(ResidentBlocks(table, block_rows=rows))",
        "pass",
    ),
    "memory owes nothing to rows that came and went": Bug(
        "miner",
        (TreeJoin, "_memory_owes"),
        "if departed and others > min(departed):",
        "if False:",
    ),
    # ---- while it goes on for ever ----
    "merged blocks count as if they had not met": Bug(
        "miner",
        (TreeJoin, "tidy"),
        "self.loop.joined[input] = sum(run.block_count for _, run in _numbered(old, input))",
        "pass",
    ),
    "merged runs are said to be in another order": Bug(
        "miner",
        (TreeJoin, "tidy"),
        "blocks[input].replace([run for _, run in runs], [order for order, _ in runs])\n"
        "            self.loop.joined",
        "blocks[input].replace([run for _, run in runs], [1 - order for order, _ in runs])\n"
        "            self.loop.joined",
    ),
    # ---- saved state ----
    "a restored loop begins anew": Bug(
        "miner", (state, "load"), 'join.loop.load(manifest["loop"])', "pass"
    ),
    "a restored round begins anew": Bug(
        "miner-plain",
        (TreeLoop, "load"),
        'Round(**saved["round"])',
        'Round(**saved["round"] | {"boxes": [[[0, 1] for _ in self.joined]]})',
    ),
    "rows that have left are restored to memory": Bug(
        "miner", (TreeMemory, "drop"), "self.leaving.dropped(input, keep)", "pass"
    ),
    "runs are restored in another order": Bug(
        "miner",
        (state, "load"),
        "blocks.replace(mine, orders)",
        "blocks.replace(mine, [1 - min(order, 1) for order in orders])",
    ),
}


@dataclass(frozen=True)
class Forced:
    """A schedule that brings a mistake about, with the memory that it needs for that."""

    between: tuple[Step, ...] = ()
    memory: int = 64 * 2**20
    tuning: Tuning = FEW_ROWS
    block_bytes: int = 1
    rounds: int = 3
    rows: int = 5
    one_by_one: bool = False
    codes: str = "true hashes"
    after: tuple[Step, ...] = ()

    def play(self, algorithm: str, tree: str) -> None:
        steps = turns(tree, *self.between, rounds=self.rounds, rows=self.rows)
        steps += self.after
        if self.one_by_one:
            pushes = [step for step in steps if isinstance(step, Push)]
            ordered = list[Step]()
            for input in range(inputs_of(tree)):
                ordered += [step for step in pushes if step.side == input]
                ordered.append(End(input))
            case = Case(tuple(ordered), memory=self.memory, codes=self.codes, predicates=tree)
        else:
            case = Case(ended(tree, steps), memory=self.memory, codes=self.codes, predicates=tree)
        play(PublishedJoin(algorithm, self.tuning, block_bytes=self.block_bytes), case)


FORCED = {
    "interrupted": Forced((Stall(1),)),
    "interrupted again and again": Forced(after=(Stall(1),) * 40),
    "one after the other": Forced(one_by_one=True),
    "one after the other, in memory": Forced(
        tuning=replace(FEW_ROWS, memory_rows=1000), one_by_one=True
    ),
    "equal hashes": Forced(codes="every hash 0", rounds=2),
    "most is in memory at the end": Forced(
        tuning=replace(FEW_ROWS, memory_rows=50), rounds=6, rows=4
    ),
    "all in memory": Forced(tuning=replace(FEW_ROWS, memory_rows=1000)),
    "saved after every step": Forced((Stall(3), Save())),
    "settled now and then": Forced((Settle(10_000),)),
    "merged when all have met": Forced(
        (Settle(10_000), Tidy()), rounds=12, rows=2, block_bytes=150
    ),
    "memory shrinks": Forced((Stall(2), Resize(2500), Stall(2), Resize(0), Stall(1))),
}

# The schedule and the tree that bring each out; those that are not listed need no more than a chain
# and a loop that is interrupted.
NEEDS = {
    "a block is left out after a pause": ("interrupted again and again", "chain"),
    "blocks are skipped by the codes of another order": ("interrupted", "snowflake"),
    "combinations are reported before the last edge is verified": ("equal hashes", "chain"),
    "arrivals are dropped though rows of others are on disk": ("one after the other", "chain"),
    "one ended input makes all others complete": ("one after the other, in memory", "chain"),
    "edges of two attributes share an order": ("all in memory", "chain"),
    "a table keeps the codes of one order in all": ("all in memory", "chain"),
    "a partition leaves at the stamp of an earlier event": ("interrupted", "one attribute"),
    "rows in memory are left out of the clean-up": ("most is in memory at the end", "chain"),
    "memory owes nothing to rows that came and went": ("settled now and then", "chain"),
    "merged blocks count as if they had not met": ("merged when all have met", "chain"),
    "merged runs are said to be in another order": ("merged when all have met", "chain"),
    "a restored loop begins anew": ("saved after every step", "chain"),
    "a restored round begins anew": ("saved after every step", "chain"),
    "rows that have left are restored to memory": ("saved after every step", "chain"),
    "runs are restored in another order": ("saved after every step", "chain"),
}


def needs(name: str) -> tuple[str, str]:
    return NEEDS.get(name, ("interrupted", "chain"))


@pytest.mark.parametrize("forced", FORCED)
def test_without_a_bug_all_is_well(forced: str) -> None:
    """Otherwise any bug would be noticed."""
    used = {(BUGS[name].algorithm, needs(name)[1]) for name in BUGS if needs(name)[0] == forced}
    for algorithm, tree in sorted(used):
        FORCED[forced].play(algorithm, tree)


@pytest.mark.parametrize("name", BUGS)
def test_the_contract_notices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[name].plant(monkeypatch)
    forced, tree = needs(name)
    # Rows that are taken for others may not be there at all.
    with pytest.raises((AssertionError, IndexError, ValueError)):
        FORCED[forced].play(BUGS[name].algorithm, tree)
