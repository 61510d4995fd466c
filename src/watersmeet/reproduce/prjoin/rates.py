"""Early result rates, as Table 2 counts them: all pages cost the same, on whichever device."""

from __future__ import annotations

import numpy as np

from watersmeet.reproduce.prjoin.ledger import Ledger
from watersmeet.reproduce.prjoin.runs import Run


def unit(run: Run) -> float:
    """c, in results per row of I/O: |A||B|M / ((|A| + |B|)^2 F), times a selectivity of 1/|B|."""
    return run.parameters.memory_rows / 4 / run.parameters.rows


def symmetric(run: Run) -> float:
    """The rate while all rows fit in memory."""
    last = _overflow(run.ledger) - 1
    return float(run.ledger.results[last] / np.sum(run.ledger.input[: last + 1]) / unit(run))


def after_overflow(run: Run) -> float:
    """The rate from the first spill to the end of the input."""
    ledger = run.ledger
    some = slice(_overflow(ledger), ledger.input_end + 1)
    found = ledger.results[ledger.input_end] - ledger.results[some.start - 1]
    cost = np.sum(ledger.input[some] + ledger.written[some] + ledger.read[some])
    return float(found / cost / unit(run))


def ripple(run: Run, step: int) -> float:
    """The rate of Block Ripple's iteration `step`, with all I/O since the one before."""
    ledger = run.ledger
    ends = np.flatnonzero(ledger.generation == step)
    begins = np.flatnonzero(ledger.generation == step - 1) if step > 1 else [_overflow(ledger) - 1]
    some = slice(int(begins[-1]) + 1, int(ends[0]) + 1)
    found = ledger.results[ends[0]] - ledger.results[begins[-1]]
    cost = np.sum(ledger.input[some] + ledger.written[some] + ledger.read[some])
    return float(found / cost / unit(run))


def pr_join(run: Run, step: int) -> float | None:
    """The rate of the `step`-th joins of all partitions; None if none came before the input's end.

    A join step reads and spills the partition's new rows, and reads its runs (section 4.4).
    """
    ledger = run.ledger
    found = np.diff(ledger.results, prepend=0)
    early = np.arange(len(found)) <= ledger.input_end
    chosen = early & (ledger.generation == step)
    if not chosen.any():
        return None
    cost = np.sum(2 * ledger.grown[chosen] + ledger.read[chosen])
    return float(np.sum(found[chosen]) / cost / unit(run))


def _overflow(ledger: Ledger) -> int:
    """The first step that spilled."""
    return int(np.flatnonzero(ledger.written)[0])
