"""Which rows of the segments that were saved are still in memory: two ways to know.

`operators/saved.py` writes the rows in memory to segments, each once. Later some of them leave
memory, and whoever restores the join has to know which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from watersmeet.model import Side
from watersmeet.operators.memory import PartitionedMemory
from watersmeet.rows.leaves import Mask
from watersmeet.store.runs import Piece

Bits = NDArray[np.uint8]
PutBits = Callable[[Bits], Any]
GetBits = Callable[[Any], Bits]


class Leaving(Protocol):
    """Knows which rows of the saved segments are still in memory."""

    def written(self, input: int, rows: int) -> None:
        """A segment was written that has the last `rows` rows of the table."""
        ...

    def forgotten(self, input: int) -> None:
        """All segments of an input were given up."""
        ...

    def save(self, put: PutBits) -> dict[str, Any]:
        """What to remember, as JSON values; `put` writes bits to a file and says how to find it."""
        ...

    def load(self, saved: dict[str, Any], get: GetBits) -> None: ...

    def here(self, input: int, piece: Piece) -> Mask:
        """Which of the next rows of the segments, read from the first on, are in memory."""
        ...


class Departures(Protocol):
    """What `OldestFirst` asks a workspace."""

    @property
    def memory(self) -> PartitionedMemory: ...

    def oldest(self) -> NDArray[np.int64]:
        """By [side, partition], the stamp of the oldest row in memory; all newer ones are there."""
        ...

    def pinned(self) -> list[int]:
        """For each side, the stamp below which rows are in memory as well, although newer rows have
        been spilled; 0 if there are no such rows."""
        ...

    def was_dropped(self, side: Side, piece: Piece) -> Mask | None:
        """Which of these rows, read from a segment, have been dropped from memory or may be,
        although older rows of their partition are still there; None if there are none."""
        ...


class OldestFirst:
    """For rows that leave memory oldest first in each partition, but for those that are pinned.

    A row that was written to a segment is in memory still exactly if its stamp is not below that of
    its partition's oldest row, or is below that of the pinned ones. Rows that the mechanism has
    dropped before older ones left are left out, too.
    """

    def __init__(self, workspace: Departures) -> None:
        self._workspace = workspace
        self._oldest = np.empty((2, 0), np.int64)
        self._pinned = [0, 0]

    def written(self, input: int, rows: int) -> None:
        pass

    def forgotten(self, input: int) -> None:
        pass

    def save(self, put: PutBits) -> dict[str, Any]:
        oldest, pinned = self._workspace.oldest().tolist(), self._workspace.pinned()
        return {"oldest": oldest, "pinned": pinned}

    def load(self, saved: dict[str, Any], get: GetBits) -> None:
        self._oldest = np.array(saved["oldest"], np.int64)
        self._pinned = saved["pinned"]

    def here(self, input: int, piece: Piece) -> Mask:
        partitions = self._workspace.memory.partition_of(piece.codes)
        here: Mask = piece.ats >= self._oldest[input][partitions]
        here |= piece.ats < self._pinned[input]
        gone = self._workspace.was_dropped(Side(input), piece)
        return here if gone is None else here & ~gone


class AnyOrder:
    """For rows that leave memory in any order: a bit for each row of the segments.

    The rows that are saved are the first ones of their table, in the same order. So when rows are
    dropped by a mask, its beginning says which of the saved rows go.
    """

    def __init__(self, inputs: int) -> None:
        self._alive = [np.empty(0, np.bool_) for _ in range(inputs)]
        self._read = [0] * inputs

    def dropped(self, input: int, keep: Mask) -> None:
        """Rows of a table were dropped that are not kept."""
        alive = np.flatnonzero(self._alive[input])
        self._alive[input][alive[~keep[: len(alive)]]] = False

    def written(self, input: int, rows: int) -> None:
        self._alive[input] = np.append(self._alive[input], np.ones(rows, np.bool_))

    def forgotten(self, input: int) -> None:
        self._alive[input] = np.empty(0, np.bool_)

    def save(self, put: PutBits) -> dict[str, Any]:
        return {
            "rows": [len(alive) for alive in self._alive],
            "alive": [put(np.packbits(alive)) if len(alive) else None for alive in self._alive],
        }

    def load(self, saved: dict[str, Any], get: GetBits) -> None:
        for input in range(len(self._alive)):
            rows, bits = saved["rows"][input], saved["alive"][input]
            self._alive[input] = (
                np.empty(0, np.bool_)
                if bits is None
                else np.unpackbits(get(bits), count=rows).astype(np.bool_)
            )
        self._read = [0] * len(self._alive)

    def here(self, input: int, piece: Piece) -> Mask:
        start = self._read[input]
        self._read[input] += len(piece)
        return self._alive[input][start : self._read[input]]
