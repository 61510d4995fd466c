"""The loop of a local join: it calls the operator when batches arrive, stall or end."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from watersmeet.errors import MalformedInput, SourceFailed, WatersmeetError, one_line
from watersmeet.local.aside import Aside
from watersmeet.local.inbox import Closed, Inbox
from watersmeet.local.news import Arrived, Ended, Failed, LaidDown, Wanted
from watersmeet.local.promised import Promised
from watersmeet.local.reader import Reader
from watersmeet.local.sources import Source, no_columns
from watersmeet.model import Side
from watersmeet.operators.base import JoinOperator
from watersmeet.operators.enriching import EnrichQuestion
from watersmeet.operators.family import has_partitions, make_operator, make_promised
from watersmeet.operators.many import ManyQuestion
from watersmeet.operators.metrics import Metrics
from watersmeet.operators.promised.join import KeepsRows, PromisedJoin
from watersmeet.operators.question import Question
from watersmeet.operators.stage import Stage
from watersmeet.operators.tuning import Tuning
from watersmeet.promises.marked import MarkedOutput
from watersmeet.rows.address import Matches
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.claim import SpillClaim
from watersmeet.store.leftovers import Leftovers
from watersmeet.store.shares import MemoryShares

# Below so many bytes of memory there are half as many partitions, and runs are twice as long: what
# a run costs, however few its rows, took a tenth of the time of a join in 6 MB (bench: spilling).
_LITTLE_MEMORY = 16 * 2**20


class Driver:
    """Calls an operator in the caller's thread, and yields its results.

        push    while any input has batches waiting, the inputs in turn
        idle    when every open input has been silent for `wait_threshold` seconds
        end     when an input is complete; finish when all are

    While the caller asks for no rows, only the readers work, until their share of memory is full.
    After `close` no thread, file or memory of the join is left, but for a reader whose source does
    not return.
    """

    threads = 1
    """How many threads join."""

    def __init__(
        self,
        sources: Sequence[Source],
        question: Question | ManyQuestion | EnrichQuestion,
        *,
        schema: JoinSchema | None,
        memory: MemoryAccount,
        claim: SpillClaim,
        wait_threshold: float,
        promised: Promised | None = None,
        asked: int = 1,
    ) -> None:
        """`asked` is how many threads the join was asked to run in."""
        self.asked = asked
        self.sources = sources
        self.promised = promised
        self.question = question
        self.memory = memory
        self.shares = MemoryShares.split(memory.limit)
        self.claim = claim
        self.wait_threshold = wait_threshold
        self.patience: float | None = None
        """Seconds of silence after which an idle operator is called again; None: never."""
        self.operator: JoinOperator | None = None
        self.schema = schema
        self._marked: MarkedOutput | None = None
        self.markers_out = 0
        self.rows_read = [0] * len(sources)
        self.rows_out = 0
        self.stalls = 0
        self.complete = [False] * len(sources)
        arriving = self._arriving()
        self._inbox = Inbox(
            memory,
            share=self._waiting_bytes() // len(arriving),
            put_aside=Aside(claim.area.path),
            expected=[source.first_bytes for source in arriving],
            announcing=len(sources) - len(arriving),
        )
        for input, source in enumerate(arriving):
            if source.schema is not None:
                self._inbox.show_columns(input, source.schema)
        self._readers = [
            Reader(source, input, self._inbox, memory=memory.limit)
            for input, source in enumerate(arriving)
        ]
        self._leftovers = Leftovers(memory.limit)
        self._started = False
        self._results = self._run()
        self._driving = threading.RLock()

    @property
    def metrics(self) -> Metrics:
        if self.operator is None:
            return Metrics.of(len(self.sources))
        return self.operator.metrics

    @property
    def names(self) -> Sequence[str]:
        """What the inputs are called: left and right, or the names of relations."""
        return self.question.names

    def read(self) -> list[tuple[str, int]]:
        """The name of each input, and how many of its rows have been read."""
        return list(zip(self.names, self.rows_read, strict=True))

    def columns(self) -> JoinSchema:
        """Wait until the columns of all inputs are known, and check the join against them."""
        if self.schema is None:
            self._start()
            try:
                self._inbox.wait_until(self._columns_are_known)
                columns = [self._columns_of(input) for input in range(len(self.sources))]
                self.schema = self.question.resolve(*columns)
            except BaseException:
                self.close()
                raise
        return self.schema

    def marked(self) -> MarkedOutput | None:
        """The result with its marker rows, as soon as the columns of the inputs are known; None if
        it has none."""
        if self._marked is None and self.promised is not None:
            self._marked = self.promised.marked(self.columns())
        return self._marked

    def output(self) -> pa.Schema:
        """The columns of the result."""
        marked = self.marked()
        return self.columns().output if marked is None else marked.schema

    def advance(self) -> pa.RecordBatch | None:
        """The next rows of the result; None when there are no more or the join was closed."""
        with self._driving:
            try:
                return next(self._results, None)
            except Closed:
                return None
            except BaseException:
                self.close()
                raise

    def _arriving(self) -> Sequence[Source]:
        """The sources that readers read: the first ones, or all."""
        return self.sources

    def _waiting_bytes(self) -> int:
        """Bytes of batches that may wait to be pushed."""
        return self.shares.input

    def _make(self, schema: JoinSchema) -> JoinOperator:
        """The operator, as soon as it can be made."""
        if self.promised is not None:
            return self._make_promised(schema, self.promised)
        return make_operator(
            self.question.algorithm,
            schema,
            memory=self.memory,
            spill=self.claim.area,
            tuning=self._tuning(),
        )

    def _tuning(self) -> Tuning:
        tuning = Tuning()
        if self.memory.limit >= _LITTLE_MEMORY or not has_partitions(self.question.algorithm):
            return tuning
        return replace(tuning, partitions=tuning.partitions // 2)

    def _make_promised(
        self,
        schema: JoinSchema,
        promised: Promised,
        *,
        make: Callable[..., KeepsRows] | None = None,
    ) -> JoinOperator:
        """The operator that keeps promises; `make` makes the one it tells them to."""
        marked = self.marked()
        return make_promised(
            self.question.algorithm,
            schema,
            promised.promises,
            memory=self.memory,
            spill=self.claim.area,
            on_broken=promised.on_broken,
            purge=promised.purge,
            set_aside=promised.quarantine,
            tuning=self._tuning(),
            passed_on=() if marked is None else marked.subjects,
            make=make,
        )

    def _run(self) -> Generator[pa.RecordBatch]:
        self._start()
        operator = self.operator = self._make(self.columns())
        while not all(self.complete):
            news = self._inbox.take(self.wait_threshold)
            if news is None:
                self.stalls += 1
                yield from self._emit(operator.idle(self._inbox.has_news))
                yield from self._pass_on(operator)
                # Either there is news, or the operator has nothing left to do and can only wait.
                news = self._inbox.take(self.patience)
            if isinstance(news, Failed):
                yield from self._give_up(operator, news)
            elif news is not None:
                yield from self._heed(operator, news)
                yield from self._pass_on(operator)
            del news  # Or its batch would stay in memory while the next one is taken.
        yield from self._emit(operator.lend(0))
        yield from self._emit(operator.finish())
        yield from self._pass_on(operator)

    def close(self) -> None:
        self._inbox.close()  # Wakes a thread that waits there, so that it releases the lock below.
        with self._driving, contextlib.ExitStack() as stack:
            # Called last in, first out: the files are removed even if something before fails.
            stack.callback(self.claim.close)
            stack.callback(self._close_operator)
            if self._started:
                for reader in self._readers:
                    stack.callback(reader.stop)
            stack.callback(self._leave)

    def _close_operator(self) -> None:
        if self.operator is not None:
            self.operator.close()

    def _leave(self) -> None:
        # A generator cannot be closed while it runs, as when an interrupt comes from inside of it.
        with contextlib.suppress(ValueError):
            self._results.close()

    def _start(self) -> None:
        if not self._started:
            self._started = True
            for reader in self._readers:
                reader.start()

    def _heed(
        self, operator: JoinOperator, news: Arrived | Ended | Wanted | LaidDown
    ) -> Iterator[pa.RecordBatch]:
        if isinstance(news, Arrived):
            self.rows_read[news.input] += len(news.batch)
            if len(news.batch):
                yield from self._emit(operator.push(news.input, news.batch))
            self._inbox.joined(news)
        elif isinstance(news, Wanted):
            yield from self._emit(operator.lend(news.nbytes))
            self._inbox.lend(news.nbytes)
        else:
            assert isinstance(news, Ended), "only an enrichment has a master table"
            self.complete[news.input] = True
            yield from self._emit(operator.end(news.input))

    def _emit(self, found: Iterator[Matches]) -> Iterator[pa.RecordBatch]:
        assert self.schema is not None
        for matches in found:
            if len(matches):
                batch = self.schema.materialise(matches)
                self.rows_out += len(batch)
                if self._marked is not None:
                    batch = self._marked.rows(batch)
                nbytes = batch.nbytes
                yield batch
                del batch
                self._leftovers.passed(nbytes)

    def _pass_on(self, operator: JoinOperator) -> Iterator[pa.RecordBatch]:
        """Marker rows, after all rows of the result that they follow."""
        if self._marked is not None and isinstance(operator, PromisedJoin):
            markers = self._marked.markers(operator.pass_on())
            if markers is not None:
                self.markers_out += len(markers)
                yield markers

    def _give_up(self, operator: JoinOperator, failed: Failed) -> Iterator[pa.RecordBatch]:
        """Deliver all results of the rows that have arrived, then raise the source's error."""
        while self._inbox.has_news():
            news = self._inbox.take(None)
            if news is not None and not isinstance(news, Failed):
                yield from self._heed(operator, news)
        for input, complete in enumerate(self.complete):
            if not complete:
                yield from self._emit(self._certain(operator.end(input)))
        yield from self._emit(self._certain(operator.finish()))
        raise self._failure(failed)

    def _certain(self, found: Iterator[Matches]) -> Iterator[Matches]:
        """Leave out unmatched rows whose partner may be among the rows that did not come."""
        for matches in found:
            if matches.stage is not Stage.UNMATCHED:
                yield matches
                continue
            lone = Side.LEFT if matches.right is None else Side.RIGHT
            if self.complete[lone.other]:
                yield matches

    def _failure(self, failed: Failed) -> BaseException:
        if isinstance(failed.error, WatersmeetError) and not isinstance(
            failed.error, MalformedInput
        ):
            return failed.error
        arrived = [f"{rows:,} {name}" for name, rows in self.read()]
        failure = SourceFailed(
            f"{self.sources[failed.input].name} failed with {type(failed.error).__name__}: "
            f"{one_line(failed.error)}. By then {' and '.join(arrived)} rows had "
            f"arrived and {self.rows_out:,} result rows were delivered; those are right but not "
            "all.",
            remedy="Mend the source and run the join again.",
            side=self.names[failed.input],
            rows_read=tuple(self.rows_read),
            rows_out=self.rows_out,
        )
        failure.__cause__ = failed.error
        return failure

    def _columns_are_known(self) -> bool:
        first = [self._inbox.first(input) for input in range(len(self.sources))]
        if any(isinstance(news, Failed) for news in first):
            return True
        return all(
            self._columns_from(input) or isinstance(news, Ended) for input, news in enumerate(first)
        )

    def _columns_from(self, input: int) -> pa.Schema | None:
        declared = self.sources[input].schema
        return self._inbox.columns(input) if declared is None else declared

    def _columns_of(self, input: int) -> pa.Schema:
        source, columns = self.sources[input], self._columns_from(input)
        first = [self._inbox.first(each) for each in range(len(self.sources))]
        failed = [news for news in first if isinstance(news, Failed)]
        if failed:
            raise self._failure(failed[0])
        if columns is not None:
            return columns
        raise no_columns(source.name)
