"""A join in this process, as an iterator of its result."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from watersmeet.errors import InvalidArgument, MemoryTooSmall, RunClosed
from watersmeet.expressions.condition import SqlCondition
from watersmeet.local.driver import Driver
from watersmeet.local.explain import explain
from watersmeet.local.promised import Promised
from watersmeet.local.sources import Source, open_source
from watersmeet.local.threaded import ThreadedDriver, parse_threads, threads_within
from watersmeet.operators.many import ManyQuestion
from watersmeet.operators.metrics import Metrics
from watersmeet.operators.question import Question
from watersmeet.promises.kinds import PromiseOfValues
from watersmeet.rows.condition import ConditionLike
from watersmeet.rows.on import On
from watersmeet.store.account import MemoryAccount
from watersmeet.store.claim import SpillClaim
from watersmeet.store.shares import MemoryShares


def join(
    left: Any,
    right: Any,
    on: On,
    how: str = "inner",
    *,
    algorithm: str = "auto",
    memory: int | str = "256MB",
    wait_threshold: float = 0.025,
    spill_dir: str | Path | None = None,
    condition: ConditionLike | str | None = None,
    suffixes: tuple[str, str] = ("", "_right"),
    promises: Sequence[PromiseOfValues] = (),
    on_broken: str = "fail",
    quarantine_dir: str | Path | None = None,
    purge: str | int = "output_rate",
    punctuations: str | None = None,
    threads: int | None = None,
) -> LocalJoin:
    """Join two inputs while they are still arriving.

    Rows of the result come as soon as both partners have come. What does not fit in `memory` is
    spilled and joined while the inputs stall, or at the end. The result is exact.

    Parameters
    ----------
    left, right
        An iterator of `pyarrow.RecordBatch`; a Table, RecordBatchReader or Dataset of pyarrow;
        anything with an Arrow stream (a pandas or Polars frame, a DuckDB relation); or the path
        of a Parquet, Arrow or CSV file, of a directory of them, or a list of paths.
    on
        The column that must be equal, or a list of them; {"id": "user_id"} where the two sides
        call it differently.
    how
        inner, left, right, full, semi or anti.
    algorithm
        shj, xjoin, hmj, pmj, rpj, rpj-md, rpj-dd, ...; auto is rpj, the one that keeps in memory
        what is likeliest to be asked for and uses every stall. Or one of the joins that complete
        rectangles, for estimates: pr-join, ripple, hash-ripple, sms, dbo, grace.
    memory
        The most this join may hold, such as "256MB": rows, indexes and waiting input.
    wait_threshold
        Seconds of silence on all open inputs after which spilled rows are joined.
    spill_dir
        An existing directory for what does not fit; the system's temporary one by default.
    condition
        What a pair must also meet: SQL text or a `pyarrow.compute` expression over the columns of
        the result, or a function of a batch of them.
    suffixes
        What is appended to a name that both sides have, left and right.
    promises
        What the inputs will not send any more: `wm.unique`, `wm.clustered`, `wm.ordered`,
        `wm.punctuated`, `wm.watermark`. Rows that can be part of no result any more are dropped.
    on_broken
        What becomes of rows that break a promise: "fail" raises, "drop" leaves them out and counts
        them, "quarantine" writes them as Parquet files to `quarantine_dir`.
    quarantine_dir
        An existing directory, for on_broken="quarantine".
    purge
        When rows that may go are looked for: "memory" after each promise, "output_rate" after a
        hundred, or after as many as you say; and whenever memory is full or the inputs stall.
    punctuations
        The name of one more column of the result. It is true for marker rows, which say what the
        result will not have any more, for a next join: `LocalJoin.pattern` is what
        `wm.punctuated(..., pattern=)` is to be given there.
    threads
        How many threads join, each the rows of its part of the keys, all within `memory`; one if
        None, and fewer than you say if `memory` has less than 24 MB for each. A `condition` that is
        a function is then called by several threads at a time.

    Examples
    --------
    >>> import pyarrow as pa
    >>> orders = pa.table({"id": [1, 2, 3], "item": ["pen", "cup", "hat"]})
    >>> prices = pa.table({"item": ["cup", "pen"], "price": [4.0, 1.5]})
    >>> join(orders, prices, "item").read_all().sort_by("id").to_pylist()
    [{'item': 'pen', 'id': 1, 'price': 1.5}, {'item': 'cup', 'id': 2, 'price': 4.0}]
    """
    promised = Promised.parse(
        promises,
        on_broken=on_broken,
        quarantine_dir=quarantine_dir,
        purge=purge,
        punctuations=punctuations,
    )
    question = Question.parse(
        on,
        how,
        algorithm=algorithm if promised is None else promised.algorithm(on, algorithm),
        condition=SqlCondition(condition) if isinstance(condition, str) else condition,
        suffixes=suffixes,
    )
    return opened(
        question,
        {"left": left, "right": right},
        memory=memory,
        wait_threshold=wait_threshold,
        spill_dir=spill_dir,
        promised=promised,
        threads=threads,
    )


def opened(
    question: Question | ManyQuestion,
    inputs: Mapping[str, Any],
    *,
    memory: int | str,
    wait_threshold: float,
    spill_dir: str | Path | None,
    promised: Promised | None = None,
    threads: int | None = None,
) -> LocalJoin:
    """A run of a question over inputs with these names."""
    limit, shares = MemoryShares.parse(memory)
    asked = parse_threads(threads, has_keys=question.has_keys, promised=promised)
    count = threads_within(limit, asked)
    patience = seconds_of(wait_threshold)
    # Small enough that an input's share holds several batches, or readers would wait for the join.
    batch_bytes = shares.input // (4 * len(inputs))
    sources = [
        open_source(each, word=name, batch_bytes=batch_bytes) for name, each in inputs.items()
    ]
    for source in sources:
        check_stored(source, limit)
    schema = question.check(*(source.schema for source in sources))
    if promised is not None:
        promised.check(question.algorithm, schema)
    driver = (Driver if count == 1 else partial(ThreadedDriver, threads=count))(
        sources,
        question,
        schema=schema,
        memory=MemoryAccount(limit),
        claim=SpillClaim(spill_dir),
        wait_threshold=patience,
        promised=promised,
        asked=asked,
    )
    return LocalJoin(driver)


class LocalJoin:
    """A running join: iterate over it, read it whole, or ask for its metrics.

    It stops reading soon after the last request for rows. Its threads end and its files are removed
    at the end of the result, by `close`, at the end of a `with` block, after an exception, or when
    there is no more reference to it.

    Rows come once. After its last row it yields no more, as any iterator. If it was closed, or has
    failed, it raises RunClosed, because no rows would look like a result.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._closed: str | None = None
        """Why the join cannot be asked for rows any more; None while it can."""
        # The driver has no reference to this object, so this is called once the caller has none.
        self._abandoned = weakref.finalize(self, driver.close)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> pa.RecordBatch:
        self._check_open()
        with self._ending():
            batch = self._driver.advance()
        if batch is None:
            self._check_open()  # Another thread may have closed it meanwhile.
            self._release()
            raise StopIteration
        return batch

    def __repr__(self) -> str:
        question, driver = self._driver.question, self._driver
        read = " and ".join(f"{rows:,} {name}" for name, rows in driver.read())
        state = "is closed" if self._closed == _CLOSED else self._closed
        return (
            f"<{type(self).__name__}: {question.how} join by {question.algorithm}, "
            f"{read} rows read, {driver.rows_out:,} results"
            f"{f'; {state}' if state else ''}>"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def schema(self) -> pa.Schema:
        """Columns of the result. Waits for the first batch of an input that has no schema."""
        if self._driver.schema is None:
            self._check_open()
        with self._ending():
            return self._driver.output()

    @property
    def pattern(self) -> dict[str, Any] | None:
        """What marker rows of the result say of its columns, for `wm.punctuated` of a next join;
        None if it has none. Waits for the first batch of an input that has no schema."""
        if self._driver.schema is None:
            self._check_open()
        with self._ending():
            marked = self._driver.marked()
        return None if marked is None else marked.pattern

    @property
    def metrics(self) -> Metrics:
        """Rows in and out by stage, memory, spills and what the algorithm has learnt so far."""
        return self._driver.metrics

    def explain(self) -> str:
        """What runs and why, where it spills, and the latest decisions, for a person to read."""
        return explain(self._driver)

    def read_all(self) -> pa.Table:
        """The rest of the result as one table; one without rows if all have been taken."""
        batches = list(self)
        return pa.Table.from_batches(batches, schema=self._driver.output())

    def close(self) -> None:
        """Stop the join, even if rows are still to come. May be called more than once."""
        self._closed = self._closed or _CLOSED
        self._release()

    def _release(self) -> None:
        self._driver.close()
        self._abandoned.detach()

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """After an error in here the join raises RunClosed, instead of yielding no more rows."""
        try:
            yield
        except BaseException as error:
            self._closed = self._closed or f"has failed ({type(error).__name__})"
            raise

    def _check_open(self) -> None:
        if self._closed is not None:
            raise RunClosed(
                f"This run {self._closed}, and has no more rows to give.",
                remedy="Call it again, and read inside its `with` block.",
            )


_CLOSED = "was closed"


def check_stored(source: Source, limit: int) -> None:
    """Refuse a file with compressed batches larger than memory: they are decompressed whole."""
    if source.first_bytes is not None and source.first_bytes > limit:
        raise MemoryTooSmall(
            f"{source.name} has compressed batches of up to {source.first_bytes:,} bytes, which "
            f"can only be read whole; the join has {limit:,} bytes in all.",
            remedy=f'Give it at least memory="{-(-source.first_bytes // 2**20)}MB", or write the '
            "file with smaller batches, or as Parquet.",
        )


def seconds_of(wait_threshold: float) -> float:
    is_number = isinstance(wait_threshold, int | float) and not isinstance(wait_threshold, bool)
    if not is_number or not math.isfinite(wait_threshold) or wait_threshold < 0:
        raise InvalidArgument(
            f"wait_threshold={wait_threshold!r} is no length of time.",
            remedy="Give seconds, zero or more, such as 0.025.",
        )
    return float(wait_threshold)
