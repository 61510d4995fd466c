"""How long do a run's files live? Its results as long as any DataFrame can read them.

Rows between tasks go when the run is closed. A result is different: a DataFrame that was handed
out reads its files whenever it is used, and so does whatever was made of it, such as a view, a
cached table or an RDD. None of these is known in Python, but all of them hold on to one object in
Java, the reader of those files. A weak reference to it says when the last of them has gone.
"""

from __future__ import annotations

import atexit
import threading
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from watersmeet.spark.jobs import cancel
from watersmeet.spark.storage import RunStorage

RESULT = "parquet"
_LOOK_EVERY_S = 10.0


class RunFiles:
    """The files of one run."""

    def __init__(self, storage: RunStorage, spark: SparkSession, *, query: str) -> None:
        self.spark = spark
        self.query = query
        self._storage = storage
        self._context = spark.sparkContext
        self._readers: list[Any] = []
        self._readable = False
        """Whether something was handed out that we cannot watch."""
        self._lock = threading.Lock()
        self._released = False
        self.closed = False
        with _changed:
            _all.add(self)
        _watch()

    def handed_out(self, dataframe: DataFrame) -> None:
        """This DataFrame reads results."""
        java: Any = self._context._jvm
        try:
            leaf = dataframe._jdf.queryExecution().analyzed().collectLeaves().head()
            reads = leaf.relation()
            # Plans hold the list of files and their format, an RDD the format alone.
            parts = (reads.fileFormat(), reads.location())
            self._readers += [java.java.lang.ref.WeakReference(part) for part in parts]
        except Py4JError:  # A plan of another form: the files stay as long as the session.
            self._readable = True

    def close(self) -> None:
        """No task will read or write any more."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
        if self.needed():
            self._storage.exchange.remove_all_but(f".{RESULT}")
        else:
            self.release()

    def abandon(self) -> None:
        """The same, left to a thread: this may be called in the middle of anything."""
        _abandoned.append(self)

    def needed(self) -> bool:
        """Whether some DataFrame can still read results."""
        if self._context._jsc is None:  # The session was stopped.
            return False
        try:
            return self._readable or any(not ref.refersTo(None) for ref in self._readers)
        except (Py4JError, OSError):
            return False  # Java has gone, and with it all DataFrames.

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
    """Remove what was kept for DataFrames that have gone since."""
    while _abandoned:
        files = _abandoned.pop()
        cancel(files.spark, files.query)
        files.close()
    with _changed:
        waiting = [files for files in _all if files.closed]
    for files in waiting:
        if not files.needed():
            files.release()


def _watch() -> None:
    """Look from time to time, as long as there are files of any run."""
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
    """Results end with the process. Before Java does, which this was loaded after."""
    global _leaving
    with _changed:
        _leaving = True
        _changed.notify_all()
        everything, thread = list(_all), _thread
    if thread is not None:
        thread.join()
    for files in everything:
        files.release()
