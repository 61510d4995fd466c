"""Which Python do our tasks run on? One that has watersmeet, even if the session's has not.

When a session starts, it takes the Python of its workers from PYSPARK_PYTHON, or else `python3`
from PATH. If an environment is not activated, that is another Python, without our packages. On one
machine our own functions can be run with the Python of this process instead; other functions are
not affected.

All of them are run by the same worker processes: Spark keeps a daemon, and workers, for each set of
variables that functions are given, and gives those of RDDs one less than those of DataFrames.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from watersmeet.errors import MissingPackage

# Packages that our tasks import. They are looked for without importing them, which takes long.
_NEEDED = ("watersmeet", "pyarrow", "numpy", "numba", "xxhash")
_QUESTION = """
import importlib.util, json, sys
missing = [name for name in sys.argv[1:] if importlib.util.find_spec(name) is None]
ours = importlib.util.find_spec("watersmeet")
print(json.dumps([sys.version_info[:2], missing, ours and list(ours.submodule_search_locations)]))
"""
_PATIENCE_S = 60.0
# Spark sets it for functions of DataFrames. A second daemon would load our packages again, which
# takes three seconds of processor time, when a session's first tasks are waited for.
TRACEBACK = "SPARK_SIMPLIFIED_TRACEBACK"
_HERE = Path(__file__).resolve().parents[1]

_lock = threading.RLock()
_own: weakref.WeakKeyDictionary[SparkContext, tuple[int, str, str | None]]
_own = weakref.WeakKeyDictionary()
"""For contexts that run our functions now: how many calls do so, and before them their Python, and
`TRACEBACK`."""
_fitting: dict[str, bool] = {}


def interpreter_of(spark: SparkSession) -> str:
    """The Python that our tasks are run with: the session's own if it has our packages."""
    context = spark.sparkContext
    with _lock:
        own = _own[context][1] if context in _own else str(context.pythonExec)
    # On other machines it cannot be asked which packages it has.
    if own == sys.executable or not str(context.master).startswith("local"):
        return own
    with _lock:
        if own not in _fitting:
            _fitting[own] = _fits(own)
        return own if _fitting[own] else sys.executable


@contextlib.contextmanager
def our_python(spark: SparkSession) -> Iterator[None]:
    """Functions that are given to Spark in here run on a Python that has our packages, in the
    same workers whatever they are given for."""
    context = spark.sparkContext
    wanted = interpreter_of(spark)
    with _lock:
        before = (0, str(context.pythonExec), context.environment.get(TRACEBACK))
        count, own, traceback = _own.get(context, before)
        _own[context] = (count + 1, own, traceback)
        context.pythonExec = wanted
        context.environment[TRACEBACK] = "1"
    try:
        yield
    finally:
        with _lock:
            count, own, traceback = _own[context]
            if count > 1:
                _own[context] = (count - 1, own, traceback)
            else:
                del _own[context]
                context.pythonExec = own
                if traceback is None:
                    del context.environment[TRACEBACK]
                else:
                    context.environment[TRACEBACK] = traceback


def _fits(program: str) -> bool:
    """Whether this Python has the same version as ours, and our packages from the same place."""
    try:
        told = subprocess.run(
            [program, "-c", _QUESTION, *_NEEDED],
            capture_output=True, text=True, timeout=_PATIENCE_S, check=True,
        )  # fmt: skip
        version, missing, places = json.loads(told.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return False
    there = [Path(place).resolve() for place in places or []]
    return not missing and tuple(version) == sys.version_info[:2] and there == [_HERE]


def missing_in_worker(text: str) -> MissingPackage | None:
    """The error to raise if a task failed because its Python lacks a package; else None."""
    for name in _NEEDED:
        if f"ModuleNotFoundError: No module named '{name}" in text:
            return MissingPackage(
                f"Spark's Python workers cannot import {name}.",
                remedy="Install watersmeet on every executor, for the Python that PYSPARK_PYTHON "
                "names when the session starts; a path that only this program has added to "
                "sys.path is unknown to them.",
            )
    if "PYTHON_VERSION_MISMATCH" in text:
        return MissingPackage(
            "Spark's Python workers have another version of Python than this program "
            f"({sys.version_info[0]}.{sys.version_info[1]}).",
            remedy="Set PYSPARK_PYTHON to the same Python before the session is started.",
        )
    return None
