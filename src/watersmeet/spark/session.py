"""Which Spark does a join run on? One that `session` starts on this machine, or the user's own.

    spark = wm.session()

`session` starts Spark with the settings that are best for joins, with a reason beside each.
`check_session` says which of them the user's own session lacks, and changes nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import SparkSession

from watersmeet.errors import InvalidArgument
from watersmeet.model import parse_bytes
from watersmeet.spark.interpreter import interpreter_of
from watersmeet.spark.java import java_home

LOGGING = Path(__file__).with_name("log4j2.properties")

_HEAP = "spark.driver.memory"
_SMALLEST_HEAP, _LARGEST_HEAP = 2**30, 8 * 2**30
# Spark needs 450 MiB, and Java does not give it all of its heap.
_LEAST_HEAP = 512 * 2**20
_ATTEMPTS = 4
_CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


@dataclass(frozen=True)
class Advice:
    """A setting of a session that should be another for joins, and why."""

    setting: str
    value: str
    wanted: str
    reason: str

    def __str__(self) -> str:
        return f"{self.setting} is {self.value}; with {self.wanted} {self.reason}"


_SOCKETS, _SOCKETS_IN = (
    "spark.python.unix.domain.socket.enabled",
    "spark.python.unix.domain.socket.dir",
)
# The name of a socket may have 104 characters on some systems, and Spark's own part has 42.
_LONGEST_FOLDER = 60

# The values of settings that are not set.
_DEFAULTS = {"spark.python.worker.reuse": "true", _SOCKETS: "false"}
_WANTED = {
    "spark.python.daemon.module": (
        "watersmeet.spark.daemon",
        "workers start with everything loaded (watersmeet must be installed on every executor)",
    ),
    "spark.python.worker.reuse": (
        "true",
        "workers keep operators in memory from one wave to the next",
    ),
    _SOCKETS: (
        "true",
        # 40 tasks of nothing, one after the other, took 2.1 s, and 0.25 s with it.
        "every task begins 40 ms sooner: over TCP it waits for a delayed acknowledgement",
    ),
}


def session(
    *, cores: int | None = None, memory: int | str | None = None, warm: bool = True, **config: Any
) -> SparkSession:
    """The running Spark session, or a new one on this machine.

    `cores` is how many tasks run at a time, all of the machine's by default. `memory` is the heap
    of the Java process, which scans and shuffles; joins run beside it in Python, in memory of
    their own. `config` are further settings: `session(**{"spark.ui.enabled": True})`. A session
    that runs already is returned as it is, unless it differs from what is asked for here.
    With `warm` Python workers are started in the background, and what joins need is loaded while
    Java starts.
    """
    asked = _asked(config, cores=cores, memory=memory)
    if not isinstance(warm, bool):
        raise InvalidArgument(f"warm={warm!r} is no answer.", remedy="Give True or False.")
    if SparkContext._active_spark_context is not None:
        running = SparkSession.builder.getOrCreate()
        _check_same(running, asked)
        return running
    _check_heap(asked)
    settings = {**_settings(), **asked}
    # Before the user's options, so that a logging file among those is used instead.
    options = f"-Dlog4j2.configurationFile={LOGGING.as_uri()}"
    settings["spark.driver.extraJavaOptions"] = " ".join(
        filter(None, (options, asked.get("spark.driver.extraJavaOptions")))
    )
    if warm:
        threading.Thread(target=_load, name="watersmeet-load", daemon=True).start()
    with _environment():
        builder = SparkSession.builder
        for name, value in settings.items():
            builder = builder.config(name, value)
        started = builder.getOrCreate()
    if warm:
        threading.Thread(target=_warm, args=[started], name="watersmeet-warm", daemon=True).start()
    return started


def check_session(spark: SparkSession) -> list[Advice]:
    """What this session should set for joins, the most important first; empty if nothing."""
    found = []
    own, ours = str(spark.sparkContext.pythonExec), interpreter_of(spark)
    if own != ours:
        reason = "all Python functions find the same packages; watersmeet runs its own with it"
        found.append(Advice("PYSPARK_PYTHON", own, ours, reason))
    for name, (wanted, reason) in _WANTED.items():
        value = spark.conf.get(name, _DEFAULTS.get(name))
        if value != wanted:
            found.append(Advice(name, value or "not set", wanted, reason))
    master = spark.conf.get("spark.master", "") or ""
    if re.fullmatch(r"local(\[[^,]*\])?", master):
        threads = re.sub(r"local\[?|\]", "", master) or "1"
        reason = "a task whose worker was killed is tried again, and does not end the query"
        found.append(Advice("spark.master", master, f"local[{threads},{_ATTEMPTS}]", reason))
    limit = spark.conf.get("spark.executor.pyspark.memory", None)
    if limit is not None:
        reason = "`memory` alone is the limit: this one counts mapped files and ends the worker"
        found.append(Advice("spark.executor.pyspark.memory", limit, "nothing set", reason))
    return found


def advice_for(spark: SparkSession) -> list[str]:
    """What `check_session` says, in words; asked once, since these settings stay as they are."""
    context = spark.sparkContext
    if context not in _advice:
        _advice[context] = [str(advice) for advice in check_session(spark)]
    return _advice[context]


_advice: weakref.WeakKeyDictionary[SparkContext, list[str]] = weakref.WeakKeyDictionary()


def _settings() -> dict[str, str]:
    return {
        # A task whose worker has died is tried again, as on a cluster; not so with plain local[*].
        "spark.master": f"local[*,{_ATTEMPTS}]",
        "spark.app.name": "watersmeet",
        _HEAP: f"{_heap() // 2**20}m",
        # It would draw over the output of the program.
        "spark.ui.showConsoleProgress": "false",
        # It is a web server that others can access, on a port that may be in use.
        "spark.ui.enabled": "false",
        # Java uses /tmp even if TMPDIR is set.
        "spark.local.dir": tempfile.gettempdir(),
        # The default runs `readlink` as a process, several times for each file of a stream's
        # checkpoint: 34 ms a file, four files a micro-batch. Both write a file and rename it.
        "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
        # Not set: the time zone, on which the meaning of the user's data depends, and the size of
        # Arrow batches, which from 10,000 rows (the default) to 300,000 made no difference.
        **{name: wanted for name, (wanted, _) in _WANTED.items()},
        **_sockets(),
    }


def _sockets() -> dict[str, str]:
    """Where Java and Python workers meet: Spark leaves sockets behind, so their folder is ours."""
    folder = _sockets_folder()
    return {_SOCKETS: "false"} if folder is None else {_SOCKETS_IN: folder}


@cache
def _sockets_folder() -> str | None:
    """A folder with a short name, which is removed at exit; None if there cannot be any."""
    for place in (tempfile.gettempdir(), "/tmp"):
        with contextlib.suppress(OSError):
            folder = tempfile.mkdtemp(prefix="watersmeet-", dir=place)
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            if len(folder) <= _LONGEST_FOLDER:
                return folder
    return None


def _asked(
    config: dict[str, Any], *, cores: int | None, memory: int | str | None
) -> dict[str, str]:
    asked = {}
    for name, value in config.items():
        if not name.startswith("spark."):
            raise InvalidArgument(
                f"{name!r} is no setting of Spark.",
                remedy='Write further settings as session(**{"spark.ui.enabled": True}).',
            )
        asked[name] = str(value).lower() if isinstance(value, bool) else str(value)
    if cores is not None:
        if not isinstance(cores, int) or isinstance(cores, bool) or cores < 1:
            raise InvalidArgument(
                f"cores={cores!r} is no number of tasks that can run at a time.",
                remedy="Give 1 or more, or leave it out for all of the machine's.",
            )
        asked["spark.master"] = f"local[{cores},{_ATTEMPTS}]"
    if memory is not None:
        heap = parse_bytes(memory)
        if heap < _LEAST_HEAP:
            raise InvalidArgument(
                f"memory={memory!r} is less than Spark starts with.",
                remedy=f"Give {_LEAST_HEAP // 2**20}MB or more, or leave it out.",
            )
        asked[_HEAP] = f"{heap // 2**20}m"
    return asked


def _check_same(running: SparkSession, asked: dict[str, str]) -> None:
    values = {name: running.conf.get(name, None) for name in asked}
    # The same heap can be written in several ways (1g, 1024m).
    heap = values.get(_HEAP)
    if heap is not None and parse_bytes(heap) == parse_bytes(asked[_HEAP]):
        del values[_HEAP]
    other = [f"{name}={value}" for name, value in values.items() if value != asked[name]]
    if other:
        raise InvalidArgument(
            f"A Spark session runs already, with {', '.join(other)}.",
            remedy="Stop it first with its stop(), or ask for no settings.",
        )


def _check_heap(asked: dict[str, str]) -> None:
    """Refuse another heap if Java runs already: it lives longer than its first session, and its
    heap cannot grow."""
    gateway = SparkContext._gateway
    if gateway is None or _HEAP not in asked:
        return
    bean = gateway.jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
    heaps = [str(option)[4:] for option in bean.getInputArguments() if option.startswith("-Xmx")]
    if heaps and parse_bytes(heaps[-1]) != parse_bytes(asked[_HEAP]):
        raise InvalidArgument(
            f"The Java of an earlier session still runs, with memory={heaps[-1]!r}.",
            remedy="Ask for as much, or start a new Python process.",
        )


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """Set what Spark's launcher reads from the environment, only while it starts."""
    wanted = {
        # Without a warning at its start; for MLlib's fast BLAS, Spark can be started without us.
        "JAVA_HOME": str(java_home(vector=False)),
        # Otherwise workers may find another Python in PATH, without our packages.
        "PYSPARK_PYTHON": sys.executable,
        # No other machine takes part, and some machines cannot resolve their own name.
        "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"),
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _heap() -> int:
    """A quarter of the machine's memory: most of it is for Python workers and for cached files."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):
        # The limit of a container; the word "max" if it has none.
        machine = min(machine, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(max(machine // 4, _SMALLEST_HEAP), _LARGEST_HEAP)


def _load() -> None:
    """Import what a first join imports, which takes two seconds; Java takes longer to start."""
    with contextlib.suppress(Exception):  # Who joins will meet the error.
        import_module("watersmeet.spark.tables.join")


def _warm(spark: SparkSession) -> None:
    """Start as many workers as tasks run at a time. If that fails, they start with the tasks."""
    with contextlib.suppress(Exception):
        context = spark.sparkContext
        context.setJobDescription("watersmeet starts Python workers")
        tasks = context.defaultParallelism
        spark.range(0, tasks, 1, tasks).mapInArrow(_same, "id bigint").collect()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches
