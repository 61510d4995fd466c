"""The arriving phase (DINER 3.2): arrivals meet the other side's memory, then wait there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from watersmeet.kernels import regions as kernels
from watersmeet.kernels import sorting
from watersmeet.model import Side
from watersmeet.operators.emitter import Stamps, in_order
from watersmeet.operators.memory import NewRows
from watersmeet.operators.regions.flushing import Flushing
from watersmeet.operators.regions.workspace import RegionWorkspace
from watersmeet.operators.stage import Stage
from watersmeet.rows.address import Index, Matches, RowSource
from watersmeet.rows.batch import BatchRows
from watersmeet.rows.values import rows_where
from watersmeet.store.index import Codes
from watersmeet.store.sorted_table import NewOrder, Ordered


class ArrivingPhase:
    """Probes, counts what each region has brought, and stores (Algorithm 1).

    A row that arrives at stamp a has met every row of the other side that is in memory at a. What
    is flushed to make room for it leaves at a later stamp, so their stays in memory overlap and the
    nested loop leaves the pair out.
    """

    def __init__(self, workspace: RegionWorkspace, flushing: Flushing) -> None:
        self._workspace = workspace
        self._memory = workspace.memory
        self._flushing = flushing

    def arrive(self, side: Side, codes: Codes, piece: NewRows) -> Iterator[Matches]:
        workspace, rows = self._workspace, piece.rows
        if any(workspace.emitter.marked):
            workspace.emitter.marks.cover(workspace.stamp + len(rows) + 1)
            self._memory.reserved = workspace.emitter.marks.nbytes
        joins_on_arrival = workspace.algorithm.joins_on_arrival
        if not joins_on_arrival:
            # Before they are stamped: what leaves now was never joined with them, and must not
            # seem to have been.
            yield from self._flushing.make_room_for(piece)
        stamps = np.arange(workspace.stamp, workspace.stamp + len(rows))
        workspace.stamp += len(rows)
        workspace.bound_chunks(piece.nbytes / len(rows))
        source, joins = BatchRows(rows), np.zeros(len(rows), np.int64)
        ordered: Ordered = sorting.sort(codes)
        if joins_on_arrival:
            yield from self._meet(side, ordered, source, stamps, joins)
        keep = self._undecided(side, stamps) if joins_on_arrival else None
        if keep is not None:
            gone = np.flatnonzero(~keep)
            yield from workspace.emitter.unmatched(side, source, gone, stamps)
            codes, stamps, joins = codes[keep], stamps[keep], joins[keep]
            rows, ordered = rows_where(rows, keep), sorting.sort(codes)
            piece = piece._replace(rows=rows, nbytes=self._memory.batch_bytes(side, rows))
        if len(rows):
            if joins_on_arrival:
                yield from self._flushing.make_room_for(piece)
            regions = self._memory.regions[side].of(codes)
            self._memory.regions[side].arrived(regions, joins)
            new = NewOrder(ordered, regions, joins > 0)
            self._memory.tables[side].add(stamps, rows, [new])
        workspace.report_memory()

    def _meet(
        self,
        side: Side,
        ordered: Ordered,
        source: RowSource,
        stamps: Stamps,
        joins: NDArray[np.int64],
    ) -> Iterator[Matches]:
        """Report an arrival's partners in the other side's memory; adds to `joins` how many each
        row has."""
        workspace, others = self._workspace, self._memory.tables[side.other]
        emitter, brought = workspace.emitter, self._memory.regions[side.other].joins
        sources = in_order(side, source, others)
        at = in_order(side, stamps, others.stamps)
        codes, order = ordered

        def count(partners: tuple[Index, Index]) -> None:
            mine, met = partners[side], partners[side.other]
            kernels.count_joins(met, others.regions, others.joined, brought)
            joins[:] += np.bincount(mine, minlength=len(joins))

        for found, asked in workspace.find(others.index, side, codes):
            index = in_order(side, order[asked].astype(np.int64), found)
            yield from emitter.pairs(sources, index, at, Stage.MM, notice=count)

    def _undecided(self, side: Side, stamps: Stamps) -> NDArray[np.bool_] | None:
        """Which arrivals may still matter after they met memory; None for all of them."""
        workspace = self._workspace
        if workspace.ended[side.other] and not len(workspace.blocks[side.other]):
            return np.zeros(len(stamps), np.bool_)
        return workspace.emitter.undecided(side, stamps)

    def drop_complete_rows(self, side: Side) -> Iterator[Matches]:
        """Drop the rows of a side, which have met all their partners, if the other side has ended
        and none of it is on disk."""
        workspace, table = self._workspace, self._memory.tables[side]
        joins_on_arrival = workspace.algorithm.joins_on_arrival
        if len(workspace.blocks[side.other]) or not len(table) or not joins_on_arrival:
            return
        yield from workspace.emitter.unmatched(side, table, np.arange(len(table)), table.stamps)
        self._memory.drop(side, np.zeros(len(table), np.bool_))
        self._memory.regions[side].recount(table.regions)
        workspace.report_memory()
