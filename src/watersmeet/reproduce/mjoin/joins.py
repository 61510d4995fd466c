"""The join of news and accesses, with what is known about the streams (MJoin) or without (XJoin).

It is a one-to-many join with punctuations (1-NP, MJoin 5.3): serial numbers are unique among the
news, so an access goes when it has met its item; and the access stream says when it has no more
accesses to an item, so the item goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from watersmeet.model import Side
from watersmeet.operators.family import make_operator
from watersmeet.operators.tuning import Costs, Tuning
from watersmeet.promises.kinds import punctuated, unique
from watersmeet.promises.watched import Watched
from watersmeet.reproduce.mjoin.settings import Variant
from watersmeet.reproduce.mjoin.streams import ACCESS, NEWS, Numbers
from watersmeet.rows.address import Matches
from watersmeet.rows.promises import Promise
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea

_PROMISES = (unique("left", "sno"), punctuated("right", "is_punctuation", {"sno": "equal"}))

# As often as joins with promises are tidied elsewhere (operators/promised/join.py).
_TIDY_AFTER = 64

_SERIAL_NUMBERS = pa.schema([ACCESS.field("sno")])

# Given, because measuring a disk takes longer than many turns do.
_TUNING = Tuning(costs=Costs(random=0.01, sequential=0.001))


class NewsJoin:
    """The operator, its promises, and a count of what comes out."""

    def __init__(self, variant: Variant, directory: Path) -> None:
        self.results = 0
        self.sum = 0
        """Of the serial numbers of the results."""
        self._schema = schema = JoinSchema.resolve(NEWS, ACCESS, "sno", "inner")
        self._variant = variant
        # Serial numbers are watched in their order, so that promises about them merge.
        self._watched = Watched.of(schema, _PROMISES if variant.promises else ())
        self._join = make_operator(
            "xjoin",
            schema,
            memory=MemoryAccount(variant.memory),
            spill=SpillArea(directory),
            tuning=_TUNING,
            watched=self._watched.predicates,
            # An access goes when it has met its item: serial numbers are unique among the news.
            one_partner=[Side.RIGHT] if variant.promises else [],
        )
        self._unpurged: list[Numbers] = []
        self._untidy = 0

    def push(self, side: Side, rows: pa.RecordBatch) -> None:
        self._take(self._join.push(side, rows))
        self._untidy += self._variant.promises
        if self._untidy == _TIDY_AFTER:
            self._untidy = 0
            self._take(self._join.tidy())

    def punctuate(self, items: Numbers) -> None:
        """No more accesses to these items come: purge at once, or when there are enough."""
        if not self._variant.promises:
            return
        every = self._variant.purge_every
        self._unpurged.append(items)
        if every == 1:
            groups = np.split(items, len(items))
        elif sum(map(len, self._unpurged)) >= every:
            alone = len(self._unpurged) == 1
            groups = [items if alone else np.concatenate(self._unpurged)]
        else:
            return
        self._unpurged.clear()
        for group in groups:
            rows = pa.RecordBatch.from_arrays([pa.array(group)], schema=_SERIAL_NUMBERS)
            self._promise(Side.RIGHT, rows)

    def _promise(self, side: Side, rows: pa.RecordBatch) -> None:
        """No more rows come that have the serial numbers of these, which are in column 0."""
        (codes,) = self._watched.codes(side, rows)
        self._take(self._join.punctuate(side, Promise.of_codes(1, codes)))

    def finish(self) -> None:
        for side in Side:
            self._take(self._join.end(side))
        self._take(self._join.finish())

    def close(self) -> None:
        self._join.close()

    @property
    def state(self) -> tuple[int, int, int]:
        """Rows and bytes in memory, and the most bytes so far."""
        metrics = self._join.metrics
        rows = int(metrics.statistics()["rows_in_memory"].sum())
        return rows, metrics.memory_used, metrics.memory_peak

    @property
    def stored(self) -> int:
        """Rows that were stored so far: those that are there, and those that were purged."""
        metrics = self._join.metrics
        here = int(metrics.statistics()["rows_in_memory"].sum()) + metrics.rows_spilled
        return here + metrics.rows_purged

    def _take(self, found: Iterator[Matches]) -> None:
        for matches in found:
            batch = self._schema.materialise(matches)
            self.results += len(batch)
            self.sum += int(batch.column("sno").to_numpy().sum())
