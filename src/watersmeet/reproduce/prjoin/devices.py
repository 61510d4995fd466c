"""How many seconds counted I/O takes on the devices of the paper's section 6.1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from watersmeet.reproduce.prjoin.ledger import Ledger
from watersmeet.sim.delays import Seconds


@dataclass(frozen=True)
class Devices:
    """Seconds per megabyte of the input disk and of temporary storage.

    `seek` are the seconds before an extent is read. Spilled rows are written to the end of a file,
    so writes do not seek. `overlapped`: the two devices work at the same time.
    """

    input: float
    write: float
    read: float
    seek: float = 0.0
    overlapped: bool = True

    def temporary(self, ledger: Ledger, megabytes_per_row: float, *, extents: float) -> Seconds:
        """Seconds of each step on the temporary device; a run consists of `extents` extents."""
        seconds: Seconds = (
            megabytes_per_row * (self.write * ledger.written + self.read * ledger.read)
            + self.seek * extents * ledger.runs_read
        )
        return seconds

    def times(
        self, ledger: Ledger, megabytes_per_row: float, *, ahead: int, extents: float = 1.0
    ) -> Seconds:
        """When each step is done. `ahead` rows of input may be read before older ones are done.

        Without overlap, times add up. With overlap, each device does its requests in order:
        temporary storage begins a step's I/O when the step's input has been read, and a step that
        reads nothing from temporary storage does not wait for its writes.
        """
        reading: Seconds = megabytes_per_row * self.input * ledger.input.astype(np.float64)
        temporary = self.temporary(ledger, megabytes_per_row, extents=extents)
        if not self.overlapped:
            summed: Seconds = np.cumsum(reading + temporary)
            return summed
        arrived = np.cumsum(ledger.input)
        done_first = np.searchsorted(arrived, arrived - ahead, side="right") - 1
        # In a plain loop: each of some ten thousand steps depends on the one before.
        return _overlapped(reading, temporary, ledger.read > 0, done_first)


def _overlapped(
    reading: Seconds, temporary: Seconds, waits: NDArray[np.bool_], done_first: NDArray[np.intp]
) -> Seconds:
    input_free = storage_free = 0.0
    stored, times = np.zeros(len(reading)), np.zeros(len(reading))
    for step, (first, seconds) in enumerate(zip(done_first, temporary, strict=True)):
        if reading[step]:
            input_free = max(input_free, stored[first] if first >= 0 else 0.0) + reading[step]
        if seconds:
            storage_free = max(storage_free, input_free) + seconds
        stored[step] = storage_free
        times[step] = storage_free if waits[step] else input_free
    if len(times):
        times[-1] = max(input_free, storage_free)
    return np.maximum.accumulate(times)


# "Sequential 1MB read latency is 13.687ms; sequential 1MB write latency is 13.757ms; random 1MB
# read latency is 25.515ms."
_READ, _WRITE, _RANDOM = 13.687e-3, 13.757e-3, 25.515e-3

DISK_SYNCHRONOUS = Devices(_READ, _WRITE, _READ, seek=_RANDOM - _READ, overlapped=False)
DISK = Devices(_READ, _WRITE, _READ, seek=_RANDOM - _READ)
# 77 MB/s of the input disk; 250 MB/s reads and 170 MB/s writes of the SSD.
SSD = Devices(1 / 77, 1 / 170, 1 / 250)
# "Even with 32 parallel requests, 4KB reads can obtain only 60% of the SSD's peak read bandwidth."
SSD_4K = Devices(1 / 77, 1 / 170, 1 / (0.6 * 250))
