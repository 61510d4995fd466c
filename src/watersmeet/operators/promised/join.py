"""A join whose sources promise, in values, what they will not send any more (MJoin).

The promise keeper (watersmeet/promises) takes each batch first: it splits off marker rows and rows
that break a promise, and says which codes are promised now. Those are told to the join after the
rows of their batch, since no promise is about rows that came before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from watersmeet.errors import InvalidArgument, StateError
from watersmeet.model import Side
from watersmeet.operators.base import JoinOperator, Manifest, StateArea
from watersmeet.operators.metrics import Metrics
from watersmeet.operators.tuning import Tuning
from watersmeet.promises.keeper import Broken, PromiseKeeper
from watersmeet.promises.kinds import PromiseOfValues, Unique
from watersmeet.promises.passing import Passed, Passing, nothing_kept
from watersmeet.promises.telling import has_unique_keys
from watersmeet.promises.watched import Watched
from watersmeet.rows.address import Matches
from watersmeet.rows.promises import Promise, Ranges
from watersmeet.rows.schema import JoinSchema

# Runs are merged, and those on disk are looked at, after so many batches: a runtime whose inputs
# never stall has no other time for it.
_TIDY_AFTER = 64
# Batch purging "after every 100 punctuations" (MJoin, section 6.2).
_BATCH = 100
_GOALS = {"memory": 1, "output_rate": _BATCH}

SetAside = Callable[[Broken], None]


class KeepsRows(JoinOperator, Protocol):
    """A join that can tell which rows it keeps."""

    @property
    def times_purged(self) -> tuple[int, int]:
        """How often rows that may go were looked for, in memory and on disk."""
        ...

    def kept_codes(self, side: Side, number: int, among: Ranges, *, read: bool) -> Ranges:
        """Ranges that have all codes, of those `among`, that rows have which are kept of a side. If
        `read` is false, what is on disk may be taken for more than it is."""
        ...


class PromisedJoin:
    """Another join, which is told the promises of its sources.

    Each result comes exactly once, because it does so in the other join, which gets each row once
    and no promise before the rows that it is not about.
    """

    def __init__(
        self,
        inner: KeepsRows,
        keeper: PromiseKeeper,
        *,
        set_aside: SetAside | None = None,
        passing: Passing | None = None,
    ) -> None:
        """`set_aside` is given the rows that broke a promise; `passing` finds what can be passed
        on."""
        self.inner = inner
        self.passing = passing
        self.keeper = keeper
        self.broken: Counter[str] = Counter()
        """How many rows broke which promise."""
        self.promises_heard = 0
        self._set_aside = set_aside
        self._untidy = 0
        self._looked = (-1, -1)
        """`times_purged` when it was last looked for promises that can be passed on."""
        self._is_finished = False

    @property
    def metrics(self) -> Metrics:
        return self.inner.metrics

    @property
    def limit(self) -> int:
        return self.inner.limit

    def push(self, input: int, batch: pa.RecordBatch) -> Iterator[Matches]:
        heard = self.keeper.take(Side(input), batch)
        if heard.broken is not None:
            self.broken.update(heard.broken.counts())
            self.metrics.broken_promises += len(heard.broken.rows)
            if self._set_aside is not None:
                self._set_aside(heard.broken)
        if len(heard.rows):
            yield from self.inner.push(input, heard.rows)
        for side, promise in heard.promises:
            yield from self.punctuate(side, promise)
        self._untidy += 1
        if self._untidy >= _TIDY_AFTER:
            yield from self.tidy()

    def punctuate(self, input: int, promise: Promise) -> Iterator[Matches]:
        self.promises_heard += 1
        if self.passing is not None:
            self.passing.hear(Side(input), promise)
        return self.inner.punctuate(input, promise)

    def idle(self, pause: Callable[[], bool]) -> Iterator[Matches]:
        return self.inner.idle(pause)

    def settle(self, pause: Callable[[], bool] = lambda: False) -> Iterator[Matches]:
        return self.inner.settle(pause)

    def end(self, input: int) -> Iterator[Matches]:
        return self.inner.end(input)

    def finish(self) -> Iterator[Matches]:
        yield from self.inner.finish()
        self._is_finished = True

    def pass_on(self) -> list[Passed]:
        """Which promises may be passed on, after all results so far: to be called between other
        calls, before `save`. It costs next to nothing unless rows that may go were looked for."""
        passing, purged = self.passing, self.inner.times_purged
        if passing is None or not passing.waits:
            return []
        if self._is_finished:
            return passing.look(nothing_kept)
        if purged == self._looked:
            return []
        read = purged[1] != self._looked[1]
        self._looked = purged
        return passing.look(partial(self.inner.kept_codes, read=read))

    def resize(self, limit: int) -> Iterator[Matches]:
        return self.inner.resize(limit)

    def lend(self, nbytes: int) -> Iterator[Matches]:
        return self.inner.lend(nbytes)

    def tidy(self) -> Iterator[Matches]:
        self._untidy = 0
        return self.inner.tidy()

    def owed(self) -> list[int]:
        return self.inner.owed()

    def save(self, area: StateArea) -> Manifest:
        promised = {
            "keeper": self.keeper.save(),
            "broken": dict(self.broken),
            "heard": self.promises_heard,
        }
        if self.passing is not None:
            promised["passing"] = self.passing.save()
        return self.inner.save(area) | {"promised": promised}

    def load(self, area: StateArea, manifest: Manifest) -> None:
        saved = manifest["promised"]
        self.keeper.load(saved["keeper"])
        self.inner.load(area, manifest)
        self.broken = Counter(saved["broken"])
        self.promises_heard = saved["heard"]
        if self.passing is not None:
            if "passing" not in saved:
                raise StateError(
                    "The state was saved by a join that passes no punctuations on.",
                    remedy="Go on without `punctuations`, or begin with a new state.",
                )
            self.passing.load(saved["passing"])

    def close(self) -> None:
        self.inner.close()


def made_with(
    schema: JoinSchema,
    promises: Sequence[PromiseOfValues],
    *,
    watched: Watched,
    purge: str | int,
    tuning: Tuning | None,
) -> dict[str, Any]:
    """What a join that lets rows go by these promises is made with: arguments of
    `make_operator`."""
    return {
        "tuning": replace(tuning or Tuning(), purge_after=purged_after(purge)),
        "watched": watched.predicates,
        "one_partner": sides_with_one_partner(schema, promises),
    }


def sides_with_one_partner(
    schema: JoinSchema, promises: Sequence[PromiseOfValues]
) -> tuple[Side, ...]:
    """The sides whose rows have one partner at most, because keys of the other side are unique."""
    unique = [promise for promise in promises if isinstance(promise, Unique)]
    return tuple(sorted({each.side.other for each in unique if has_unique_keys(schema, each)}))


def purged_after(purge: str | int) -> int:
    """After how many promises rows in memory are looked through, for what the user calls `purge`.

    >>> purged_after("memory"), purged_after("output_rate"), purged_after(20)
    (1, 100, 20)
    """
    if isinstance(purge, str) and purge in _GOALS:
        return _GOALS[purge]
    if isinstance(purge, int) and not isinstance(purge, bool) and purge > 0:
        return purge
    raise InvalidArgument(
        f"purge={purge!r} does not say when to purge.",
        remedy='Give "memory", "output_rate", or after how many promises.',
    )
