"""`wm.local.enrich`: a stream meets a master table that does not fit in memory."""

from __future__ import annotations

import time
from collections.abc import Hashable
from functools import partial
from pathlib import Path
from typing import Any

from watersmeet.expressions.condition import SqlCondition
from watersmeet.local.enriching import EnrichDriver, ThreadedEnrichDriver
from watersmeet.local.explain_enrich import explain
from watersmeet.local.masters import MasterInput, master_input, patiently
from watersmeet.local.plan_enrich import EnrichPlan
from watersmeet.local.run import LocalJoin, check_stored, seconds_of
from watersmeet.local.sources import Source, open_source
from watersmeet.local.threaded import parse_threads, threads_within
from watersmeet.operators.enriching import EnrichQuestion
from watersmeet.operators.semistream.metrics import SemiStreamMetrics
from watersmeet.rows.condition import ConditionLike
from watersmeet.rows.on import On
from watersmeet.rows.spans import parse_seconds
from watersmeet.store.account import MemoryAccount
from watersmeet.store.claim import SpillClaim
from watersmeet.store.shares import MemoryShares


def enrich(
    stream: Any,
    master: Any,
    on: On,
    how: str = "inner",
    *,
    memory: int | str = "256MB",
    algorithm: str = "auto",
    refresh: float | str | None = None,
    deadline: float | str | None = None,
    version_column: str | None = None,
    condition: ConditionLike | str | None = None,
    suffixes: tuple[str, str] = ("", "_right"),
    spill_dir: str | Path | None = None,
    wait_threshold: float = 0.0,
    threads: int | None = None,
) -> LocalEnrich:
    """Join a stream with a large table that changes slowly, the master, within a memory limit.

    The master is written once to the spill directory, in order of its keys. A row of the stream
    waits until a scan has passed its key there, or is answered at once if its key is in the cache,
    which holds what is asked for often. The result is exact: every row of the stream meets all of
    one version of the master.

    Parameters
    ----------
    stream
        As in `wm.local.join`.
    master
        As in `wm.local.join`; or a function that returns such a table, or a query of
        `wm.postgres`.
    on, condition, suffixes, spill_dir
        As in `wm.local.join`. Keys are equal; bands are not for masters.
    how
        inner, left, semi or anti.
    memory
        The most this join may hold, such as "256MB": waiting rows, cached rows and work. More
        memory makes it faster, and with memory for the whole master it is a hash join.
    algorithm
        auto, which reads those blocks of the master that somebody waits for; ssbj, cmeshjoin and
        meshjoin, which read all of it again and again, as published.
    refresh
        Seconds, or text such as "10 seconds", after which the master is looked at again: a path is
        read again if a name, a size or a time of change is another one; a function is called and a
        query asked anew. Rows that wait get their answer from the version that they began with.
    deadline
        How long a row without a partner waits for newer versions; None: not at all. The end of the
        stream ends the waiting, too.
    version_column
        The name of a further column of the result, which says when the version of the master that
        a row met was read.
    wait_threshold
        Seconds of silence on the stream after which the scan goes on; 0: whenever nothing has come.
    threads
        How many threads join, all within `memory`; one if None, and fewer with less than 24 MB for
        each. Each has a part of the keys, and reads the part of the master that has them.

    Examples
    --------
    >>> import pyarrow as pa
    >>> clicks = pa.table({"item": ["cup", "pen", "cup"], "user": [1, 2, 3]})
    >>> items = pa.table({"item": ["cup", "pen"], "price": [4.0, 1.5]})
    >>> enrich(clicks, items, "item").read_all().sort_by("user").column("price").to_pylist()
    [4.0, 1.5, 4.0]
    """
    question = EnrichQuestion.parse(
        on,
        how,
        algorithm=algorithm,
        condition=SqlCondition(condition) if isinstance(condition, str) else condition,
        suffixes=suffixes,
        version_column=version_column,
        deadline=deadline,
    )
    every = None if refresh is None else parse_seconds(refresh, name="refresh")
    limit, shares = MemoryShares.parse(memory)
    asked = parse_threads(threads, has_keys=True)
    patience = seconds_of(wait_threshold)
    batch_bytes = shares.input // 4
    source = open_source(stream, word="stream", batch_bytes=batch_bytes)
    check_stored(source, limit)
    kept = master_input(master, batch_bytes=batch_bytes, refreshed=every is not None)
    first, seen = patiently(kept, lambda: _opened(kept), time.sleep)
    check_stored(first, limit)
    count = threads_within(limit, asked)
    make = EnrichDriver if count == 1 else partial(ThreadedEnrichDriver, threads=count)
    driver = make(
        [source, first],
        question,
        schema=question.check(source.schema, first.schema),
        memory=MemoryAccount(limit),
        claim=SpillClaim(spill_dir),
        wait_threshold=patience,
        asked=asked,
    )
    driver.keep(kept, seen, refresh=every)
    return LocalEnrich(driver)


def _opened(master: MasterInput) -> tuple[Source, Hashable | None]:
    """The master as it is now, and what it looked like before."""
    seen = master.look()
    source = master.open()
    assert source is not None, "only a later version is None"
    return source, seen


class LocalEnrich(LocalJoin):
    """A running enrichment: iterate over it, read it whole, or ask for its metrics.

    All that `LocalJoin` says of threads, files and rows that come once is true here, too.
    """

    _driver: EnrichDriver

    @property
    def metrics(self) -> SemiStreamMetrics:
        """Rows in and out, memory, what the cache holds and has served, blocks that were read."""
        return self._driver.metrics

    def explain(self, plan: EnrichPlan | None = None) -> str:
        """What the cache holds and serves, and what was read of the master. With a plan, which
        `wm.plan_enrich` made before, also what was expected beside what came."""
        return explain(self._driver, plan)
