"""Finds candidates for rows along an edge, in an index over rows of its other end."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from watersmeet.model import Side
from watersmeet.rows.address import Index
from watersmeet.rows.edges import Edge
from watersmeet.store.index import Codes, PairBuffer
from watersmeet.store.sorted_index import SortedIndex


def find(
    index: SortedIndex, edge: Edge, end: Side, codes: Codes, pairs: PairBuffer
) -> Iterator[tuple[Index, Index]]:
    """Pairs of a row in the index and an i such that codes[i], a code of this end, can reach it;
    no more at a time than fit `pairs`."""
    waiting: list[tuple[Index, Index]] = []
    count, most = 0, len(pairs)
    for first, last in edge.reaches(end, codes, index.present):
        for pair in index.find(first, pairs, until=last):
            # Copied: the buffer is used again before these are yielded.
            found, asked = (each.copy() for each in pair)
            if count + len(found) > most:
                yield _end_to_end(waiting)
                waiting, count = [], 0
            waiting.append((found, asked))
            count += len(found)
    if waiting:
        yield _end_to_end(waiting)


def _end_to_end(pairs: list[tuple[Index, Index]]) -> tuple[Index, Index]:
    if len(pairs) == 1:
        return pairs[0]
    found, asked = zip(*pairs, strict=True)
    return np.concatenate(found), np.concatenate(asked)
