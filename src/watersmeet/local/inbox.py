"""Batches that have arrived and wait for the join: one bounded queue for each input."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from watersmeet.local.news import (
    Arrived,
    Ended,
    Failed,
    LaidDown,
    News,
    Parcel,
    Report,
    Wanted,
)
from watersmeet.local.sources import MAX_ROWS
from watersmeet.rows.widths import row_widths, total_bytes
from watersmeet.store.account import MemoryAccount
from watersmeet.store.leftovers import LARGE, hand_back_large_arrays_at_once
from watersmeet.store.master.table import Master

_FIRST_ROWS = 1024
# Two large batches may take this fraction of all memory together. If they would take more, the
# second one waits until the first is joined.
_TOGETHER = 0.5
# How long an input waits while another one's source makes a batch that is, or may be, large: these
# seconds, or this many times the seconds that the source took for the batch before; less for its
# first batch. After that the source is taken to hang, and no input waits for it again before it
# has delivered a batch.
_COURTESY_S = 2.0
_COURTESY_TIMES = 4
_FIRST_COURTESY_S = 1.0


class Closed(Exception):
    """Raised in a reader's thread when the join has been closed; the reader then ends."""


class Inbox:
    """A queue of arrived batches for each input, of no more bytes than its share where possible.

    A reader waits until there is room for a batch as large as its source's last one before it asks
    for the next. So an input exceeds its share by at most one batch, which is larger than the one
    before. An input whose batches are larger than its share borrows memory from the rows of the
    join: the operator frees it (`Wanted`) before the next batch is asked for. A large batch that
    could not be foreseen, or that cannot be joined yet, is put aside on disk. The last news of an
    input is that it ended or failed.
    """

    def __init__(
        self,
        account: MemoryAccount,
        *,
        share: int,
        put_aside: Callable[[pa.RecordBatch], pa.RecordBatch],
        expected: Sequence[int | None] = (0, 0),
        announcing: int = 0,
    ) -> None:
        """`expected` is how large the first batch of each input may be, None if that is not known.

        `put_aside` writes a batch to disk, and returns one of the same rows that takes no memory.
        So many further inputs as `announcing` says have news, but no batches.
        """
        self._account = account
        self._share = share
        self._put_aside = put_aside
        inputs = len(expected)
        self._news: list[deque[News]] = [deque() for _ in range(inputs + announcing)]
        self._held = [0] * inputs
        self._asked = [0] * inputs
        """Bytes of the large batch that a source is making now, by input."""
        self._wants = [0] * inputs
        """Bytes of the large batch that an input will ask for when it is its turn."""
        self._asked_last: int | None = None
        self._asked_at = [0.0] * inputs
        self._took = [0.0] * inputs
        """Seconds that a source took for its latest batch, by input."""
        self._hangs = [False] * inputs
        """Whether another input has waited for a source in vain since its latest batch."""
        self._leaving = [0] * inputs
        """Bytes of a large batch that was put aside and that its reader may still hold."""
        self._aside = [0] * inputs
        """Batches that were put aside and are not joined yet."""
        self._knows_large = False
        """Whether a batch has come that is large, and not only because memory is small."""
        self._latest = list(expected)
        self._lent = 0
        self._borrowed = 0
        """Bytes that somebody needs who lays a master table down."""
        self._columns: list[pa.Schema | None] = [None] * inputs
        self._piece_rows = [_FIRST_ROWS] * inputs
        self._reports: deque[Report] = deque()
        self._turn = 0
        self._closed = False
        # Reentrant: a garbage collection in a locked section may close the join that it frees.
        self._changed = threading.Condition(threading.RLock())

    # ---- what readers do ------------------------------------------------------------------------

    def has_room(self, input: int) -> bool:
        """Whether a batch as large as the latest one fits; an input without batches has room."""
        if self._aside[input]:
            return False
        held = self._held[input]
        return held == 0 or held + (self._latest[input] or 0) <= self._share

    def wait_for_room(self, input: int) -> None:
        """Return when a batch as large as the latest one may be asked for."""
        with self._changed:
            self._leave(input)
            self._wait_for(lambda: self.has_room(input))
            latest = self._latest[input]
            if latest is None:
                latest = self._first_of(input)
            if latest > self._share:
                self._wait_for_turn(input, latest)
                self._wait_for(self._have_made_way)
            self._asked_at[input] = time.monotonic()

    def _leave(self, input: int) -> None:
        """A reader that asks for the next batch holds its latest one no more."""
        if self._leaving[input]:
            self._leaving[input] = 0
            self._changed.notify_all()

    def _have_made_way(self) -> bool:
        """Whether the operator has freed the memory that input needs. There is no operator, and
        there are no rows, before the columns of all inputs are known."""
        return self._needs() <= self._lent or None in self._columns

    def _first_of(self, input: int) -> int:
        """How large a first batch of which nothing is known may be: as large as the other inputs'.

        Waits for the first batches that others have asked for. If all sources were asked at once,
        several large batches could be in memory before it is known that they are large.
        """
        for other in self._others(input):
            if self._latest[other] is None and self._asked_at[other]:
                self._wait_patiently(other, partial(self._has_delivered, other))
        return max((self._latest[other] or 0 for other in self._others(input)), default=0)

    def _has_delivered(self, input: int) -> bool:
        return self._latest[input] is not None

    def _others(self, input: int) -> list[int]:
        return [other for other in range(len(self._held)) if other != input]

    def _wait_for_turn(self, input: int, nbytes: int) -> None:
        """Return when a large batch may be asked for; it is then counted as asked for."""
        others = self._others(input)

        def fits() -> bool:
            held = sum(self._held[other] + self._leaving[other] for other in others)
            return self._fits(nbytes, held)

        def is_my_turn() -> bool:
            is_others = self._asked_last == input and any(self._wants[other] for other in others)
            held = sum(
                self._held[other] + self._leaving[other] + self._asked[other] for other in others
            )
            return not is_others and self._fits(nbytes, held)

        self._wants[input] = nbytes
        while True:
            self._wait_for(fits)
            for other in others:
                self._wait_patiently(other, is_my_turn)
            if fits():  # If it is another input's turn, that one's source hangs.
                break
        self._wants[input] = 0
        self._asked[input], self._asked_last = nbytes, input
        self._changed.notify_all()

    def _wait_patiently(self, other: int, satisfied: Callable[[], bool]) -> None:
        """Wait until the condition holds, which another input's source must bring about, or until
        that source is taken to hang."""
        patience = _FIRST_COURTESY_S
        if self._hangs[other]:
            patience = 0.0
        elif self._took[other]:
            patience = max(_COURTESY_S, _COURTESY_TIMES * self._took[other])
        self._wait_for(satisfied, patience)
        self._hangs[other] = self._hangs[other] or not satisfied()

    def show_columns(self, input: int, schema: pa.Schema) -> None:
        """Make an input's schema known, which may be before there is room for its first batch."""
        with self._changed:
            self._columns[input] = schema
            self._changed.notify_all()

    def put(self, input: int, batch: pa.RecordBatch) -> None:
        written_out = total_bytes(batch)
        # For text views Arrow counts all of the buffers that they point into, used or not.
        nbytes = min(batch.nbytes, written_out)
        if nbytes > max(self._share, LARGE) and not self._knows_large:
            self._knows_large = True
            hand_back_large_arrays_at_once()
        with self._changed:
            self._stop_if_closed()
            self._took[input] = time.monotonic() - self._asked_at[input]
            self._hangs[input] = False
            self._latest[input] = nbytes
            aside = nbytes > self._share and not self._can_stay(input, nbytes)
            self._count(input, 0 if aside else nbytes)
            self._leaving[input] = nbytes if aside else 0
        if aside:
            batch = self._put_aside(batch)
        pieces = list(self._cut(input, batch, written_out))
        parcel = Parcel(0 if aside else nbytes, pieces=len(pieces), aside=aside)
        with self._changed:
            self._stop_if_closed()
            self._aside[input] += aside
            self._news[input].extend(Arrived(input, piece, parcel) for piece in pieces)
            self._changed.notify_all()

    def _count(self, input: int, nbytes: int) -> None:
        self._account.take(nbytes, "input")
        self._held[input] += nbytes
        self._asked[input] = 0
        self._changed.notify_all()

    def _can_stay(self, input: int, nbytes: int) -> bool:
        """Whether a large batch can stay in memory until it is joined.

        Not if the columns of another input are still unknown: its first batch must come before
        anything is joined, and may be large, too.
        """
        others = self._others(input)
        return (
            all(self._columns[other] is not None for other in others)
            and self._fits(nbytes, sum(self._held[other] for other in others))
            and self._account.used + nbytes <= self._account.limit
        )

    def _wait_for(self, satisfied: Callable[[], bool], timeout: float | None = None) -> None:
        self._changed.wait_for(lambda: self._closed or satisfied(), timeout)
        self._stop_if_closed()

    def _fits(self, nbytes: int, others: int) -> bool:
        """Whether a large batch of an input can be in memory beside `others` bytes of others."""
        return others <= self._share or nbytes + others <= _TOGETHER * self._account.limit

    def _needs(self) -> int:
        """Bytes beyond their shares that the inputs have, or will have when sources deliver."""
        total = sum(self._held) + sum(self._asked)
        return max(total - len(self._held) * self._share, 0) + self._borrowed

    def _cut(self, input: int, batch: pa.RecordBatch, nbytes: int) -> Iterator[pa.RecordBatch]:
        """Cut a batch into pieces. The first pieces of an input are small, and later ones twice as
        large as the one before, so that the first result comes soon."""
        most = max(self._share // 4, 1)
        ends = None if nbytes <= most else np.cumsum(row_widths(batch))
        start = 0
        while start == 0 or start < len(batch):
            stop = start + self._piece_rows[input]
            if ends is not None and start < len(batch):
                before = int(ends[start - 1]) if start else 0
                fits = int(np.searchsorted(ends, before + most, side="right"))
                stop = min(stop, max(fits, start + 1))
            yield batch.slice(start, stop - start)
            start = stop
            self._piece_rows[input] = min(2 * self._piece_rows[input], MAX_ROWS)

    def end(self, input: int) -> None:
        self._announce(Ended(input))

    def fail(self, input: int, error: BaseException) -> None:
        self._announce(Failed(input, error))

    # ---- what lays a master table down does -----------------------------------------------------

    def borrow(self, nbytes: int) -> None:
        """Return when the operator has freed so many bytes; 0: they are not needed any more."""
        with self._changed:
            self._borrowed = nbytes
            self._changed.notify_all()
            if nbytes:
                self._wait_for(lambda: self._needs() <= self._lent)

    def laid_down(self, input: int, master: Master) -> None:
        self._announce(LaidDown(input, master))

    # ---- what the join does ---------------------------------------------------------------------

    def take(self, timeout: float | None) -> News | None:
        """The next news, from the inputs in turn; None if there is none for `timeout` seconds."""
        with self._changed:
            if not self._changed.wait_for(self.has_news, timeout):
                return None
            return self._next()

    def _next(self) -> News:
        self._stop_if_closed()
        if (needs := self._needs()) != self._lent:
            return Wanted(needs)
        count = len(self._news)
        while not self._news[self._turn]:
            self._turn = (self._turn + 1) % count
        input, self._turn = self._turn, (self._turn + 1) % count
        return self._news[input].popleft()

    def take_more(self, input: int, rows: int, nbytes: int) -> list[Arrived]:
        """Further batches of one input that have arrived, of so many rows and bytes at most."""
        taken: list[Arrived] = []
        with self._changed:
            queue = self._news[input]
            while queue and isinstance(following := queue[0], Arrived):
                rows -= len(following.batch)
                nbytes -= total_bytes(following.batch)
                if rows < 0 or nbytes < 0:
                    break
                taken.append(following)
                queue.popleft()
        return taken

    def take_first(self, input: int) -> News:
        """Wait for news of one input, and take it."""
        with self._changed:
            self._wait_for(lambda: bool(self._news[input]))
            return self._news[input].popleft()

    def first(self, input: int) -> News | None:
        """The next news of `input`, without taking it."""
        queue = self._news[input]
        return queue[0] if queue else None

    def columns(self, input: int) -> pa.Schema | None:
        return self._columns[input]

    def wait_until(self, satisfied: Callable[[], bool]) -> None:
        with self._changed:
            self._wait_for(satisfied)

    def has_news(self) -> bool:
        """Whether `take` would return at once. Takes no lock, because the reactive stage asks after
        every block."""
        return bool(any(self._news) or self._needs() != self._lent or self._closed)

    def lend(self, nbytes: int) -> None:
        """The operator has freed `nbytes` of its memory for input."""
        with self._changed:
            self._lent = nbytes
            self._changed.notify_all()

    def joined(self, arrived: Arrived) -> None:
        """The operator has its own copy of these rows, so they do not count as input any more."""
        with self._changed:
            arrived.parcel.pieces -= 1
            if arrived.parcel.pieces == 0:
                self._account.give(arrived.parcel.nbytes, "input")
                self._held[arrived.input] -= arrived.parcel.nbytes
                self._aside[arrived.input] -= arrived.parcel.aside
                self._changed.notify_all()

    # ---- what instances of the join do ----------------------------------------------------------

    def report(self, report: Report) -> None:
        with self._changed:
            if not self._closed:
                self._reports.append(report)
                self._changed.notify_all()

    def has_reports(self) -> bool:
        with self._changed:
            return bool(self._reports)

    def look_again(self) -> None:
        """What `accepts` says in `take_any` has changed."""
        with self._changed:
            self._changed.notify_all()

    def take_any(self, timeout: float | None, accepts: Callable[[], bool]) -> News | Report | None:
        """The next report, or else the next news of the inputs if it `accepts()` any; None if there
        is none for `timeout` seconds."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or self._reports or (accepts() and self.has_news()), timeout
            )
            self._stop_if_closed()
            if self._reports:
                return self._reports.popleft()
            return self._next() if accepts() and self.has_news() else None

    def close(self) -> None:
        with self._changed:
            if not self._closed:
                self._closed = True
                self._reports.clear()
                self._account.give(sum(self._held), "input")
                for queue in self._news:
                    queue.clear()
                self._changed.notify_all()

    def _announce(self, news: Ended | Failed | LaidDown) -> None:
        with self._changed:
            if not self._closed:
                if news.input < len(self._held):
                    self._asked[news.input] = self._leaving[news.input] = 0
                self._news[news.input].append(news)
                self._changed.notify_all()

    def _stop_if_closed(self) -> None:
        if self._closed:
            raise Closed
