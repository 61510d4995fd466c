"""Combines rows of all inputs, depth first: no partial combination is stored (MINER 4.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from watersmeet.operators.tree.workspace import TreeWorkspace
from watersmeet.policies.probing import Step
from watersmeet.rows.address import Index, Rows, RowSource
from watersmeet.store.index import Codes
from watersmeet.store.sorted_index import SortedIndex
from watersmeet.store.sorted_table import SortedTable

Chosen = dict[int, Index]
"""By input, positions of rows: the i-th of each belong together."""


class Source(Protocol):
    """Rows of one input that are found by their codes."""

    @property
    def rows(self) -> RowSource: ...

    def codes(self, edge: int, index: Index) -> Codes:
        """The codes of rows under an edge."""
        ...

    def index(self, edge: int) -> SortedIndex:
        """All rows in order of their codes under an edge."""
        ...


class TableSource:
    """The rows of an input that are in memory."""

    def __init__(self, workspace: TreeWorkspace, input: int) -> None:
        self._schema, self._tree = workspace.schema, workspace.tree
        self._input = input
        self.rows: SortedTable = workspace.memory.tables[input]

    def codes(self, edge: int, index: Index) -> Codes:
        return self._schema.encode_one(self._input, edge, Rows(self.rows, index))

    def index(self, edge: int) -> SortedIndex:
        return self.rows.orders[self._tree.order(self._input, edge)].index


class Combining:
    """Completes combinations of rows along the edges of the tree.

    Each step takes the rows that were found so far to the next input, in chunks that fit memory,
    and follows every chunk to the last input before it makes the next one. A chunk that finds no
    partner ends there.
    """

    def __init__(self, workspace: TreeWorkspace, *, measures: bool) -> None:
        """`measures`: what is found tells the selectivity of edges."""
        self._workspace = workspace
        self._measures = measures

    def complete(
        self, chosen: Chosen, sources: Sequence[Source], steps: Sequence[Step]
    ) -> Iterator[Chosen]:
        """Combinations of one row of every input, from rows of those that are chosen."""
        if not steps:
            yield chosen
            return
        step, further = steps[0], steps[1:]
        known, following = sources[step.known], sources[step.following]
        codes = known.codes(step.edge, chosen[step.known])
        index = following.index(step.edge)
        partners = 0
        for found, asked in self._workspace.find(index, step, codes):
            grown = {input: rows[asked] for input, rows in chosen.items()}
            grown[step.following] = found
            grown = self._allowed(step, grown, sources)
            partners += len(grown[step.following])
            if len(grown[step.following]):
                yield from self.complete(grown, sources, further)
        if self._measures:
            compared = len(codes) * len(index)
            self._workspace.selectivity.met(step.edge, compared=compared, partners=partners)

    def _allowed(self, step: Step, chosen: Chosen, sources: Sequence[Source]) -> Chosen:
        """The combinations that the edge of a step allows: codes have found candidates."""
        workspace = self._workspace
        workspace.metrics.candidates += len(chosen[step.following])
        left, right = (
            Rows(sources[end].rows, chosen[end]) for end in workspace.tree.edges[step.edge].ends
        )
        mask = workspace.schema.allows(step.edge, left, right)
        if mask is None or mask.all():
            return chosen
        return {input: rows[mask] for input, rows in chosen.items()}
