"""The counters of several instances of one join, added up."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import merge
from operator import attrgetter
from typing import Any

import numpy as np

from watersmeet.operators.metrics import Metrics
from watersmeet.store.account import MemoryAccount

_NOT_ADDED = ("flushes", "statistics", "results", "memory_used", "memory_peak")
_OF_INPUTS = ("rows_in", "null_keys")


class SummedMetrics:
    """Metrics of a join that consists of instances, which go on counting.

    What is added to a counter of the sum from outside stays.
    """

    def __init__(
        self, parts: Sequence[Metrics], memory: MemoryAccount, *, copies: Sequence[int]
    ) -> None:
        """Rows of an input are in so many instances each as `copies` says; they count once."""
        self._parts = parts
        self._memory = memory
        self._copies = np.array(copies)
        self._sum = type(parts[0]).of(len(parts[0].rows_in))
        self._sum.statistics = self.statistics
        self._last = 0

    def now(self) -> Metrics:
        """The counters as they are now; always the same object."""
        total = self._sum
        from_outside = total.broken_promises - self._last
        for name in vars(total):
            if name not in _NOT_ADDED:
                values = [getattr(part, name) for part in self._parts]
                together = (np.max if name in total.ALIKE else np.sum)(values, axis=0)
                if name in _OF_INPUTS:
                    together = together // self._copies
                setattr(total, name, together.tolist())
        self._last = total.broken_promises
        total.broken_promises += from_outside
        for stage in total.results:
            total.results[stage] = sum(part.results[stage] for part in self._parts)
        total.memory_used, total.memory_peak = self._memory.used, self._memory.peak
        total.flushes.clear()
        total.flushes.extend(merge(*(list(part.flushes) for part in self._parts), key=_STAMP))
        return total

    def statistics(self) -> dict[str, Any]:
        """What each instance has learnt, in a list for each name."""
        learnt = [part.statistics() for part in self._parts]
        return {name: [each[name] for each in learnt] for name in learnt[0]}


_STAMP = attrgetter("stamp")
