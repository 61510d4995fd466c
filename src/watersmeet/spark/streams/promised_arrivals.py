"""What a micro-batch brings to a join of streams with promises, and when these take effect.

Inside one micro-batch order means nothing, so what its rows promise takes effect after all of them:

* A marker row waits until all rows of its batch have been pushed. It has come to every instance
  that it concerns, so each applies it in the same batch.
* How far times, orders and clusters have come is known when all instances have seen their rows. So
  each notes in its version what its own rows say, and the next batch begins with what the versions
  of all instances say together. A version never changes, so every instance, and every attempt at
  the batch, finds the same there.

A row is checked against what was promised by the batches before its own.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from watersmeet.model import Side
from watersmeet.operators.base import JoinOperator
from watersmeet.operators.progressive.join import ProgressiveJoin
from watersmeet.promises.heard import Broken
from watersmeet.promises.marked import MarkedOutput
from watersmeet.rows.address import Matches
from watersmeet.rows.on import name_of
from watersmeet.rows.promises import Promise
from watersmeet.spark.microbatches.gaps import missing
from watersmeet.spark.microbatches.quarantine import Quarantine
from watersmeet.spark.microbatches.state import InstanceState, Manifest, StateDirectory
from watersmeet.spark.streams.arrivals import StreamArrivals
from watersmeet.spark.streams.batch_promises import BatchPromises
from watersmeet.spark.streams.passed_on import PassedOn
from watersmeet.store.leftovers import Leftovers
from watersmeet.store.spill import SpillArea


class PromisedArrivals(StreamArrivals):
    """One batch of streams whose sources promise something."""

    def __init__(
        self,
        promises: BatchPromises,
        *,
        state: StateDirectory,
        instances: int,
        area: SpillArea,
        quarantine: Quarantine | None,
        marked: MarkedOutput | None = None,
        **streams: Any,
    ) -> None:
        """`streams` are the arguments of `StreamArrivals`."""
        super().__init__(**streams)
        self._promises = promises
        self._area = area
        self._quarantine = quarantine
        self._aside: str | None = None
        self._broken: Counter[str] = Counter()
        self._before = 0, 0
        """Rows that had been dropped before this batch, from the state and as they came."""
        self._markers: list[tuple[int, pa.RecordBatch]] = []
        """Marker rows, with the numbers of their promises."""
        self._told: list[tuple[Side, Promise]] = []
        """Promises that are to be applied."""
        before: Manifest | None = streams["before"]
        self._passed_on: PassedOn | None = None
        if marked is not None:
            self._passed_on = PassedOn(
                marked,
                self._join,
                instance=self._task.instance,
                instances=instances,
                before=None if before is None else before["passed_on"],
            )
        if before is not None:
            promises.load(before["promises"])
            versions = self._versions(before, state, instances)
            self._tell(promises.hear([version["said"] for version in versions]))
            if self._passed_on is not None:
                self._passed_on.gather([version["passed_on"]["noted"] for version in versions])

    def _versions(self, before: Manifest, state: StateDirectory, instances: int) -> list[Manifest]:
        """The version of each instance after the batch before; this one's is known."""
        versions = []
        for number in range(instances):
            if number == self._task.instance:
                versions.append(before)
                continue
            instance = state.instance(number)
            version = instance.read(self._task.batch - 1)
            if version is None:
                raise missing(self._task, instance)
            versions.append(version)
        return versions

    def feed(
        self, operator: JoinOperator, batches: Iterator[pa.RecordBatch], leftovers: Leftovers
    ) -> Iterator[Matches]:
        metrics = operator.metrics
        self._before = metrics.rows_purged, metrics.dropped_on_arrival
        if self._passed_on is not None:
            assert isinstance(operator, ProgressiveJoin)
            self._passed_on.begin(operator)
        yield from self._apply(operator)
        yield from super().feed(operator, batches, leftovers)

    def _tell(self, promises: Iterable[tuple[Side, Promise]]) -> None:
        self._told += promises

    def _apply(self, operator: JoinOperator) -> Iterator[Matches]:
        told, self._told = self._told, []
        for side, promise in told:
            if self._passed_on is not None:
                self._passed_on.hear(side, promise)
            yield from operator.punctuate(side, promise)

    def _kept(self, input: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that break no promise."""
        checked = self._promises.check(Side(input), rows)
        if checked.broken is not None:
            self._put_aside(checked.broken)
        return checked.rows

    def _put_aside(self, broken: Broken) -> None:
        side = name_of(broken.side)
        self._broken.update({f"{side}: {words}": n for words, n in broken.counts().items()})
        if self._quarantine is not None:
            words = [broken.words[cause] for cause in broken.causes.tolist()]
            self._quarantine.append(int(broken.side), broken.rows, words, area=self._area)

    def _hear(self, batch: pa.RecordBatch, kinds: NDArray[np.int32]) -> None:
        super()._hear(batch, kinds)
        self._note_markers(batch, kinds)

    def _note_markers(self, batch: pa.RecordBatch, kinds: NDArray[np.int32]) -> None:
        for number, input in enumerate(self._wire.markers):
            mine = kinds == self._wire.tags.marker(number)
            if mine.any():
                rows = batch.filter(pa.array(mine))
                rows = self._wire.unload(input, rows, self._join.inputs[input])
                self._markers.append((number, rows))

    def _after_rows(self, operator: JoinOperator) -> Iterator[Matches]:
        for number, rows in self._markers:
            self._tell(self._promises.mark(number, rows))
        self._tell(self._promises.seen())
        yield from self._apply(operator)
        yield from super()._after_rows(operator)

    def markers(self, operator: JoinOperator) -> pa.RecordBatch | None:
        if self._passed_on is None:
            return None
        assert isinstance(operator, ProgressiveJoin)
        return self._passed_on.rows(operator, finished=self.finished)

    # ---- what the version says ------------------------------------------------------------------

    def describe(self, operator: JoinOperator) -> Manifest:
        aside = {} if self._aside is None else {"quarantine": self._aside}
        assert isinstance(operator, ProgressiveJoin)
        # The next batch has something to do: it applies what was said, or lets rows go.
        due = self._promises.is_news or operator.purging.waits
        passed_on: Manifest = {}
        if self._passed_on is not None:
            passed_on = {"passed_on": self._passed_on.describe()}
            due = due or self._passed_on.is_news
        return super().describe(operator) | {
            "said": self._promises.said(),
            "promises": self._promises.save(),
            "wakes": time.time() if due and not self.finished else None,
            **aside,
            **passed_on,
        }

    def put_files(self, state: InstanceState) -> list[str]:
        self._aside = None if self._quarantine is None else self._quarantine.finish(state)
        return [] if self._aside is None else [self._aside]

    def record(self, operator: JoinOperator) -> dict[str, Any]:
        """How many rows broke each promise, how many went, and how many are kept."""
        assert isinstance(operator, ProgressiveJoin)
        purged, on_arrival = self._before
        counted = {
            "broken": dict(self._broken),
            "purged": operator.metrics.rows_purged - purged,
            "dropped_on_arrival": operator.metrics.dropped_on_arrival - on_arrival,
            "rows_kept": operator.rows_kept,
        }
        return {"promises": counted}
