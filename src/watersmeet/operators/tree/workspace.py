"""What the stages of a join of many inputs share: its rows, its blocks, its memory."""

from __future__ import annotations

from collections.abc import Iterator

from watersmeet.meters.selectivity import Selectivity
from watersmeet.operators.blocks import Blocks
from watersmeet.operators.finding import find
from watersmeet.operators.tree.algorithm import TreeAlgorithm
from watersmeet.operators.tree.memory import TreeMemory
from watersmeet.operators.tuning import Tuning
from watersmeet.operators.workspace import Workspace
from watersmeet.policies.probing import Step
from watersmeet.rows.address import Index
from watersmeet.rows.schema import JoinSchema
from watersmeet.rows.tree import JoinTree
from watersmeet.store.account import MemoryAccount
from watersmeet.store.index import Codes
from watersmeet.store.shares import MemoryShares
from watersmeet.store.sorted_index import SortedIndex
from watersmeet.store.spill import SpillArea

# The nested loop has some outer blocks and one block of each inner input loaded.
_LOADED_OUTER = 6


class TreeWorkspace(Workspace):
    """The rows in memory, the blocks on disk, and which of the inputs have ended.

    Every row that may still be part of a result is in exactly one place: its table, or one block.
    """

    memory: TreeMemory

    def __init__(
        self,
        schema: JoinSchema,
        algorithm: TreeAlgorithm,
        *,
        account: MemoryAccount,
        spill: SpillArea,
        tuning: Tuning,
    ) -> None:
        self.tree = JoinTree.of(schema)
        inputs = range(len(schema.inputs))
        memory = TreeMemory(
            schema,
            self.tree,
            nbytes=MemoryShares.split(account.limit).store,
            rows=tuning.memory_rows,
        )
        loaded = _LOADED_OUTER + len(inputs)
        super().__init__(schema, memory, account=account, spill=spill, tuning=tuning, blocks=loaded)
        self.algorithm = algorithm
        self.inputs = inputs
        self.selectivity = Selectivity(len(self.tree.edges))
        self.blocks = tuple(Blocks() for _ in inputs)
        self.ended = [False for _ in inputs]
        self.stamp = 1

    def draw(self) -> int:
        """The next stamp; every event has its own."""
        self.stamp += 1
        return self.stamp - 1

    def others(self, input: int) -> list[int]:
        return [other for other in self.inputs if other != input]

    def is_complete(self, input: int) -> bool:
        """Whether every row of an input has met all there is to meet when it has met memory: the
        other inputs have ended, and all their rows are in memory."""
        return all(self.ended[n] and not len(self.blocks[n]) for n in self.others(input))

    def find(self, index: SortedIndex, step: Step, codes: Codes) -> Iterator[tuple[Index, Index]]:
        """Pairs of a row of the input that follows, in its index, and an i such that codes[i], a
        code of the known input, can reach it."""
        end = self.tree.end(step.known, step.edge)
        return find(index, self.tree.edges[step.edge], end, codes, self.pairs)
