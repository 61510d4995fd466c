"""The arriving phase (MINER 4.1): arrivals meet the memory of all other inputs, then wait there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.kernels import regions as kernels
from watersmeet.operators.memory import NewRows
from watersmeet.operators.stage import Stage
from watersmeet.operators.tree.combining import Chosen, Combining, Source, TableSource
from watersmeet.operators.tree.flushing import Flushing
from watersmeet.operators.tree.workspace import TreeWorkspace
from watersmeet.policies.probing import probing_sequence
from watersmeet.rows.address import Index, Matches, Rows
from watersmeet.rows.batch import BatchRows
from watersmeet.store.index import Codes
from watersmeet.store.sorted_index import SortedIndex


class Arrivals:
    """Rows of a batch that has arrived, with their codes for each edge of their input."""

    def __init__(self, rows: pa.RecordBatch, codes_of: dict[int, Codes]) -> None:
        self.rows = BatchRows(rows)
        self._codes_of = codes_of

    def codes(self, edge: int, index: Index) -> Codes:
        return self._codes_of[edge][index]

    def index(self, edge: int) -> SortedIndex:
        raise AssertionError("arrivals look for others, nothing looks for them")


class ArrivingPhase:
    """Probes, counts what each region has brought, and stores.

    A row that arrives at stamp a has met all combinations of rows of the other inputs that are in
    memory at a. What is flushed to make room for it leaves at a later stamp.
    """

    def __init__(self, workspace: TreeWorkspace, flushing: Flushing) -> None:
        self._workspace = workspace
        self._memory = workspace.memory
        self._flushing = flushing
        self._combining = Combining(workspace, measures=True)

    def arrive(self, input: int, codes_of: tuple[Codes, ...], piece: NewRows) -> Iterator[Matches]:
        workspace, rows = self._workspace, piece.rows
        stamps = np.arange(workspace.stamp, workspace.stamp + len(rows))
        workspace.stamp += len(rows)
        workspace.bound_chunks(piece.nbytes / len(rows))
        joins = np.zeros(len(rows), np.int64)
        if all(len(self._memory.tables[other]) for other in workspace.others(input)):
            edges = workspace.tree.at[input]
            arrivals = Arrivals(rows, dict(zip(edges, codes_of, strict=True)))
            yield from self._meet(input, arrivals, joins)
        if not workspace.is_complete(input):
            yield from self._flushing.make_room_for(piece)
            codes = self._memory.codes_in_orders(input, codes_of)
            self._memory.add(input, codes, stamps, rows, joins)
        workspace.report_memory()

    def _meet(self, input: int, arrivals: Arrivals, joins: NDArray[np.int64]) -> Iterator[Matches]:
        """Report what arrivals make with the rows in memory; adds to `joins` how many results each
        of them has."""
        workspace = self._workspace
        sources: list[Source] = [
            arrivals if other == input else TableSource(workspace, other)
            for other in workspace.inputs
        ]
        ends = [edge.ends for edge in workspace.tree.edges]
        steps = probing_sequence(input, ends, self._fan_out)
        every: Chosen = {input: np.arange(len(joins))}
        for chosen in self._combining.complete(every, sources, steps):
            self._count(input, chosen, joins)
            rows = [Rows(sources[n].rows, chosen[n]) for n in workspace.inputs]
            yield from workspace.emitter.combinations(rows, Stage.MM)

    def _count(self, input: int, chosen: Chosen, joins: NDArray[np.int64]) -> None:
        """Count results for the regions of all rows that helped to find them. Combinations that
        were not completed do not count."""
        joins += np.bincount(chosen[input], minlength=len(joins))
        for other in self._workspace.others(input):
            orders = self._memory.tables[other].orders
            for order, regions in zip(orders, self._memory.regions[other], strict=True):
                kernels.count_joins(chosen[other], order.regions, order.joined, regions.joins)

    def _fan_out(self, edge: int, input: int) -> float:
        rows = len(self._memory.tables[input])
        return self._workspace.selectivity.fan_out(edge, rows)

    def drop_complete_rows(self, input: int) -> None:
        """Drop the rows of an input that have met all there is to meet."""
        table = self._memory.tables[input]
        if not len(table) or not self._workspace.is_complete(input):
            return
        self._memory.drop(input, np.zeros(len(table), np.bool_))
        for order, regions in zip(table.orders, self._memory.regions[input], strict=True):
            regions.recount(order.regions)
        self._workspace.report_memory()
