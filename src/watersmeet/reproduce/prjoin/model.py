"""The cost models as curves: what the paper draws as "c-" lines in figure 8.

`costs` has the equations; here the costs and results of all steps are summed up.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from watersmeet.reproduce.prjoin.costs import Setting
from watersmeet.reproduce.prjoin.devices import DISK_SYNCHRONOUS
from watersmeet.sim.delays import Seconds

Modelled = tuple[Seconds, Seconds]
"""Times, and the fraction of all results that has been reported by then."""


def sequential(setting: Setting) -> Setting:
    """The setting with the cost of sequential reads: Block Ripple reads whole files."""
    return replace(setting, read=DISK_SYNCHRONOUS.read)


def grace(setting: Setting) -> Modelled:
    """Section 3.1: no results while partitioning, then evenly to the end."""
    partitioned = setting.pages * (setting.read_input + setting.write)
    end = partitioned + setting.pages * setting.read
    return np.array([0.0, partitioned, end]), np.array([0.0, 0.0, 1.0])


def ripple(setting: Setting) -> Modelled:
    """Section 3.2.1: first one memory full of rows is joined, then one more in each iteration."""
    setting = sequential(setting)
    size, blocks = sum(setting.block), setting.blocks
    done = np.append(np.arange(1.0, blocks), blocks)  # memories joined after each iteration
    new = np.diff(done, prepend=0.0)
    seconds = new * size * (setting.read_input + setting.write)
    seconds += (done - new) * size * setting.read
    seconds[0] -= size * setting.write
    return np.cumsum(seconds), (done / blocks) ** 2


def pr_join(setting: Setting, *, partitions: int, gamma: float) -> Modelled:
    """Section 4.4: Join(i) whenever partition i has grown by 1 + gamma; in the end, all partitions.

    Partition i is joined for the j-th time when it has (a + b)/n (1 + gamma)^(j + i/n) pages,
    unless less than 1 + gamma times that is still to come (eq. 11). On average (a + b)/n of its
    pages are in memory.
    """
    held, whole = sum(setting.block) / partitions, setting.pages / partitions
    growth = 1 + gamma
    place = np.arange(partitions) / partitions
    most = int(np.log(setting.blocks) / np.log(growth)) + 1
    sizes = held * growth ** (np.arange(1, most + 1)[:, None] + place)
    sizes = np.sort(sizes[sizes * growth <= whole])
    # The size of the same partition at its join before, or after phase 1. Partitions take turns, so
    # that was n joins ago.
    before = np.concatenate([np.full(partitions, held), sizes])[: len(sizes)]
    last = np.concatenate([np.full(partitions, held), sizes])[-partitions:]
    arriving = setting.read_input + setting.write
    read = np.cumsum((sizes - held) * setting.read)
    early = sizes * partitions * arriving - partitions * held * setting.write + read
    done = (setting.pages - partitions * held) * arriving + partitions * held * setting.read_input
    done += read[-1] if len(read) else 0.0
    late = done + np.arange(1, partitions + 1) * (whole - held) * setting.read
    shares = np.concatenate([sizes**2 - before**2, whole**2 - last**2]) / whole**2 / partitions
    first = partitions * held * setting.read_input, (held / whole) ** 2
    times = np.concatenate([[first[0]], early, late])
    return times, first[1] + np.concatenate([[0.0], np.cumsum(shares)])
