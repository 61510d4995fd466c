"""What the stages of a join by regions share: its rows, its blocks, its memory."""

from __future__ import annotations

from collections.abc import Iterator

from watersmeet.model import Side
from watersmeet.operators.blocks import Blocks
from watersmeet.operators.finding import find
from watersmeet.operators.regions.algorithm import RegionAlgorithm
from watersmeet.operators.regions.memory import RegionMemory
from watersmeet.operators.tuning import Tuning
from watersmeet.operators.workspace import Workspace
from watersmeet.rows.address import Index
from watersmeet.rows.edges import Edge
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.index import Codes
from watersmeet.store.shares import MemoryShares
from watersmeet.store.sorted_index import SortedIndex
from watersmeet.store.spill import SpillArea

# The nested loop has some outer blocks and one inner block loaded.
LOADED_BLOCKS = 8


class RegionWorkspace(Workspace):
    """The rows in memory, the blocks on disk, and which of the inputs have ended.

    Every row that may still find a partner is in exactly one place: its table, or one block.
    """

    memory: RegionMemory

    def __init__(
        self,
        schema: JoinSchema,
        algorithm: RegionAlgorithm,
        *,
        account: MemoryAccount,
        spill: SpillArea,
        tuning: Tuning,
    ) -> None:
        memory = RegionMemory(
            schema, nbytes=MemoryShares.split(account.limit).store, rows=tuning.memory_rows
        )
        super().__init__(
            schema, memory, account=account, spill=spill, tuning=tuning, blocks=LOADED_BLOCKS
        )
        self.algorithm = algorithm
        self.edge: Edge = schema.edges[0]
        self.blocks = (Blocks(), Blocks())
        self.ended = [False, False]
        self.stamp = 1

    def draw(self) -> int:
        """The next stamp; every event has its own."""
        self.stamp += 1
        return self.stamp - 1

    def find(self, index: SortedIndex, side: Side, codes: Codes) -> Iterator[tuple[Index, Index]]:
        """Pairs of a row of the other side, in its index, and an i such that codes[i], a code of
        this side, can reach it."""
        return find(index, self.edge, side, codes, self.pairs)
