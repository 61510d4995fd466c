"""What the rectangle joins cost, and what they yield early: eq. 1-13 of the PR-Join paper.

Sizes are in pages and times in seconds a page. A result rate is the area newly covered per second
of I/O, times its density; results per second are that times the selectivity of the join.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """Table 1: inputs of `left` and `right` pages, joined in `memory` pages.

    fudge: F, what a page takes in a hash table; read_input, write, read: T_ri, T_wt and T_rt.
    """

    left: float
    right: float
    memory: float
    fudge: float = 1.2
    read_input: float = 1.0
    write: float = 1.0
    read: float = 1.0

    @property
    def pages(self) -> float:
        return self.left + self.right

    @property
    def blocks(self) -> float:
        """l: how many times memory the inputs are, hash tables included."""
        return self.pages * self.fudge / self.memory

    @property
    def block(self) -> tuple[float, float]:
        """(a, b): the pages of each input that memory holds, read in proportion to their sizes."""
        return self.left / self.blocks, self.right / self.blocks

    @property
    def unit(self) -> float:
        """ab / (a + b) = |A||B|M / ((|A| + |B|)^2 F): area per page of a full memory."""
        a, b = self.block
        return a * b / (a + b)


# ---- early result rates -------------------------------------------------------------------------


def symmetric_rate(setting: Setting) -> float:
    """While all fits in memory (eq. 2, first line)."""
    return setting.unit / setting.read_input


def ripple_rate(setting: Setting, step: int) -> float:
    """The k-th iteration of Block Ripple, from 1 (eq. 2)."""
    seconds = setting.read_input + setting.write + step * setting.read
    return setting.unit * (2 * step + 1) / seconds


def hash_ripple_rate(setting: Setting) -> float:
    """Eq. 5, after memory has overflowed."""
    return setting.unit / (setting.read_input + setting.write)


def sms_rate(setting: Setting) -> float:
    """Eq. 7, the sort phase: no hash table takes room, so runs are longer by F."""
    return setting.unit * setting.fudge / (setting.read_input + setting.write)


def dbo_rate(setting: Setting) -> float:
    """Eq. 8, the sort phase: every run meets two of the other side."""
    return 2 * sms_rate(setting)


def join_phase_rate(setting: Setting) -> float:
    """Eq. 1, GRACE's join phase; before that it yields nothing."""
    return setting.left * setting.right / setting.pages / setting.read


def magic_rate(setting: Setting, *, mu: float, nu: float) -> float:
    """A ripple of any width (eq. 9): mu memories have been joined, nu times as much is new."""
    seconds = nu * (setting.read_input + setting.write + setting.read) + setting.read
    return setting.unit * mu * (nu * nu + 2 * nu) / seconds


def pr_rate(setting: Setting, step: int, *, gamma: float = 1.0, place: float = 0.0) -> float:
    """The j-th join of a partition, from 1 (eq. 10 with eq. 12).

    `place` is the partition's i/n. 0 gives the paper's lower bound over all partitions.
    """
    mu, nu = pr_step(step, gamma=gamma, place=place)
    seconds = nu * (setting.read_input + setting.write + setting.read) + (1 - 1 / mu) * setting.read
    return setting.unit * mu * (nu * nu + 2 * nu) / seconds


def pr_step(step: int, *, gamma: float, place: float) -> tuple[float, float]:
    """mu and nu of the j-th join (eq. 12): what is old, in memories, and how much of it is new."""
    if step == 1:
        return 1.0, (1 + gamma) ** (1 + place) - 1
    return (1 + gamma) ** (step - 1 + place), gamma


# ---- total I/O time -----------------------------------------------------------------------------


def grace_total(setting: Setting) -> float:
    """Eq. 1."""
    return setting.pages * (setting.read_input + setting.write + setting.read)


def ripple_total(setting: Setting) -> float:
    """Eq. 3, before its approximation."""
    blocks, size = setting.blocks, sum(setting.block)
    again = blocks * (blocks - 1) / 2 * setting.read
    return size * (blocks * setting.read_input + (blocks - 1) * setting.write + again)


def hash_ripple_total(setting: Setting) -> float:
    """Eq. 4: what is kept in memory is neither written nor read again."""
    spilled = setting.pages - setting.block[1]
    return setting.pages * setting.read_input + spilled * (setting.write + setting.read)


def sms_total(setting: Setting) -> float:
    """Eq. 6, and two-way DBO's."""
    return grace_total(setting)


def pr_total_bound(setting: Setting, *, gamma: float = 1.0) -> float:
    """Eq. 13: never more than this, with the stop constraint."""
    return setting.pages * (setting.read_input + setting.write + (1 + 1 / gamma) * setting.read)
