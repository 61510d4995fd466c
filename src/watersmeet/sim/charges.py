"""How many virtual seconds work takes on the disk and the processor of 2005.

The operators spill real rows to a real disk and report each block. Its time is computed here with
the RPJ paper's page of 1024 bytes and row of 10 bytes: from its number of rows, and not from the
bytes that this implementation happens to write.
"""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.store.spill import Io, IoKind


@dataclass(frozen=True)
class Disk:
    """Seconds for spilled pages, by the paper's two formulas (section 5.3).

    A run that is scanned costs one random access and is sequential from there:
    `x c_ran + (y - x) c_seq`. A merge jumps between runs with one page of buffer for each, so
    every page it reads or writes is a random access: `2 c_ran (y1 + y2)` per pass. A flush is one
    random access and then sequential: the store writes its runs behind each other, and the paper
    says of the cost per result only that it falls with the number of results (section 6.1).

    Defaults: 8 ms is seek plus half a turn of a 7200 rpm drive of the paper's time. One
    sequential page is 1024 bytes at such a drive's 50 MB/s (0.02 ms) plus a request.
    """

    random: float = 0.008
    sequential: float = 0.0001
    page_rows: int = 102

    def pages(self, io: Io) -> float:
        """Pages of a block, which need not be whole; but the first block of a run has at least one.

        So the time for a run does not depend on the size of the blocks it is stored in.
        """
        pages = io.rows / self.page_rows
        return max(pages, 1.0) if io.first and io.rows else pages

    def seconds(self, io: Io) -> float:
        pages = self.pages(io)
        if io.kind in (IoKind.MERGE_READ, IoKind.MERGE_WRITE):
            return pages * self.random
        jumps = min(pages, 1.0) if io.first else 0.0
        return jumps * self.random + (pages - jumps) * self.sequential


@dataclass(frozen=True)
class Processor:
    """Seconds for work in memory, on a 2.4 GHz processor.

    An arrival is received, hashed, probed and inserted: 10 microseconds are 24,000 cycles, with
    the work of the network stack. A candidate is one comparison of two rows and their stamps; a
    result is a row built and handed on; sorting, binary search and merging take about a dozen
    comparisons for each spilled row.
    """

    arrival: float = 10e-6
    candidate: float = 0.1e-6
    result: float = 1e-6
    spilled_row: float = 1e-6
