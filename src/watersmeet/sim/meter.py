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

    def __init__(self, clock: VirtualClock, *, disk: Disk, processor: Processor) -> None:
        self.clock = clock
        self.work = 0.0
        self.first_flush = math.inf
        self._disk = disk
        self._processor = processor
        self._spilled_rows = 0
        self._candidates = 0
        self._flushing = False

    def observe(self, io: Io) -> None:
        """For `SpillArea(observe=...)`: called for every block written or read."""
        if io.kind is IoKind.FLUSH:
            self.first_flush = min(self.first_flush, self.clock.now)
            if self._flushing:  # the next run of the same flush, written right behind the last one
                io = io._replace(first=False)
        self._flushing = io.kind is IoKind.FLUSH
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
        self._flushing = False
        self.work += seconds
        return seconds
