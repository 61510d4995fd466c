"""What the rectangle joins cost in all: the equations of the PR-Join paper about total I/O time.

Sizes are in pages and times in seconds a page.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """Table 1: inputs of `left` and `right` pages, joined in `memory` pages.

    fudge: F, how many pages of memory a page takes in a hash table; read_input, write, read: T_ri,
    T_wt and T_rt.
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
        """l: how many times as large as memory the inputs are in hash tables."""
        return self.pages * self.fudge / self.memory

    @property
    def block(self) -> tuple[float, float]:
        """(a, b): the pages of each input that memory holds, read in proportion to their sizes."""
        return self.left / self.blocks, self.right / self.blocks


def grace_total(setting: Setting) -> float:
    """Eq. 1."""
    return setting.pages * (setting.read_input + setting.write + setting.read)


def ripple_total(setting: Setting) -> float:
    """Eq. 3, before its approximation."""
    blocks, size = setting.blocks, sum(setting.block)
    again = blocks * (blocks - 1) / 2 * setting.read
    return size * (blocks * setting.read_input + (blocks - 1) * setting.write + again)


def hash_ripple_total(setting: Setting) -> float:
    """Eq. 4: the right rows that are kept in memory are neither written nor read again."""
    spilled = setting.pages - setting.block[1]
    return setting.pages * setting.read_input + spilled * (setting.write + setting.read)


def sms_total(setting: Setting) -> float:
    """Eq. 6, and two-way DBO's."""
    return grace_total(setting)


def pr_total_bound(setting: Setting, *, gamma: float = 1.0) -> float:
    """Eq. 13: never more than this, with the stop constraint."""
    return setting.pages * (setting.read_input + setting.write + (1 + 1 / gamma) * setting.read)
