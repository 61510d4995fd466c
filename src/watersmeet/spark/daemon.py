"""The process that Spark forks Python workers from, with what our tasks need loaded already.

    spark.python.daemon.module = watersmeet.spark.daemon

Spark's own daemon loads nothing before it forks, so each worker imports Arrow, numba and the
kernels for itself. This one loads them once, and its workers share the memory they take.
Should that fail, or leave a thread behind, which a fork would cut off in the middle of something,
Spark's own daemon takes over.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pkgutil
import socket
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

_LOADED = (
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.fs",
    "pyarrow.parquet",
    "pyspark.worker",
)
# Every module of these, for which one a task needs is its own affair.
_PACKAGES = ("watersmeet.kernels", "watersmeet.operators", "watersmeet.spark")


def preload() -> None:
    """Import everything a worker will need."""
    # An allocator that Arrow brings along, and does not use unless told to, would start a thread.
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
    for name in _LOADED:
        import_module(name)
    for name in _PACKAGES:
        package = import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith("__main__") and module.name != "watersmeet.spark.daemon":
                import_module(module.name)
    import numpy as np

    # Workers would otherwise all draw the same numbers. Python's own `random` sees to it itself.
    os.register_at_fork(after_in_child=np.random.seed)
    # Spark has a worker collect garbage after every task; what is loaded for good needs no visit,
    # and pages that are not visited stay shared.
    gc.collect()
    gc.freeze()


def can_fork() -> bool:
    """Whether this process is a single thread, native ones counted."""
    try:
        return len(list(Path("/proc/self/task").iterdir())) == 1
    except OSError:
        return False


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Spark reads the daemon's port from its output: nothing else may get there."""
    kept = [os.dup(descriptor) for descriptor in (1, 2)]
    try:
        with Path(os.devnull).open("w") as nowhere:
            for descriptor in (1, 2):
                os.dup2(nowhere.fileno(), descriptor)
        yield
    finally:
        for descriptor, original in zip((1, 2), kept, strict=True):
            os.dup2(original, descriptor)
            os.close(original)


def main() -> None:
    try:
        with _silence():
            preload()
        ready = can_fork()
    except Exception:
        ready = False
    if not ready:
        os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])
    _serve()


def _serve() -> None:
    """Spark's own daemon from here on, but for what its workers say when Spark has gone."""
    from pyspark import daemon

    serve_tasks = daemon.worker

    def worker(sock: socket.socket, authenticated: bool) -> int:
        try:
            return serve_tasks(sock, authenticated)
        except (EOFError, ConnectionError):
            # Stopped before it had sent a task. Nobody is left to whom the stack would matter.
            return 1

    daemon.worker = worker
    daemon.manager()


if __name__ == "__main__":
    main()
