"""Which files is a table made of, and is each still the one that was there when the join began?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from watersmeet.errors import InputChanged
from watersmeet.spark.scans.refusal import Refused

JavaObject = Any
"""What py4j hands out: an object of the JVM, whose methods mypy cannot know."""


@dataclass(frozen=True)
class DataFile:
    """A file as it was found, with the values that its path gives to the partition columns.

    Values are held as Spark holds them: a date in days, a timestamp in microseconds.
    """

    path: str
    size: int
    modified: int
    partition: tuple[Any, ...] = ()

    @classmethod
    def find(cls, path: str, partition: tuple[Any, ...] = ()) -> DataFile:
        status = Path(path).stat()
        return cls(path, status.st_size, status.st_mtime_ns, partition)

    def check(self) -> None:
        """Raise if the file is not the one that was found."""
        try:
            now = self.find(self.path, self.partition)
        except OSError as error:
            raise self._changed("has vanished or cannot be reached") from error
        if now != self:
            raise self._changed("has changed")

    def _changed(self, what: str) -> InputChanged:
        return InputChanged(
            f"The input file {self.path} {what} since the join began.",
            remedy="Keep the files of both inputs as they are while the join runs, or join a copy "
            "of them. Read the DataFrame anew and run the join again.",
        )


def list_files(relation: JavaObject, *, nothing: JavaObject) -> tuple[DataFile, ...]:
    """The files that Spark would read, in its own list; `nothing` is an empty sequence.

    What a path says about partition columns is asked for once per directory, and of Spark: it
    knows which types it has inferred, and how it reads an odd name.
    """
    location = relation.location()
    paths = [_local_path(uri) for uri in location.inputFiles()]
    directories = location.listFiles(nothing, nothing)
    kinds = [field.dataType() for field in _elements(relation.partitionSchema().toSeq())]
    partitions: dict[str, tuple[Any, ...]] = {}
    expected = 0
    for directory in _elements(directories):
        held = directory.files()
        count = held.size()
        expected += count
        if kinds and count:
            values = directory.values()
            partitions[_folder(held.apply(0).getPath().toString())] = tuple(
                _plain(values.get(place, kind)) for place, kind in enumerate(kinds)
            )
    found = (_find(path, partitions) for path in paths if _is_data(path))
    files = tuple(file for file in found if file.size)
    if len(files) != expected or not all(len(file.partition) == len(kinds) for file in files):
        raise Refused("its files have changed since Spark listed them")
    return files


def _find(path: str, partitions: Mapping[str, tuple[Any, ...]]) -> DataFile:
    try:
        return DataFile.find(path, partitions.get(_folder(path), ()))
    except OSError as error:
        raise Refused(f"{path} cannot be opened from here ({error})") from error


def _is_data(path: str) -> bool:
    """Spark lists some files, such as Parquet summaries, that it does not read; nor empty ones."""
    return not PurePosixPath(path).name.startswith(("_", "."))


def _local_path(uri: str) -> str:
    parts = urlsplit(uri)
    if parts.scheme != "file":
        raise Refused(
            f"its files are on {parts.scheme}:, and only those on file: are read directly"
        )
    return unquote(parts.path)


def _folder(path: str) -> str:
    """Of a path as we write it or, after `file:`, as Hadoop does."""
    return str(PurePosixPath(path.removeprefix("file:")).parent)


def _elements(sequence: JavaObject) -> list[JavaObject]:
    return [sequence.apply(place) for place in range(sequence.size())]


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | bytes):
        return value
    name = value.getClass().getSimpleName()
    if name == "UTF8String":
        return value.toString()
    if name == "Decimal":
        return Decimal(value.toString())
    raise Refused(f"a partition column holds a {name}")
