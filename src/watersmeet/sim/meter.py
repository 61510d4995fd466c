"""How much time the work of an operator has taken so far."""

from __future__ import annotations

import math

from watersmeet.sim.charges import Disk, Processor
from watersmeet.sim.clock import VirtualClock
from watersmeet.store.spill import Io, IoKind


class Meter:
    """Turns what an operator does into time on the clock.

    `work` is the sum of all times charged. Time on the disk moves the clock at once. Time on the
    processor is returned, since part of it may pass while the driver waits for rows anyway.
    """

    def __init__(
        self,
        clock: VirtualClock,
        *,
        disk: Disk,
        processor: Processor,
        scans_in_order: bool = False,
    ) -> None:
        """`scans_in_order`: runs are scanned one after the other as they lie on the disk, so that
        only the first of them is a random access. DINER's nested loop does that."""
        self.clock = clock
        self.work = 0.0
        self.first_flush = math.inf
        self._disk = disk
        self._processor = processor
        self._spilled_rows = 0
        self._candidates = 0
        self._scans_in_order = scans_in_order
        self._last: IoKind | None = None

    def observe(self, io: Io) -> None:
        """For `SpillArea(observe=...)`: called for every block written or read."""
        if io.kind is IoKind.FLUSH:
            self.first_flush = min(self.first_flush, self.clock.now)
        # The next run of the same flush is written right behind the last one.
        if io.kind is self._last and (io.kind is IoKind.FLUSH or self._follows(io.kind)):
            io = io._replace(first=False)
        self._last = io.kind
        seconds = self._disk.seconds(io)
        self.work += seconds
        self.clock.advance(seconds)
        self._spilled_rows += io.rows

    def processing(self, *, arrivals: int, candidates: int, results: int) -> float:
        """Processor seconds since the last call; `candidates` is the operator's running total."""
        price = self._processor
        seconds = (
            arrivals * price.arrival
            + (candidates - self._candidates) * price.candidate
            + results * price.result
            + self._spilled_rows * price.spilled_row
        )
        self._candidates = candidates
        self._spilled_rows = 0
        if self._last is IoKind.FLUSH:
            self._last = None
        self.work += seconds
        return seconds

    def _follows(self, kind: IoKind) -> bool:
        return kind is IoKind.SCAN and self._scans_in_order
