"""The instances of one join: an operator for each part of the keys, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from watersmeet.local.allotments import Allotments
from watersmeet.local.dividing import Divider
from watersmeet.local.inbox import Inbox
from watersmeet.local.news import Broke, Done, Found
from watersmeet.local.worker import Order, Push, Worker
from watersmeet.operators.base import JoinOperator
from watersmeet.operators.metrics import Metrics
from watersmeet.operators.summed import SummedMetrics
from watersmeet.rows.address import Matches
from watersmeet.rows.promises import Promise
from watersmeet.rows.schema import JoinSchema
from watersmeet.rows.widths import total_bytes
from watersmeet.store.account import MemoryAccount
from watersmeet.store.shares import MemoryShares

# An instance may have this many times its even part of the memory. More than its part, so that one
# that has most of the rows can use what others do not, and because the size of blocks is a fraction
# of it; not twice, because work in progress has an eighth of it in every instance.
_TIMES = 1.5
# Results that wait for the caller, of all instances, may take this fraction of memory.
_WAITING_RESULTS = 32
# However much is lent, rows of an operator keep half a megabyte or this fraction of its capacity.
_LEAST_SHARE, _LEAST_BYTES = 24, 2**19

MakeInstance = Callable[[int, MemoryAccount], JoinOperator]
"""Makes the operator of the instance with this number."""


class InstanceShares:
    """How one memory limit is divided: among the instances, and what they have together."""

    def __init__(self, limit: int, instances: int) -> None:
        self.instance = min(int(_TIMES * limit) // instances, limit)
        """The limit that each operator is made with. Not all can use it at a time."""
        whole, each = MemoryShares.split(limit), MemoryShares.split(self.instance)
        self.waiting = 2 * whole.input // 3
        """Batches that have arrived and are not divided yet."""
        self.turn = whole.input // 6
        """What is divided at a time."""
        self.divided = whole.input // 6
        """Rows that are divided and wait for their instance."""
        self.results = limit // _WAITING_RESULTS
        self.together = self.results // (2 * instances)
        """Results of an instance that are handed over together."""
        self.rows = limit - whole.input - instances * each.work - self.results
        """Rows and indexes of all instances."""
        self.most = each.store
        self.least = max(each.store // _LEAST_SHARE, min(each.store, _LEAST_BYTES))


class Instances:
    """Is called as an operator is. Its methods tell the instances what to do, and return at once;
    results come to the inbox as `Found`, in any order.

    An instance has all rows of its keys, of all inputs, and does what it is told in that order, but
    for rows of different inputs between which it is told nothing else. So each result comes exactly
    once, because it does so in one operator.
    """

    def __init__(
        self,
        schema: JoinSchema,
        make: MakeInstance,
        *,
        divider: Divider,
        threads: int,
        memory: MemoryAccount,
        inbox: Inbox,
        uses_all_at_the_end: bool = True,
    ) -> None:
        """`uses_all_at_the_end`: the operators gain by more memory when no more input comes."""
        self.shares = shares = InstanceShares(memory.limit, threads)
        self.threads = threads
        self._account = memory
        self._inbox = inbox
        self._divider = divider
        self._uses_all_at_the_end = uses_all_at_the_end
        self._changed = threading.Condition(threading.RLock())
        self._closed = False
        self._divided = 0
        self._waiting = 0
        self._undone = 0
        self._allotments = Allotments(
            shares.rows, instances=threads, most=shares.most, least=shares.least
        )
        self.workers: list[Worker] = []
        try:
            for number in range(threads):
                account = MemoryAccount(shares.instance, part_of=memory)
                self.workers.append(Worker(number, make(number, account), account, schema, self))
        except BaseException:
            self.close()
            raise
        parts = [worker.operator.metrics for worker in self.workers]
        self._metrics = SummedMetrics(parts, memory, copies=divider.copies)

    # ---- what the driver does -------------------------------------------------------------------

    def start(self) -> None:
        """To be called when `close` will be, come what may: threads end by that only."""
        for worker in self.workers:
            worker.start()

    @property
    def metrics(self) -> Metrics:
        return self._metrics.now()

    @property
    def limit(self) -> int:
        return self._account.limit

    def push(self, input: int, batch: pa.RecordBatch) -> Iterator[Matches]:
        for worker, part in zip(self.workers, self._divider.divide(input, batch), strict=True):
            if len(part):
                nbytes = total_bytes(part)
                self._account.take(nbytes, "input")
                with self._changed:
                    self._divided += nbytes
                worker.tell(Push(input, part, nbytes))
        return iter(())

    def punctuate(self, input: int, promise: Promise) -> Iterator[Matches]:
        return self._tell(lambda operator: operator.punctuate(input, promise))

    def tidy(self) -> Iterator[Matches]:
        return self._tell(lambda operator: operator.tidy())

    def end(self, input: int) -> Iterator[Matches]:
        return self._tell(lambda operator: operator.end(input))

    def tell(self, orders: Sequence[Order]) -> Iterator[Matches]:
        """Tell each instance something."""
        for worker, order in zip(self.workers, orders, strict=True):
            worker.tell(order)
        return iter(())

    def _tell(self, order: Order) -> Iterator[Matches]:
        return self.tell([order] * self.threads)

    def idle(self, pause: Callable[[], bool]) -> Iterator[Matches]:
        """The inputs are silent: instances that have nothing to do join what they have spilled."""
        for worker in self.workers:
            worker.rest(pause)
        return iter(())

    def tell_and_report(self, orders: Sequence[Order]) -> None:
        """Tell each instance something, and report `Done` to the inbox when all have done it."""
        with self._changed:
            self._undone += len(orders)
        for worker, order in zip(self.workers, orders, strict=True):
            worker.tell(order, reports=True)

    def lend(self, nbytes: int) -> Iterator[Matches]:
        """Free memory for input; reports `Done`."""
        self._allotments.lend(nbytes)
        self.tell_and_report([worker.fit for worker in self.workers])
        return iter(())

    def finishing(self) -> list[Order]:
        """Orders to join all that is owed still. To be asked for when all have carried out what
        they were told before: instances that have nothing left leave their memory to the others."""
        if not self._uses_all_at_the_end:
            return [lambda operator: operator.finish()] * self.threads
        busy = [worker for worker in self.workers if worker.holds_rows]
        left = self._account.limit - self.shares.results
        limit = min(left // max(len(busy), 1), self.shares.instance)
        return [worker.finishing(limit) for worker in self.workers]

    def accepts(self) -> bool:
        """Whether more rows may be divided: not while many wait for their instances."""
        return self._divided < self.shares.divided

    @property
    def is_stuck(self) -> bool:
        """Whether nothing will come of waiting for what was told: all instances have done it, and
        it does not count as done. That is a mistake in here, and to wait would be for ever."""
        if not all(worker.is_resting for worker in self.workers):
            return False
        return bool(self._undone) or not self.accepts()

    @property
    def busy_seconds(self) -> float:
        """Processor time that all threads have taken."""
        return sum(worker.busy_seconds for worker in self.workers)

    def handed_over(self, found: Found) -> None:
        """The caller has these results now."""
        self._account.give(found.nbytes, "results")
        with self._changed:
            self._waiting -= found.nbytes
            self._changed.notify_all()

    def close(self) -> None:
        """Stop all threads, and wait for them. Each closes its own operator."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for worker in self.workers:
            worker.stop()
        with self._changed:
            self._account.give(self._divided, "input")
            self._account.give(self._waiting, "results")
            self._divided = self._waiting = 0

    # ---- what workers do ------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        return self._closed

    def allow(self, worker: Worker, nbytes: int) -> int:
        """How many bytes of rows a worker may hold that needs so many."""
        was_short = self._allotments.is_short(worker.number)
        allowed = self._allotments.ask(worker.number, nbytes)
        if self._allotments.is_short(worker.number) and not was_short:
            for other in self.workers:
                other.wake()
        return allowed

    def gave_back(self, worker: Worker, nbytes: int) -> None:
        self._allotments.gave_back(worker.number, nbytes)

    def must_give(self, worker: Worker) -> bool:
        return self._allotments.must_give(worker.number)

    def deliver(self, batches: list[pa.RecordBatch], nbytes: int) -> None:
        """Hand results of so many bytes to the caller, when there is room for them."""
        with self._changed:
            most = self.shares.results
            self._changed.wait_for(
                lambda: self._closed or not self._waiting or self._waiting + nbytes <= most
            )
            if self._closed:
                return
            self._waiting += nbytes
        self._account.take(nbytes, "results")
        self._inbox.report(Found(batches, nbytes))

    def joined(self, nbytes: int) -> None:
        """An operator has its own copy of these rows."""
        self._account.give(nbytes, "input")
        with self._changed:
            accepted = self.accepts()
            self._divided -= nbytes
        if not accepted and self.accepts():
            self._inbox.look_again()

    def done(self) -> None:
        """A worker has done what it was told to report."""
        with self._changed:
            self._undone -= 1
            if self._undone:
                return
        self._inbox.report(Done())

    def broke(self, error: BaseException) -> None:
        """A worker cannot go on."""
        self._inbox.report(Broke(error))
