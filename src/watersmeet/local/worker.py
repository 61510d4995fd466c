"""A thread that drives one instance of a join: it does what it is told, in that order."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from watersmeet.local.dividing import end_to_end
from watersmeet.local.sources import MAX_ROWS
from watersmeet.operators.base import JoinOperator
from watersmeet.rows.address import Matches
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.leftovers import Leftovers

if TYPE_CHECKING:
    from watersmeet.local.instances import Instances

# What a row takes in a table beyond its values, at least: code, link, bucket heads, stamp.
_ROW_BYTES = 32

# Results that are found within so many seconds after others were handed over wait for more.
_TOGETHER_S = 0.005

Order = Callable[[JoinOperator], Iterator[Matches]]
"""Something that an instance is told to do."""


@dataclass(frozen=True, slots=True)
class Push:
    """Rows of an input for one instance."""

    input: int
    batch: pa.RecordBatch
    nbytes: int


@dataclass(frozen=True, slots=True)
class _Told:
    order: Order
    reports: bool


class Worker:
    """Calls one operator, copies its results out, and closes it at the end.

    No other thread calls the operator after `start`.
    """

    def __init__(
        self,
        number: int,
        operator: JoinOperator,
        account: MemoryAccount,
        schema: JoinSchema,
        instances: Instances,
    ) -> None:
        self.number = number
        self.operator = operator
        self._account = account
        self._schema = schema
        self._instances = instances
        self._capacity = instances.shares.most
        self._allowed = self._capacity
        self._told: deque[Push | _Told] = deque()
        self._pause: Callable[[], bool] | None = None
        """Set while the inputs are silent and the operator has not been idle since."""
        self._changed = threading.Condition(threading.RLock())
        self._is_resting = False
        self._handed_over = 0.0
        """When results were handed over last."""
        self.busy_seconds = 0.0
        """Processor time that this thread has taken."""
        self._leftovers = Leftovers(instances.limit // instances.threads)
        self._thread = threading.Thread(
            target=self._work, name=f"watersmeet-instance-{number}", daemon=True
        )

    # ---- what other threads do ------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def tell(self, order: Push | Order, *, reports: bool = False) -> None:
        """Have the operator do something, after all that it was told before."""
        with self._changed:
            if isinstance(order, Push):
                self._pause = None  # The inputs are not silent any more.
                self._told.append(order)
            else:
                self._told.append(_Told(order, reports))
            self._changed.notify_all()

    def rest(self, pause: Callable[[], bool]) -> None:
        """Nothing arrives until `pause()`: the operator may use the time."""
        with self._changed:
            self._pause = pause
            self._changed.notify_all()

    def wake(self) -> None:
        """Look whether memory has to be given back."""
        with self._changed:
            self._changed.notify_all()

    def stop(self) -> None:
        """Wait for the thread; call after the instances are closed."""
        self.wake()
        if self._thread.ident is None:
            self.operator.close()
        elif self._thread is not threading.current_thread():
            self._thread.join()

    @property
    def is_resting(self) -> bool:
        """Whether this thread has done all that it was told, and waits for more."""
        with self._changed:
            return self._is_resting and not self._has_work()

    @property
    def holds_rows(self) -> bool:
        """Whether rows are in memory or on disk. True for sure only while nothing is told."""
        return bool(self._account.used or self.operator.metrics.rows_spilled)

    # ---- what this thread does ------------------------------------------------------------------

    def _work(self) -> None:
        try:
            while not self._instances.is_closed:
                self._next()
                self.busy_seconds = time.thread_time()
        except BaseException as error:  # Also what a condition raises: it is raised to the caller.
            self._instances.broke(error)
        finally:
            self._told.clear()
            self.operator.close()

    def _next(self) -> None:
        """Wait for something to do, and do it."""
        with self._changed:
            self._is_resting = True
            self._changed.wait_for(self._has_work)
            self._is_resting = False
            pushes = self._pushes()
            told = None if pushes else self._order()
            pause = None
            if not pushes and told is None:
                pause, self._pause = self._pause, None
        if self._instances.is_closed:
            return
        if self._instances.must_give(self):
            self._deliver(self.fit(self.operator))
        if pushes:
            self._push(pushes)
        elif told is not None:
            self._deliver(told.order(self.operator))
            if told.reports:
                self._instances.done()
        elif pause is not None:
            idle = self.operator.idle(lambda: self._is_wanted() or pause())
            self._deliver(idle, at_once=True)

    def _has_work(self) -> bool:
        return self._is_wanted() or self._pause is not None or self._instances.must_give(self)

    def _is_wanted(self) -> bool:
        return bool(self._told) or self._instances.is_closed

    def _order(self) -> _Told | None:
        following = self._told.popleft() if self._told else None
        assert not isinstance(following, Push), "rows are taken first"
        return following

    def _pushes(self) -> list[Push]:
        """Rows of one input that have come before anything else that was told, taken together: a
        call of the operator takes a while, however few rows it has."""
        if not self._told or not isinstance(first := self._told[0], Push):
            return []
        taken: list[Push] = []
        kept: deque[Push | _Told] = deque()
        rows = MAX_ROWS
        while self._told and isinstance(each := self._told[0], Push):
            if each.input == first.input:
                rows -= len(each.batch)
                if taken and rows < 0:
                    break
                taken.append(each)
            else:
                kept.append(each)
            self._told.popleft()
        self._told.extendleft(reversed(kept))
        return taken

    def _push(self, pushes: list[Push]) -> None:
        nbytes = sum(push.nbytes for push in pushes)
        input, rows = pushes[0].input, sum(len(push.batch) for push in pushes)
        batches = end_to_end([push.batch for push in pushes])
        pushes.clear()
        self._deliver(self._fit(nbytes + _ROW_BYTES * rows))
        while batches:
            self._deliver(self.operator.push(input, batches.pop()))
        self._instances.joined(nbytes)
        self._leftovers.passed(nbytes)

    def fit(self, operator: JoinOperator) -> Iterator[Matches]:
        """Make the rows fit in the memory that this instance may have now."""
        return self._fit(0)

    def _fit(self, more: int) -> Iterator[Matches]:
        """Ask for memory for so many bytes more, and do with what there is."""
        allowed = self._instances.allow(self, self._account.used + more)
        if allowed != self._allowed:
            less, self._allowed = allowed < self._allowed, allowed
            yield from self.operator.lend(self._capacity - allowed)
            if less:
                self._instances.gave_back(self, allowed)

    def finishing(self, limit: int) -> Order:
        """Join all that is owed, within so much memory: at the end an operator uses all it has."""

        def order(operator: JoinOperator) -> Iterator[Matches]:
            yield from operator.lend(0)
            if self.holds_rows:
                yield from operator.resize(limit)
            yield from operator.finish()

        return order

    def _deliver(self, found: Iterator[Matches], *, at_once: bool = False) -> None:
        """Copy results out, and hand over those together, unless `at_once`, that are found within
        some milliseconds: each time wakes the caller's thread, for which this one has to wait."""
        most = 0 if at_once else self._instances.shares.together
        batches: list[pa.RecordBatch] = []
        nbytes = 0
        for matches in found:
            if len(matches):
                batches.append(batch := self._schema.materialise(matches))
                nbytes += batch.nbytes
                del batch
                if nbytes >= most or time.monotonic() >= self._handed_over + _TOGETHER_S:
                    self._hand_over(batches, nbytes)
                    batches, nbytes = [], 0
            if self._instances.is_closed:
                return
        if batches:
            self._hand_over(batches, nbytes)

    def _hand_over(self, batches: list[pa.RecordBatch], nbytes: int) -> None:
        self._instances.deliver(batches, nbytes)
        self._leftovers.passed(nbytes)
        self._handed_over = time.monotonic()
