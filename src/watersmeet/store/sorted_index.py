"""An index that finds rows by ranges of codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from watersmeet.kernels import sorting
from watersmeet.rows.address import Index
from watersmeet.rows.values import Mask
from watersmeet.store.arena import Arena
from watersmeet.store.index import Codes, PairBuffer

# A level is merged with the one before it unless that is at least this many times as large. A
# larger ratio makes fewer levels, which are searched faster, by more merging.
_RATIO = 2


Classes = Callable[[Codes], int]
"""Says of which classes codes are, a bit for each: where to look for them may depend on that."""


def any_class(codes: Codes) -> int:
    """For codes of which nothing is known: they may be of each class."""
    return 2**64 - 1


class SortedIndex:
    """Rows 0 .. len-1 in levels, each sorted by code, the oldest and largest first.

    A batch that is added becomes a level, and levels of about one size are merged, as in a
    log-structured merge tree: there are about log2(rows / batch) of them.
    """

    BYTES = 12
    """Bytes of a row in the index: its code and its number."""

    def __init__(self, capacity: int, classes: Classes = any_class) -> None:
        self._code_arena = Arena(capacity, np.uint64)
        self._row_arena = Arena(capacity, np.int32)
        self._codes, self._rows = self._code_arena.array, self._row_arena.array
        self._ends: list[int] = []
        self._classes = classes
        self.present = 0
        """The classes of all codes that are here."""

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @property
    def spare_bytes(self) -> int:
        """Bytes that it takes beyond `BYTES` a row."""
        return 0

    @property
    def levels(self) -> list[slice]:
        return [slice(*ends) for ends in zip([0, *self._ends], self._ends, strict=False)]

    def add(self, codes: Codes) -> None:
        """Add rows, which are numbered on from the last one."""
        self.add_in_order(*sorting.sort(codes))

    def add_in_order(self, codes: Codes, order: NDArray[np.int32]) -> None:
        """Add rows whose codes are in order; `order` says where each of them was before."""
        start = len(self)
        stop = start + len(codes)
        if stop == start:
            return
        self._codes[start:stop] = codes
        np.add(order, start, out=self._rows[start:stop], casting="unsafe")
        self._ends.append(stop)
        self.present |= self._classes(codes)
        while len(self._ends) > 1 and self._is_due():
            self._merge_last()

    def find(
        self, wanted: Codes, pairs: PairBuffer, floor: int = 0, *, until: Codes | None = None
    ) -> Iterator[tuple[Index, Index]]:
        """Pairs of a row and an i such that the row's code lies from wanted[i] to until[i]; no more
        at a time than fit `pairs`. Without `until`, rows whose code is wanted[i].

        Rows numbered below `floor` are left out. `wanted` and `until` may be in any order; if they
        rise together, each level is read once from its beginning to its end.
        """
        until = wanted if until is None else until
        order = None
        if (wanted[1:] < wanted[:-1]).any():
            wanted, order = sorting.sort(wanted)
            until = until[order]
        for level in self.levels:
            asking, low, resume = 0, level.start, -1
            while asking < len(wanted):
                found, asking, low, resume = sorting.probe(
                    self._codes, self._rows, level.start, level.stop, wanted, until, floor,
                    asking, low, resume, pairs.first, pairs.second,
                )  # fmt: skip
                if found:
                    asked = pairs.second[:found]
                    yield (
                        pairs.first[:found],
                        asked if order is None else order[asked].astype(np.int64),
                    )

    def drop(self, keep: Mask) -> None:
        """Drop the rows that are not kept; the others are numbered anew without gaps."""
        numbers = np.cumsum(keep, dtype=np.int32) - 1
        numbers[~keep] = -1
        to, ends = 0, list[int]()
        for level in self.levels:
            to = sorting.renumber(self._codes, self._rows, level.start, level.stop, to, numbers)
            if to > (ends[-1] if ends else 0):
                ends.append(to)
        self._ends = ends
        self.present = self._classes(self._codes[:to]) if to else 0
        self._code_arena.release(to)
        self._row_arena.release(to)
        while len(self._ends) > 1 and self._is_due():
            self._merge_last()

    def in_order(self) -> tuple[Codes, NDArray[np.int32]]:
        """All codes in ascending order, and the rows that have them, until rows are added."""
        while len(self._ends) > 1:
            self._merge_last()
        return self._codes[: len(self)], self._rows[: len(self)]

    def _is_due(self) -> bool:
        before, last = np.diff([0, *self._ends])[-2:].tolist()
        return bool(before < _RATIO * last)

    def _merge_last(self) -> None:
        before, last = self.levels[-2:]
        count = last.stop - last.start
        sorting.merge(
            self._codes, self._rows, before.start, before.stop, last.stop,
            np.empty(count, np.uint64), np.empty(count, np.int32),
        )  # fmt: skip
        del self._ends[-2]
