"""What a Python worker of Spark does once, before its first task of ours.

After every task Spark lets its workers collect garbage, and the collector visits the 170,000
objects that Arrow, numba and the kernels have loaded, none of which can be freed. Our own daemon
excludes them from collection before it forks workers. In the user's own session each worker does.
"""

from __future__ import annotations

import gc

_settled = False


def settle() -> None:
    """Exclude all objects that exist now from later collections."""
    global _settled
    if not _settled:
        _settled = True
        # Collect first, since garbage that is excluded would never be freed.
        gc.collect()
        gc.freeze()
