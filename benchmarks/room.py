"""How much memory a join needs to hold a share of its input."""

from __future__ import annotations

from benchmarks.cases import MB, Input
from benchmarks.inputs import LEFT, RIGHT, schema
from watersmeet.store.shares import MemoryShares
from watersmeet.store.table import row_bytes


def room_for(share: float, given: Input) -> int:
    """The smallest cap, in whole megabytes, in which that share of all rows fits in memory.

    The papers count memory in rows. A row in memory carries its hash, chain link, stamp and
    buckets, and a cap has parts for waiting input and for work, so this is more than the same
    share of the input's bytes in Arrow.
    """
    texts = (12 if given.key == "string" else 0) + given.text_bytes
    each = [row_bytes(schema(given, side)) + texts for side in (LEFT, RIGHT)]
    needed = share * given.rows * sum(each)
    cap = MB
    while MemoryShares.split(cap).store < needed:
        cap += MB
    return cap
