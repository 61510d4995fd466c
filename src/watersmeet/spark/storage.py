"""The directory of one join or aggregate for files that its tasks hand to one another."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from watersmeet.errors import InvalidArgument, SpillError
from watersmeet.spark.cluster import is_one_machine
from watersmeet.spark.gateway import java_class
from watersmeet.store.claim import SpillClaim
from watersmeet.store.exchange import ExchangeDir


@dataclass(frozen=True)
class RunStorage:
    """The directory for files between tasks, and the function that removes it."""

    exchange: ExchangeDir
    release: Callable[[], None]
    spill_dir: str | None
    """Where tasks spill if the user gave no directory. It is removed with the storage, even if a
    task was killed."""

    @classmethod
    def claim(cls, given: str | Path | None, spark: SparkSession, query: str) -> RunStorage:
        """Make a directory below the one that was given, or below the system's temporary one."""
        if given is None and not is_one_machine(spark):
            raise InvalidArgument(
                f"storage is needed on {spark.sparkContext.master}: tasks on different machines "
                "hand rows to one another through it.",
                remedy="Give a directory that the driver and all executors reach.",
            )
        if given is not None:
            check_path(given, "storage")
        if given is None or "://" not in str(given):
            # An absolute path, because tasks have other working directories.
            base = None if given is None else Path(given).absolute()
            claim = SpillClaim(base, argument="storage")
            forget = _removed_with_java(spark, claim.area.path)

            def release() -> None:
                claim.close()
                forget()

            spill_dir = str(claim.area.path) if given is None else None
            return cls(ExchangeDir(claim.area.path.as_uri()), release, spill_dir)
        check_storage(given, spark)
        exchange = ExchangeDir(f"{str(given).rstrip('/')}/watersmeet-run-{query}")
        exchange.create()
        return cls(exchange, exchange.remove, None)


def check_storage(given: Any, spark: SparkSession) -> None:
    """Refuse a path or URI that cannot be a storage, without writing to it.

    Spark has to read results from it, and says at once whether it can. Pyarrow might wait for a
    network.
    """
    if given is None:
        return
    check_path(given, "storage")
    uri = str(given)
    if "://" not in uri:
        if not os.access(uri, os.W_OK | os.X_OK) or not Path(uri).is_dir():
            raise SpillError(
                f"storage={uri!r} is no directory that can be written to.",
                remedy="Give one that the driver and all executors reach.",
            )
        return
    scheme = uri.split("://", 1)[0]
    context = spark.sparkContext
    assert context._jvm is not None
    try:
        context._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(
            scheme, context._jsc.hadoopConfiguration()
        )
    except Py4JJavaError:
        raise InvalidArgument(
            f"storage={uri!r}: Spark cannot read there (No FileSystem for scheme {scheme!r}).",
            remedy="Give a directory that the driver and all executors reach, or a URI under "
            "which both Spark and pyarrow know it.",
        ) from None


def check_path(given: Any, argument: str) -> None:
    """Refuse what is no path, and an empty path, which would be the working directory."""
    if not isinstance(given, str | os.PathLike) or not os.fspath(given):
        raise InvalidArgument(f"{argument}={given!r} is no path.", remedy="Give a directory.")


def _removed_with_java(spark: SparkSession, path: Path) -> Callable[[], None]:
    """Let Java remove a directory when it ends: it also ends when the driver was killed.

    Returns a function to call after the directory has been removed.
    """
    context = spark.sparkContext
    manager = java_class(context, "org.apache.spark.util.ShutdownHookManager")
    directory = java_class(context, "java.io.File")(str(path))
    manager.registerShutdownDeleteDir(directory)

    def forget() -> None:
        try:
            if spark.sparkContext._jsc is not None:
                manager.removeShutdownDeleteDir(directory)
        except (Py4JError, OSError):
            pass  # Java has ended before.

    return forget
