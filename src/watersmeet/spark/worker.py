"""What a Python worker of Spark does once, before its first task of ours.

After every task Spark has its workers collect garbage, and the collector visits all that Arrow,
numba and the kernels have loaded, for nothing: 170,000 objects that stay. Workers of
our own daemon are born with those set aside. In a session of the user's own each worker does it.
"""

from __future__ import annotations

import gc

_settled = False


def settle() -> None:
    """Set aside what is loaded: no later collection visits it."""
    global _settled
    if not _settled:
        _settled = True
        # What is garbage now would stay for good.
        gc.collect()
        gc.freeze()
