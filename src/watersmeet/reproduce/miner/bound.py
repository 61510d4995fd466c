"""How many results the arriving phase can find at all, whatever rows it keeps.

Rows arrive in random order, so a row in memory with value v meets each arrival of the other
relation with the probability of v, whatever has happened before. After n arrivals of either
relation about n times that probability of them have value v. So no choice of rows, made without
knowing the future, finds more in the mean than one that keeps the most frequent values, as many of
their rows as have arrived and fit memory.
"""

from __future__ import annotations

import numpy as np

from watersmeet.reproduce.miner.settings import SKEW, Workload
from watersmeet.sim.delays import zipf_probabilities

_INSTANTS = 500


def most_online(workload: Workload) -> float:
    """The largest share of the result that any choice of rows finds online. The rows of R1 and R4
    take no memory here: they do, so this is more than can be reached."""
    return _of_pairs(workload, workload.memory_rows)


def most_in_equal_parts(workload: Workload) -> float:
    """The same if every input has as many rows in memory, but for inputs that have fewer.

    MINER flushes rows of the input that has most of them, so this is how its memory is divided.
    """
    keys = min(workload.keys, workload.memory_rows // workload.inputs)
    return most_with_keys(workload, keys)


def most_in_best_parts(workload: Workload) -> float:
    """The same for the best number of rows of R1 and of R4."""
    if workload.inputs == 2:
        return most_online(workload)
    most = min(workload.keys, workload.memory_rows // workload.inputs)
    tried = np.unique(np.linspace(0, most, 40).astype(int))
    return max(most_with_keys(workload, int(keys)) for keys in tried)


def most_with_keys(workload: Workload, keys: int) -> float:
    """The same with so many rows of R1, and of R4, in memory: those of the most frequent keys.

    A row of R2 that arrives finds no result if its partner in R1 is not there. Those few results
    that are complete when a row of R1 or R4 arrives are counted as if it had come before.
    """
    more = workload.inputs - 2
    met = float(zipf_probabilities(workload.keys, SKEW)[:keys].sum())
    # Of the arrivals that look for a partner in R2 or R3: of R2, of R3, or of both.
    looking = (more * met + (2 - more)) / 2
    return looking * _of_pairs(workload, workload.memory_rows - more * keys)


def _of_pairs(workload: Workload, memory_rows: int) -> float:
    """The share of the results of R2 and R3 that are found if memory has these rows of them."""
    chance = zipf_probabilities(workload.keys, SKEW)
    rows = np.concatenate(([0.0], np.cumsum(chance)))
    pairs = np.concatenate(([0.0], np.cumsum(chance**2)))
    both = 2 * (np.arange(_INSTANTS) + 0.5) / _INSTANTS * workload.rows
    # Of so many values, the most frequent, all rows are in memory, and some rows of the next one.
    whole = np.searchsorted(rows[1:], memory_rows / both, side="right")
    following = np.concatenate((chance, [0.0]))[whole]
    found = both * pairs[whole] + following * (memory_rows - both * rows[whole])
    return float(found.mean()) / (workload.rows * float(pairs[-1]))
