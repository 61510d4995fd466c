"""Batches that have arrived and wait for the join: one bounded queue per side."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from watersmeet.local.sources import MAX_ROWS
from watersmeet.model import Side
from watersmeet.store.account import MemoryAccount

_FIRST_ROWS = 1024


class Closed(Exception):
    """The join has gone; a reader that learns this stops."""


@dataclass
class _Parcel:
    """A batch as it came. Its memory is held until the last of its pieces is joined."""

    nbytes: int
    pieces: int


@dataclass(frozen=True, slots=True)
class Arrived:
    """Part of an arrived batch, small enough for one push."""

    side: Side
    batch: pa.RecordBatch
    parcel: _Parcel


@dataclass(frozen=True, slots=True)
class Ended:
    """The side is complete."""

    side: Side


@dataclass(frozen=True, slots=True)
class Failed:
    """The side raised after everything that it had delivered."""

    side: Side
    error: BaseException


News = Arrived | Ended | Failed


class Inbox:
    """What has arrived, per side and in order, and nothing beyond each side's share of bytes.

    Readers wait for room before they ask their source for more, so every batch that exists is
    counted. A share is passed only by a batch that is larger than the one before it led us to
    expect. The last news of a side is that it ended or failed.
    """

    def __init__(self, account: MemoryAccount, *, share: int) -> None:
        self._account = account
        self._share = share
        self._news: tuple[deque[News], deque[News]] = (deque(), deque())
        self._held = [0, 0]
        self._latest = [0, 0]
        self._piece_rows = [_FIRST_ROWS, _FIRST_ROWS]
        self._turn = Side.LEFT
        self._closed = False
        # Reentrant: a garbage collection inside a locked section may close the run it frees.
        self._changed = threading.Condition(threading.RLock())

    def has_room(self, side: Side) -> bool:
        """Whether a batch as large as the latest one fits; one always does."""
        held = self._held[side]
        return held == 0 or held + self._latest[side] <= self._share

    def wait_for_room(self, side: Side) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self.has_room(side))
            self._stop_if_closed()

    def put(self, side: Side, batch: pa.RecordBatch) -> None:
        nbytes = batch.nbytes
        largest = min(MAX_ROWS, max(1, len(batch) * (self._share // 4) // max(1, nbytes)))
        pieces = list(self._cut(side, batch, largest))
        parcel = _Parcel(nbytes, pieces=len(pieces))
        with self._changed:
            self._stop_if_closed()
            self._account.take(nbytes, "input")
            self._held[side] += nbytes
            self._latest[side] = nbytes
            self._news[side].extend(Arrived(side, piece, parcel) for piece in pieces)
            self._changed.notify_all()

    def _cut(self, side: Side, batch: pa.RecordBatch, largest: int) -> Iterator[pa.RecordBatch]:
        """Pieces that begin small and double: the first result should not wait for a large one."""
        start = 0
        while start == 0 or start < len(batch):
            rows = min(self._piece_rows[side], largest)
            yield batch.slice(start, rows)
            start += rows
            self._piece_rows[side] = min(2 * self._piece_rows[side], MAX_ROWS)

    def end(self, side: Side) -> None:
        self._announce(Ended(side))

    def fail(self, side: Side, error: BaseException) -> None:
        self._announce(Failed(side, error))

    def take(self, timeout: float | None) -> News | None:
        """The next news, the sides in turn while both have some; None after `timeout` seconds."""
        with self._changed:
            if not self._changed.wait_for(self.has_news, timeout):
                return None
            self._stop_if_closed()
            side = self._turn if self._news[self._turn] else self._turn.other
            self._turn = side.other
            return self._news[side].popleft()

    def first(self, side: Side) -> News | None:
        """What `side` has to say next, without taking it."""
        queue = self._news[side]
        return queue[0] if queue else None

    def wait_until(self, satisfied: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or satisfied())
            self._stop_if_closed()

    def has_news(self) -> bool:
        """Takes no lock: the reactive stage asks after every block. To be closed is news too."""
        return bool(self._news[Side.LEFT] or self._news[Side.RIGHT] or self._closed)

    def joined(self, arrived: Arrived) -> None:
        """The join has its own copy of these rows; their memory may go."""
        with self._changed:
            arrived.parcel.pieces -= 1
            if arrived.parcel.pieces == 0:
                self._account.give(arrived.parcel.nbytes, "input")
                self._held[arrived.side] -= arrived.parcel.nbytes
                self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            if not self._closed:
                self._closed = True
                self._account.give(sum(self._held), "input")
                for queue in self._news:
                    queue.clear()
                self._changed.notify_all()

    def _announce(self, news: Ended | Failed) -> None:
        with self._changed:
            if not self._closed:
                self._news[news.side].append(news)
                self._changed.notify_all()

    def _stop_if_closed(self) -> None:
        if self._closed:
            raise Closed
