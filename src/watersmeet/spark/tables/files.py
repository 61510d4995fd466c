"""When are the files of a join removed? Results only when no DataFrame can read them any more.

Rows between tasks are removed when the join is closed. Results are not: a DataFrame that was handed
out reads its files whenever it is used, and so does everything that was made from it, such as a
view, a cached table or an RDD. Python does not know all of these, but each has a reference to one
object in Java, the reader of the files. A weak reference to it tells when the last of them is gone.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from watersmeet.spark.gateway import java_class
from watersmeet.spark.jobs import cancel
from watersmeet.spark.storage import RunStorage

RESULT = "parquet"
_LOOK_EVERY_S = 10.0


class RunFiles:
    """The files of one join."""

    def __init__(self, storage: RunStorage, spark: SparkSession, *, query: str) -> None:
        self.spark = spark
        self.query = query
        self._storage = storage
        self._context = spark.sparkContext
        self._readers: list[Any] = []
        self._readable = False
        """Whether a DataFrame was handed out whose reader in Java was not found."""
        self._lock = threading.Lock()
        self._released = False
        self.closed = False
        self.at_stop: list[Callable[[], None]] = []
        """What ends all that is done, or waits, for the next wave."""
        with _changed:
            _all.add(self)
        _watch()

    def handed_out(self, dataframe: DataFrame) -> None:
        """Note that this DataFrame, which reads results, was handed out."""
        try:
            leaf = dataframe._jdf.queryExecution().analyzed().collectLeaves().head()
            reads = leaf.relation()
            # Plans refer to the list of files and to their format, an RDD to the format only.
            parts = (reads.fileFormat(), reads.location())
            weak = java_class(self._context, "java.lang.ref.WeakReference")
            self._readers += [weak(part) for part in parts]
        except Py4JError:  # A plan of another form: the files stay until the session ends.
            self._readable = True

    def close(self) -> None:
        """Remove the files that are not needed, after the last task has ended."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
        if self.needed():
            self._storage.exchange.remove_all_but(f".{RESULT}")
        else:
            self.release()

    def stop(self) -> None:
        """End what is done for the next wave: there will be none."""
        cancel(self.spark, self.query)
        for act in self.at_stop:
            act()

    def abandon(self) -> None:
        """Let the thread close them: a finalizer calls this, possibly in the middle of anything."""
        _abandoned.append(self)

    def needed(self) -> bool:
        """Whether some DataFrame can still read results."""
        if self._context._jsc is None:  # The session was stopped.
            return False
        try:
            return self._readable or any(not ref.refersTo(None) for ref in self._readers)
        except (Py4JError, OSError):
            return False  # Java has ended, and with it all DataFrames.

    def release(self) -> None:
        with self._lock:
            if self._released:
                return
            self._released = True
        self._storage.release()
        with _changed:
            _all.discard(self)


_all: set[RunFiles] = set()
_abandoned: list[RunFiles] = []
_changed = threading.Condition()
_thread: threading.Thread | None = None
_leaving = False


def sweep() -> None:
    """Close abandoned joins, and remove results that no DataFrame can read any more."""
    while _abandoned:
        files = _abandoned.pop()
        files.stop()
        files.close()
    with _changed:
        waiting = [files for files in _all if files.closed]
    for files in waiting:
        if not files.needed():
            files.release()


def _watch() -> None:
    """Start the thread that calls `sweep` from time to time while there are files of any join."""
    global _thread
    with _changed:
        if _thread is None and not _leaving:
            _thread = threading.Thread(target=_look, name="watersmeet-files", daemon=True)
            _thread.start()


def _look() -> None:
    global _thread
    while True:
        sweep()
        with _changed:
            if _leaving or not _all:
                _thread = None
                return
            _changed.wait(_LOOK_EVERY_S)


@atexit.register
def _leave() -> None:
    """Remove all results when the process ends. This runs before Java is ended, whose own handler
    was registered earlier."""
    global _leaving
    with _changed:
        _leaving = True
        _changed.notify_all()
        everything, thread = list(_all), _thread
    if thread is not None:
        thread.join()
    for files in everything:
        files.release()
