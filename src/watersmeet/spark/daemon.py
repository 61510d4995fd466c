"""The process from which Spark forks Python workers; it has loaded what our tasks need.

    spark.python.daemon.module = watersmeet.spark.daemon

Spark's own daemon loads nothing before it forks, so each worker imports Arrow, numba and the
kernels for itself. This one loads them once, and its workers share their memory. If loading fails,
or starts a thread, which a fork would not copy, Spark's own daemon is started instead.
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
# All modules of these packages are loaded, whichever a task needs.
_PACKAGES = ("watersmeet.kernels", "watersmeet.operators", "watersmeet.spark")


def preload() -> None:
    """Import all modules that a worker will need."""
    # Arrow's jemalloc, which is not even used by default, would start a thread.
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
    for name in _LOADED:
        import_module(name)
    for name in _PACKAGES:
        package = import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not module.name.endswith("__main__") and module.name != "watersmeet.spark.daemon":
                import_module(module.name)
    import numpy as np

    # Otherwise all workers would draw the same numbers from NumPy. Python's `random` cares itself.
    os.register_at_fork(after_in_child=np.random.seed)
    # Spark lets a worker collect garbage after every task. Loaded modules need not be visited, and
    # pages that are not visited stay shared among workers.
    gc.collect()
    gc.freeze()


def can_fork() -> bool:
    """Whether this process has only one thread, native ones included."""
    try:
        return len(list(Path("/proc/self/task").iterdir())) == 1
    except OSError:
        return False


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Discard all output, because Spark reads the daemon's port from it."""
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
    """Go on as Spark's own daemon, but end workers without a stack when Spark has ended."""
    from pyspark import daemon

    serve_tasks = daemon.worker

    def worker(sock: socket.socket, authenticated: bool) -> int:
        try:
            return serve_tasks(sock, authenticated)
        except (EOFError, ConnectionError):
            # Spark has ended before it sent this worker a task.
            return 1

    daemon.worker = worker
    daemon.manager()


if __name__ == "__main__":
    main()
