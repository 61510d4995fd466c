"""The news and the accesses of MJoin's running example (section 2 and 6.1), as two streams.

The ten latest news items are live, and every access is to one of them, any as likely as any other.
When a new item appears, the oldest one rolls out, and the access stream has a punctuation: no more
accesses to that item. Items are numbered from 0 on in the order in which they roll out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

LIVE = 10
"""Items in the window."""
ACCESSES = 10
"""Accesses between two punctuations, on average; the paper's example has 12 and 9."""
_EARLY_OR_LATE = 4
# Accesses by which a punctuation is early or late. Both streams are of the same period, so the
# numbers of accesses do not add up to more and more than the news.
DISPLACED = 100
"""In random order a news item comes at most so many places early or late."""

NEWS = pa.schema({"sno": pa.int64(), "title": pa.string(), "keyword": pa.string()})
ACCESS = pa.schema({"sno": pa.int64(), "ipaddr": pa.string()})

_KEYWORDS = pa.array(["Smart Card", "Election", "Weather", "Football", "Markets", "Space"])
_ADDRESSES = 2**14

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class NewsStreams:
    """Both streams. `news` are the serial numbers of NewsGeneral in the order in which they come,
    `accesses` those of AccessRecord. Punctuation v, "no more accesses to item v", comes after the
    first `ends[v]` accesses."""

    news: Numbers
    accesses: Numbers
    ends: Numbers

    @classmethod
    def make(cls, accesses: int, *, displaced: int | None, seed: int) -> NewsStreams:
        """Streams with about so many accesses. `displaced`: 0 for news in the order of their
        numbers, the most places by which an item is displaced, or None: in any order."""
        random = np.random.default_rng(seed)
        gone = np.arange(max(1, accesses // ACCESSES))
        shift = random.integers(-_EARLY_OR_LATE, _EARLY_OR_LATE + 1, len(gone))
        ends = ACCESSES * (gone + 1) + shift
        oldest = np.repeat(gone, np.diff(ends, prepend=0))
        items = np.arange(len(gone) + LIVE - 1)
        if displaced is None:
            news = random.permutation(items)
        else:
            # Two items swap their order only if they are less than `displaced` apart.
            news = items[np.argsort(items + random.uniform(0, displaced, len(items)))]
        return cls(news, oldest + random.integers(0, LIVE, len(oldest)), ends)

    def tables(self, seed: int) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """All rows of both streams with their columns, as in the paper's figures 2 and 3."""
        random = np.random.default_rng(seed)
        snos = pa.array(self.news)
        title = pc.binary_join_element_wise("News item", pc.cast(snos, pa.string()), " ")
        keyword = _KEYWORDS.take(pa.array(random.integers(0, len(_KEYWORDS), len(snos))))
        parts = random.integers(1, 255, (4, _ADDRESSES))
        addresses = pc.binary_join_element_wise(
            *(pc.cast(pa.array(part), pa.string()) for part in parts), "."
        )
        ipaddr = addresses.take(pa.array(random.integers(0, _ADDRESSES, len(self.accesses))))
        return (
            pa.record_batch([snos, title, keyword], schema=NEWS),
            pa.record_batch([pa.array(self.accesses), ipaddr], schema=ACCESS),
        )

    def punctuations(self, start: int, stop: int) -> Numbers:
        """The items whose punctuation comes with the accesses from `start` to before `stop`: after
        the first of them and not after the last of those before."""
        first, last = np.searchsorted(self.ends, [start, stop], side="right")
        return np.arange(first, last)
