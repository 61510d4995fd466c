"""Which blocks of the master table the skipping scan reads in a step, and what it keeps of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from watersmeet.kernels import semistream as kernels
from watersmeet.operators.semistream.cache import spread
from watersmeet.operators.semistream.waiting import RowOrder
from watersmeet.operators.semistream.workspace import SemiStreamWorkspace
from watersmeet.rows.values import rows_at
from watersmeet.store.device import measure_costs
from watersmeet.store.index import Codes
from watersmeet.store.master.blocks import BlockPlaces
from watersmeet.store.master.table import MasterRows

# What another stretch of blocks takes besides its bytes. Measured on files in the page cache, where
# a MB takes 190 us to read: needed blocks of 230 KB that are three blocks apart take less time
# together, those that are five apart one by one.
_READ_SECONDS = 180e-6
PAGE_BYTES = 2**16
"""Bytes of a page, which `Tuning.costs` are for."""
_CODES_AT_ONCE = 4096
# Where few rows are wanted, a step reads up to so many stretches of blocks, one after the other,
# and keeps of each what is wanted: to join and cache few rows takes as long as it does with many.
_MOST_STRETCHES = 16
# So many times more rows are read than wanted, so that what is kept of all stretches is small.
_SPARSE = 32


class Step(NamedTuple):
    """What a step has read."""

    read: MasterRows | None
    """Master rows of the first rows ahead, with others or without; None if no block was read."""
    stop: int
    """The next block."""
    leaving: int
    """How many rows, the first ones ahead, have codes before that block."""
    meeting: int
    """How many rows ahead meet these master rows: also those of a code that goes on in the next
    block."""


class WantedBlocks:
    """Finds the blocks that rows ahead of the scan wait for, and reads them."""

    def __init__(self, workspace: SemiStreamWorkspace) -> None:
        self._workspace = workspace
        self._gap_bytes: int | None = None

    @property
    def _places(self) -> BlockPlaces:
        return self._workspace.master.places

    def read_on(self, ahead: RowOrder, block: int, inside: int | None) -> Step:
        """Read the next blocks that somebody waits for. The scan stands before `block`, and, if it
        stands `inside` a code, goes on with that one."""
        parts: list[MasterRows] = []
        leaving = meeting = 0
        for stretch in range(_MOST_STRETCHES):
            wanted = ahead.codes[leaving:]
            first = block if inside is not None and not stretch else None
            begin, stop = self._stretch(wanted, first)
            self._count(block, begin, stop)
            before, block = leaving, stop
            leaving, meeting = self._reached(ahead, begin, stop)
            if begin < stop:
                read, is_sparse = self._read(begin, stop, ahead.codes[before:meeting])
                parts.append(read)
                if not is_sparse:
                    break
            if meeting > leaving or leaving == len(ahead):
                break
        return Step(_together(parts), block, leaving, meeting)

    def _reached(self, ahead: RowOrder, begin: int, stop: int) -> tuple[int, int]:
        """How many rows ahead leave, and how many meet something, when blocks until `stop` have
        been read."""
        places = self._places
        if stop == len(places):
            return len(ahead), len(ahead)
        leaving = ahead.below(places.first[stop])
        if begin < stop and places.first[stop] == places.last[stop - 1]:
            # The last code goes on in the next block.
            return leaving, ahead.until(places.first[stop])
        return leaving, leaving

    # ---- where to read --------------------------------------------------------------------------

    def _stretch(self, codes: Codes, first: int | None) -> tuple[int, int]:
        """The blocks from `begin` to before `stop` are read together: neighbours that somebody
        waits for, and between them some that take less time to read than to skip. None if no block
        has any of the next codes. `first` is the first of them, if it is known."""
        places = self._places
        begin, is_wanted = self._next_block(codes) if first is None else (first, True)
        if not is_wanted:
            return begin, begin
        most = places.ends[begin] + self._workspace.portion_bytes
        stop = max(int(np.searchsorted(places.ends, most, side="right")) - 1, begin + 1)
        window = slice(begin, stop)
        wanted = np.flatnonzero(
            np.searchsorted(codes, places.first[window])
            < np.searchsorted(codes, places.last[window], side="right")
        )
        gaps = places.ends[begin + wanted[1:]] - places.ends[begin + wanted[:-1] + 1]
        wide = np.flatnonzero(gaps > self._widest_gap())
        last = wanted[wide[0]] if len(wide) else wanted[-1]
        return begin, self._whole_code(codes, begin, begin + int(last) + 1)

    def _next_block(self, codes: Codes) -> tuple[int, bool]:
        """The next block that somebody waits for. If many codes, one after the other, are in no
        block, it is the one after them, and not known to be wanted."""
        places = self._places
        for size in (1, _CODES_AT_ONCE):
            blocks = np.searchsorted(places.last, codes[:size])
            there = blocks < len(places)
            there[there] = places.first[blocks[there]] <= codes[: len(blocks)][there]
            if there.any():
                return int(blocks[np.argmax(there)]), True
        rest = codes[len(blocks) :]
        return (int(np.searchsorted(places.last, rest[0])) if len(rest) else len(places)), False

    def _whole_code(self, codes: Codes, begin: int, stop: int) -> int:
        """Where to stop so that a code somebody waits for is not divided between two steps, if all
        its blocks can be read by one."""
        places = self._places
        if stop < len(places) and places.first[stop] == places.last[stop - 1]:
            code = places.first[stop]
            its_first = int(np.searchsorted(places.last, code))
            at = int(np.searchsorted(codes, code))
            if its_first > begin and at < len(codes) and codes[at] == code:
                return its_first
        return stop

    def _widest_gap(self) -> int:
        """Bytes that take as long to read as another read takes with its seek."""
        if self._gap_bytes is None:
            workspace = self._workspace
            costs = workspace.tuning.costs or measure_costs(workspace.spill.path, PAGE_BYTES)
            a_byte = max(costs.sequential, 1e-9) / PAGE_BYTES
            self._gap_bytes = int((costs.random - costs.sequential + _READ_SECONDS) / a_byte)
        return self._gap_bytes

    # ---- reading --------------------------------------------------------------------------------

    def _count(self, block: int, begin: int, stop: int) -> None:
        metrics, ends = self._workspace.metrics, self._places.ends
        metrics.blocks_skipped += begin - block
        metrics.blocks_read += stop - begin
        metrics.bytes_read += int(ends[stop] - ends[begin])
        metrics.steps += stop > begin

    def _read(self, begin: int, stop: int, codes: Codes) -> tuple[MasterRows, bool]:
        """These blocks, and whether few of their rows have one of the codes: then only those."""
        ends = self._places.ends
        self._workspace.report_memory(int(ends[stop] - ends[begin]))
        read = self._workspace.master.read(begin, stop)
        if len(codes) * _SPARSE > len(read.codes):
            return read, False
        distinct = codes[np.append(True, codes[1:] != codes[:-1])]
        starts, counts = np.empty(len(distinct), np.int64), np.empty(len(distinct), np.int64)
        kernels.locate(distinct, read.codes, starts, counts)
        if int(counts.sum()) * _SPARSE > len(read.codes):
            return read, False
        wanted = spread(starts, counts)
        return MasterRows(read.codes[wanted], rows_at(read.rows, wanted)), True


def _together(parts: list[MasterRows]) -> MasterRows | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    codes = np.concatenate([part.codes for part in parts])
    return MasterRows(codes, pa.concat_batches([part.rows for part in parts]))
