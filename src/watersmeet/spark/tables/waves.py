"""How many rows of a table are read in each wave, and by which task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# With a fraction f of both sides read, about f*f of the result is known. A first wave of a 40th
# takes little longer than starting Spark's jobs; each later one reads six times as many rows, so
# that there are few waves. Of n tables it is f to the power of n: the first wave reads more of
# them, so that it has a 1,600th of the result of two tables, and a 7,000th of any more.
FIRST_SHARE = 1 / 40
GROWTH = 6.0
_MANY = 2.4
LAST_SHARE = 0.28
"""The last wave is smaller than six times the one before: most results come with the last rows."""
# If both tables are read in the order of their keys, a fraction f of them has f of the result, and
# half of it comes when half is read.
_LAST_IN_ORDER = 0.44
# If no rows of a wave have partners in another, nothing is kept for the next, and half of the rows
# come when half of the work has been done: with the end of the third wave, or a moment later.
_SHARES_CLOSED = (FIRST_SHARE, 7 * FIRST_SHARE, 0.51, 1.0)
LARGEST_CLOSED = 0.5
"""About the largest wave's share of all rows, if waves are closed."""
_SHARES_REBUILT = (0.05, 0.4, 1.0)
WHOLE = [1.0]
# Four waves are eight jobs, which take most of a second even without rows. Two tasks join tables of
# this many bytes together in about a second as one wave, so several waves would only be slower.
SMALL_BYTES = 32 * 2**20
# A wave takes about a fifth of a second more than its rows do. Two tasks join tables of so many
# bytes together in three seconds, and the second of four waves has a 30th of the result: left out,
# 5 M rows a side take a tenth less processor time.
MEDIUM_BYTES = 512 * 2**20
_MOST_OF_MEDIUM = 3


def shares(
    *,
    rebuilt: bool = False,
    inputs: int = 2,
    in_order: bool = False,
    closed: bool = False,
    medium: bool = False,
) -> list[float]:
    """The fraction of each table that has been read after each wave; the last is 1.

    If operators are `rebuilt` for every wave, all rows of the waves before are read again, so there
    are fewer waves. `in_order`: rows of both tables are read in the order of their keys; `closed`:
    and every wave has keys of its own; `medium`: tables are so small that a wave fewer is felt.

    >>> [round(share, 2) for share in shares()]
    [0.03, 0.18, 0.72, 1.0]
    >>> [round(share, 2) for share in shares(medium=True)]
    [0.03, 0.72, 1.0]
    >>> [round(share, 2) for share in shares(in_order=True)]
    [0.03, 0.18, 0.56, 1.0]
    >>> [round(share, 2) for share in shares(inputs=4)]
    [0.11, 0.72, 1.0]
    """
    ends = _ends(rebuilt=rebuilt, inputs=inputs, in_order=in_order, closed=closed)
    if medium and len(ends) > _MOST_OF_MEDIUM:
        del ends[1]
    return ends


def _ends(*, rebuilt: bool, inputs: int, in_order: bool, closed: bool) -> list[float]:
    """Where waves end in tables of any size."""
    if closed:
        return list(_SHARES_CLOSED)
    if rebuilt:
        return [share ** (2 / inputs) for share in _SHARES_REBUILT]
    last = _LAST_IN_ORDER if in_order else LAST_SHARE
    ends: list[float] = []
    end, step = 0.0, FIRST_SHARE if inputs == 2 else FIRST_SHARE ** (_MANY / inputs)
    while end + step < 1 - last:
        end += step
        ends.append(end)
        step *= GROWTH
    return [*ends, 1 - last, 1.0]


@dataclass(frozen=True)
class Piece:
    """Rows [start, stop) of the source's `number`-th part (a row group, say)."""

    number: int
    start: int
    stop: int

    @property
    def rows(self) -> int:
        return self.stop - self.start


def cut(parts: Sequence[int], ends: Sequence[float], *, order: Sequence[int]) -> list[list[Piece]]:
    """The pieces of each wave; `parts` are the rows of each row group, which are read in `order`.

    A part is cut only where a wave ends: to read its second half, the first half has to be
    decoded again and skipped.

    >>> cut([10, 10], [0.25, 1.0], order=[1, 0])
    [[Piece(number=1, start=0, stop=5)], [Piece(number=1, start=5, stop=10), \
Piece(number=0, start=0, stop=10)]]
    """
    total = sum(parts)
    waves: list[list[Piece]] = []
    remaining: Iterator[tuple[int, int]] = ((number, parts[number]) for number in order)
    number, start, stop = -1, 0, 0
    read = 0
    for end in ends:
        wanted = round(total * end)
        wave: list[Piece] = []
        while read < wanted:
            if start == stop:
                number, stop = next(remaining)
                start = 0
                continue
            taken = min(stop - start, wanted - read)
            wave.append(Piece(number, start, start + taken))
            start += taken
            read += taken
        waves.append(wave)
    return waves


def shared_out(pieces: Sequence[Piece], *, among: int) -> list[list[Piece]]:
    """The pieces divided among at most `among` tasks, with about as many rows for each.

    >>> [[piece.rows for piece in heap] for heap in shared_out(
    ...     [Piece(0, 0, 9), Piece(1, 0, 4), Piece(2, 0, 6)], among=2)]
    [[9], [6, 4]]
    """
    heaps: list[list[Piece]] = [[] for _ in range(min(among, len(pieces)))]
    loads = [0] * len(heaps)
    for piece in sorted(pieces, key=lambda piece: (-piece.rows, piece.number)):
        lightest = loads.index(min(loads))
        heaps[lightest].append(piece)
        loads[lightest] += piece.rows
    return heaps
