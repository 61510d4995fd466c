"""Compile every kernel now, so that a user's first join does not wait for a compiler.

    python -m watersmeet.kernels

Kernels state their types, so importing a module compiles what numba's cache does not hold yet.
"""

from __future__ import annotations

import pkgutil
import time
from importlib import import_module

from numba.core.dispatcher import Dispatcher

from watersmeet import kernels


def compile_all() -> int:
    """Import every module of kernels; how many compiled functions they have."""
    count = 0
    for module in pkgutil.iter_modules(kernels.__path__):
        if module.name == "__main__":
            continue
        members = vars(import_module(f"{kernels.__name__}.{module.name}")).values()
        count += sum(isinstance(m, Dispatcher) and bool(m.signatures) for m in members)
    return count


if __name__ == "__main__":
    began = time.perf_counter()
    compiled = compile_all()
    print(f"setup: {compiled} kernels ready after {time.perf_counter() - began:.1f} s")
