"""The loop of a local join that runs in several threads, one for each instance."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pyarrow as pa

from watersmeet.errors import InvalidArgument
from watersmeet.local.dividing import Divider, end_to_end
from watersmeet.local.driver import Driver
from watersmeet.local.instances import Instances, InstanceShares
from watersmeet.local.news import Arrived, Broke, Done, Ended, Failed, Found, LaidDown, News, Wanted
from watersmeet.local.promised import Promised
from watersmeet.local.sources import MAX_ROWS, Source
from watersmeet.local.worker import Order
from watersmeet.operators.base import JoinOperator
from watersmeet.operators.enriching import EnrichQuestion
from watersmeet.operators.family import has_partitions, make_operator
from watersmeet.operators.many import ManyQuestion
from watersmeet.operators.promised.join import KeepsRows
from watersmeet.operators.question import Question
from watersmeet.operators.tuning import Tuning
from watersmeet.rows.address import Matches
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea

_MOST_THREADS = 256
_FEWEST_PARTITIONS = 8
# Rows that are divided together at first, and twice as many each time after that.
_FIRST_ROWS = 1024
# After so many seconds without a word from the instances it is looked whether one can come.
_LOOK_S = 1.0

LEAST_EACH = 24 * 2**20
"""Threads are used from so many bytes of memory each. With less, runs and blocks are so small that
two took longer than one: in 26 MB 1.2 times as long, in 6 MB twice (bench: spilling)."""


def parse_threads(threads: Any, *, has_keys: bool, promised: Promised | None = None) -> int:
    """How many threads a join is asked to run in. `has_keys`: some columns of it must be equal."""
    if threads is None:
        return 1
    is_count = isinstance(threads, int) and not isinstance(threads, bool)
    if not is_count or not 0 < threads <= _MOST_THREADS:
        raise InvalidArgument(
            f"threads={threads!r} is no number of threads.",
            remedy=f"Give a number from 1 to {_MOST_THREADS}, such as that of the processor's "
            "cores.",
        )
    if threads > 1 and not has_keys:
        raise InvalidArgument(
            f"threads={threads} divides rows by the keys that must be equal, and this join has "
            "none.",
            remedy="Give threads=1, or name columns that must be equal beside the band.",
        )
    if threads > 1 and promised is not None and promised.punctuations is not None:
        raise InvalidArgument(
            f"threads={threads} with punctuations={promised.punctuations!r}: what one thread will "
            "not find any more, another one may.",
            remedy="Give threads=1, or no punctuations.",
        )
    return int(threads)


def threads_within(limit: int, asked: int) -> int:
    """How many threads a join runs in that has so much memory and was asked to run in so many.

    >>> [threads_within(limit * 2**20, 4) for limit in (1, 47, 60, 256)]
    [1, 1, 2, 4]
    """
    return max(min(asked, limit // LEAST_EACH), 1)


class ThreadedDriver(Driver):
    """Divides what arrives among the instances of a join, and yields what they find.

    Nothing is divided while the caller asks for no rows, so the instances stop, too, when they have
    joined what was divided before or have found as much as may wait.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        question: Question | ManyQuestion | EnrichQuestion,
        *,
        threads: int,
        memory: MemoryAccount,
        **options: Any,
    ) -> None:
        self.threads = threads
        self._instances: Instances | None = None
        self._divided = InstanceShares(memory.limit, threads)
        super().__init__(sources, question, memory=memory, **options)
        self._turns = [_FIRST_ROWS] * len(self.sources)
        self._is_silent = False

    @property
    def instances(self) -> Instances:
        assert self._instances is not None
        return self._instances

    def _waiting_bytes(self) -> int:
        return self._divided.waiting

    def _close_operator(self) -> None:
        super()._close_operator()
        # An interrupt may come when threads run, and before the operator is known.
        if self._instances is not None:
            self._instances.close()

    def _make(self, schema: JoinSchema) -> JoinOperator:
        make = partial(self._make_instances, schema)
        return (
            make()
            if self.promised is None
            else self._make_promised(schema, self.promised, make=make)
        )

    def _make_instances(
        self, schema: JoinSchema, *, tuning: Tuning | None = None, **options: Any
    ) -> KeepsRows:
        name = self.question.algorithm
        if has_partitions(name):
            # As many in all as one operator would have: each is written and merged by itself.
            tuning = tuning or Tuning()
            each = max(tuning.partitions // self.threads, _FEWEST_PARTITIONS)
            tuning = replace(tuning, partitions=each)

        def instance(number: int, account: MemoryAccount) -> JoinOperator:
            spill = SpillArea(self.claim.area.path)
            return make_operator(
                name, schema, memory=account, spill=spill, tuning=tuning, **options
            )

        self._instances = Instances(
            schema,
            instance,
            divider=Divider(schema, self.threads),
            threads=self.threads,
            memory=self.memory,
            inbox=self._inbox,
        )
        self.instances.start()
        # It has all that this driver, and promises, ask of an operator: no state is saved here, and
        # no promise is passed on.
        return cast(KeepsRows, self.instances)

    def _run(self) -> Generator[pa.RecordBatch]:
        self._start()
        operator = self.operator = self._make(self.columns())
        while not all(self.complete):
            news = self._take(self._patience(), self.instances.accepts)
            if news is None:
                self._rest(operator)
            elif isinstance(news, Failed):
                yield from self._give_up(operator, news)
            elif isinstance(news, Found | Broke | Done):
                yield from self._heard(news)
            else:
                yield from self._heed(operator, news)
            del news  # Or its batch would stay in memory while the next one is taken.
        yield from self._everywhere([_nothing] * self.threads)
        yield from self._everywhere(self.instances.finishing())

    def _patience(self) -> float | None:
        """Seconds after which instances are told that nothing has come; None for never."""
        if not self.instances.accepts():
            return None
        return self.patience if self._is_silent else self.wait_threshold

    def _take(
        self, timeout: float | None, accepts: Callable[[], bool]
    ) -> News | Found | Broke | Done | None:
        while True:
            news = self._inbox.take_any(_LOOK_S if timeout is None else timeout, accepts)
            if news is not None or timeout is not None:
                return news
            if self.instances.is_stuck and not self._inbox.has_reports():
                raise AssertionError("The instances rest, and what they were told is not done.")

    def _rest(self, operator: JoinOperator) -> None:
        """Nothing has come for a while. That is a stall if it is not for want of room here."""
        if self.instances.accepts() and not self._inbox.has_news():
            self._is_silent = True
            self.stalls += 1
            operator.idle(self._inbox.has_news)

    def _heed(
        self, operator: JoinOperator, news: Arrived | Ended | Wanted | LaidDown
    ) -> Iterator[pa.RecordBatch]:
        self._is_silent = False
        if isinstance(news, Arrived):
            self._divide(operator, self._with_more(news))
        elif isinstance(news, Wanted):
            operator.lend(news.nbytes)
            yield from self._until_done()
            self._inbox.lend(news.nbytes)
        else:
            yield from super()._heed(operator, news)

    def _with_more(self, arrived: Arrived) -> list[Arrived]:
        """What else has come of the same input. It is divided together, since a call takes a while
        however few its rows; few at first, so that the first results come soon. Promises are about
        rows before and behind them, so with these each batch comes alone."""
        if self.promised is not None:
            return [arrived]
        input, rows = arrived.input, self._turns[arrived.input]
        self._turns[input] = min(2 * rows, self.threads * MAX_ROWS)
        if self._is_ahead(input):
            return [arrived]
        more = self._inbox.take_more(input, rows - len(arrived.batch), self._divided.turn)
        return [arrived, *more]

    def _is_ahead(self, input: int) -> bool:
        """Whether more rows of an input have been divided than of others whose rows wait.

        It is taken a batch at a time then. If of each input were taken what is there, one that was
        quicker for a moment would stay ahead for long, and to spill by rates of arrival gives up
        all rows of one side again and again then, in many small runs.
        """
        waiting = [
            read
            for other, read in enumerate(self.rows_read)
            if other != input and isinstance(self._inbox.first(other), Arrived)
        ]
        return self.rows_read[input] > min(waiting, default=self.rows_read[input])

    def _divide(self, operator: JoinOperator, arrived: list[Arrived]) -> None:
        input = arrived[0].input
        batches = end_to_end([each.batch for each in arrived if len(each.batch)])
        for batch in batches:
            self.rows_read[input] += len(batch)
            for _ in operator.push(input, batch):
                pass
        for each in arrived:
            self._inbox.joined(each)

    def _everywhere(self, orders: Sequence[Order]) -> Iterator[pa.RecordBatch]:
        """Have all instances do something, and yield what they find until they have done it."""
        self.instances.tell_and_report(orders)
        return self._until_done()

    def _until_done(self) -> Iterator[pa.RecordBatch]:
        while not isinstance(news := self._take(None, _never), Done):
            assert isinstance(news, Found | Broke), "only reports are accepted"
            yield from self._heard(news)

    def _heard(self, report: Found | Broke | Done) -> Iterator[pa.RecordBatch]:
        if isinstance(report, Broke):
            raise report.error
        assert isinstance(report, Found), "who waits for all to be done takes the report of it"
        self.instances.handed_over(report)
        while report.batches:
            batch = report.batches.pop(0)
            self.rows_out += len(batch)
            yield batch
            del batch
        self._leftovers.passed(report.nbytes)

    def _give_up(self, operator: JoinOperator, failed: Failed) -> Iterator[pa.RecordBatch]:
        while self._inbox.has_news():
            news = self._inbox.take(None)
            if news is not None and not isinstance(news, Failed):
                yield from self._heed(operator, news)
        for input, complete in enumerate(self.complete):
            if not complete:
                yield from self._everywhere([self._certainly(partial(_end, input))] * self.threads)
        orders = [self._certainly(order) for order in self.instances.finishing()]
        yield from self._everywhere(orders)
        raise self._failure(failed)

    def _certainly(self, order: Order) -> Order:
        return lambda operator: self._certain(order(operator))


def _never() -> bool:
    return False


def _nothing(operator: JoinOperator) -> Iterator[Matches]:
    return iter(())


def _end(input: int, operator: JoinOperator) -> Iterator[Matches]:
    return operator.end(input)
