"""Reads the rows of the next wave while those of this one are used."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from threading import Event

from watersmeet.spark.tables.inputs import Inputs
from watersmeet.store.exchange import Sections

Scanned = list[list[Sections]]
"""The files of each table."""

# Spark runs jobs in the order in which they come. So long does a scan wait for the first job that
# uses the rows of a wave, which has to be planned; after that it gives way to others again and
# again (`Inputs.scan`).
_PAUSE_S = 0.2


class Ahead:
    """A thread that scans one wave; jobs that use the rows of the wave before go first."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="watersmeet-scan")
        self._hurry = Event()
        self._stopped = False
        self._begun: tuple[int, Future[Scanned]] | None = None

    def begin(self, wave: int, inputs: Inputs, *, spare: bool = False) -> None:
        """With a core to `spare`, as behind a wave without tasks, who uses first rows need not wait
        for tasks of the scan, nor for the start of their Python workers."""
        self._hurry.clear()

        def scan() -> Scanned:
            self._hurry.wait(_PAUSE_S)
            return inputs.scan(wave, self._is_wanted, spare=spare)

        self._begun = wave, self._thread.submit(scan)

    def take(self, wave: int) -> Scanned | None:
        """The files of this wave, when they are all there; None if it was not begun."""
        begun, self._begun = self._begun, None
        if begun is None or begun[0] != wave:
            return None
        self._hurry.set()
        return begun[1].result()

    def stop(self) -> None:
        """End after the job that runs, which somebody else has to cancel."""
        self._stopped = True
        self._hurry.set()

    def join(self) -> None:
        """Wait for that end."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _is_wanted(self) -> bool:
        """Whether somebody waits for the rows."""
        if self._stopped:
            raise CancelledError
        return self._hurry.is_set()
