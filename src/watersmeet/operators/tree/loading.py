"""Rows of spilled blocks that are in memory while other blocks are joined with them."""

from __future__ import annotations

import numpy as np

from watersmeet.operators.tree.workspace import TreeWorkspace
from watersmeet.policies.probing import Step
from watersmeet.rows.address import Index, Rows
from watersmeet.rows.batch import BatchRows
from watersmeet.store.index import Codes
from watersmeet.store.runs import Piece
from watersmeet.store.sorted_index import SortedIndex


class Loaded:
    """Rows of one input with their codes, and an index for each edge that is asked for."""

    def __init__(self, workspace: TreeWorkspace, input: int, piece: Piece) -> None:
        self.piece = piece
        self._workspace = workspace
        self._input = input
        self._codes: dict[int, Codes] = {}
        self._indexes: dict[int, SortedIndex] = {}

    def __len__(self) -> int:
        return len(self.piece)

    @property
    def rows(self) -> BatchRows:
        return self.piece.source

    def codes(self, edge: int, index: Index) -> Codes:
        return self._every_code(edge)[index]

    def index(self, edge: int) -> SortedIndex:
        if edge not in self._indexes:
            index = SortedIndex(len(self.piece))
            index.add(self._every_code(edge))
            self._indexes[edge] = index
        return self._indexes[edge]

    def partners(self, step: Step, piece: Piece, input: int) -> Index:
        """Positions of rows of a block of another input that may have partners here."""
        workspace = self._workspace
        codes, _ = self.index(step.edge).in_order()
        edge, end = workspace.tree.edges[step.edge], workspace.tree.end(input, step.edge)
        every = np.arange(len(piece))
        theirs = workspace.schema.encode_one(input, step.edge, Rows(piece.source, every))
        found = np.zeros(len(piece), np.bool_)
        for first, last in edge.reaches(end, theirs):
            begin = np.searchsorted(codes, first, side="left")
            found |= begin < np.searchsorted(codes, last, side="right")
        return np.flatnonzero(found)

    def _every_code(self, edge: int) -> Codes:
        if edge not in self._codes:
            rows = Rows(self.piece.source, np.arange(len(self.piece)))
            self._codes[edge] = self._workspace.schema.encode_one(self._input, edge, rows)
        return self._codes[edge]
