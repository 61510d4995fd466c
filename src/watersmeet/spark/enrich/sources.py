"""What a master table is on Spark, and how one tells that it has changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import xxhash
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from watersmeet.errors import InvalidArgument
from watersmeet.spark.frames import check_dataframe
from watersmeet.spark.keys import first_line

WORD = "master"


@dataclass(frozen=True)
class MasterSource:
    """A master table as it was given: a DataFrame, a function that returns one, or a path."""

    read: Callable[[], Any]
    changes: bool
    """Whether `read` may give another table each time."""

    @classmethod
    def of(cls, master: Any, spark: SparkSession, *, refreshed: bool) -> MasterSource:
        """Recognise a master table; `refreshed` says that it is to be looked at again."""
        if isinstance(master, str | os.PathLike):
            path = os.fspath(master)
            return cls(lambda: _loaded(spark, path), changes=True)
        if callable(master) and not hasattr(master, "mapInArrow"):
            return cls(master, changes=True)
        if refreshed:
            raise InvalidArgument(
                "refresh= has the master looked at again, and a DataFrame keeps the list of its "
                "files.",
                remedy="Give a path, or a function that reads the table anew, as in "
                'master=lambda: spark.read.parquet("items"); or leave refresh= out.',
            )
        return cls(lambda: master, changes=False)

    def frame(self) -> DataFrame | None:
        """The table as it is now; None if a function says that there is nothing new."""
        found = self.read()
        if found is None and self.changes:
            return None
        check_dataframe(found, WORD)
        if found.isStreaming:
            raise InvalidArgument(
                "master is a DataFrame that streams.",
                remedy="Use wm.join_streams for two streams; read the master with spark.read.",
            )
        frame: DataFrame = found
        return frame

    def first(self) -> DataFrame:
        frame = self.frame()
        if frame is None:
            raise InvalidArgument(
                "master is a function that returned None, and there is no version before.",
                remedy="Return a DataFrame; None, later, if nothing has changed.",
            )
        return frame


def _loaded(spark: SparkSession, path: str) -> DataFrame:
    try:
        return spark.read.load(path)
    except PySparkException as error:
        raise InvalidArgument(
            f"Spark cannot read master={path!r}: {first_line(error)}",
            remedy="Give the path of Parquet files (of what spark.sql.sources.default says), or a "
            'function that reads another format, as in lambda: spark.read.csv("items").',
        ) from None


@dataclass(frozen=True)
class Look:
    """What a DataFrame knows of its table without reading it."""

    roots: tuple[str, ...]
    """The places that its files are read from."""
    files: frozenset[File] | None
    """As Spark listed them, before it read the columns of one; None if not all of the table comes
    from files."""

    @classmethod
    def at(cls, frame: DataFrame) -> Look:
        leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
        roots: set[str] = set()
        files: set[File] = set()
        known = leaves.size() > 0
        for number in range(leaves.size()):
            location = _location(leaves.apply(number))
            if location is None:
                known = False
                continue
            paths = location.rootPaths()
            roots |= {paths.apply(n).toString() for n in range(paths.size())}
            files |= set(_listed(frame, location))
        return cls(tuple(sorted(roots)), frozenset(files) if known else None)

    @property
    def summary(self) -> str | None:
        """Something that changes when the files do."""
        if self.files is None:
            return None
        digest = xxhash.xxh3_64()
        for file in sorted(self.files):
            digest.update(b"%s %d %d;" % (file.uri.encode(), file.size, file.changed_ms))
        return digest.hexdigest()

    def is_true(self) -> bool:
        """Whether the files of this machine are still what Spark listed. Elsewhere a new table has
        new names, as all that write to object stores see to."""
        return all(file.is_unchanged() for file in self.files or ())


class File(NamedTuple):
    """A file as Spark listed it."""

    uri: str
    size: int
    changed_ms: int

    def is_unchanged(self) -> bool:
        parts = urlsplit(self.uri)
        if parts.scheme != "file":
            return True
        try:
            status = Path(unquote(parts.path)).stat()
        except OSError:
            return False
        return (status.st_size, status.st_mtime_ns // 1_000_000) == (self.size, self.changed_ms)


def _listed(frame: DataFrame, location: Any) -> Iterator[File]:
    """The files of a relation, as the DataFrame found them when it was made."""
    assert frame.sparkSession._jvm is not None
    no_filters = frame.sparkSession._jvm.PythonUtils.toSeq([])
    folders = location.listFiles(no_filters, no_filters)
    for number in range(folders.size()):
        statuses = folders.apply(number).files()
        for place in range(statuses.size()):
            status = statuses.apply(place)
            uri = status.getPath().toUri().toString()
            yield File(uri, status.getLen(), status.getModificationTime())


def _location(leaf: Any) -> Any | None:
    """The list of files of a relation; None if it is none of files."""
    if leaf.getClass().getSimpleName() != "LogicalRelation":
        return None
    relation = leaf.relation()
    if relation.getClass().getSimpleName() != "HadoopFsRelation":
        return None
    return relation.location()
