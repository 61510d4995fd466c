"""The directory in which scan tasks leave rows for join tasks, and these their results.

The driver and all executors can access it. Tasks write files under names of their own, and a file
is read only if its name is in the result of a task that succeeded. So files of a failed, retried or
speculative attempt are never read, and are removed with the directory.
"""

from __future__ import annotations

import contextlib
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.fs as fs
import xxhash

from watersmeet.errors import InvalidArgument, SpillCorrupted, SpillError


class Section(NamedTuple):
    """A block of rows in a file, for one instance."""

    instance: int
    offset: int
    length: int
    checksum: int
    rows: int


@dataclass(frozen=True)
class Sections:
    """One written file and its sections, as plain values that a task sends to the driver."""

    name: str
    sections: tuple[Section, ...]
    divided: int | None = None
    """How many rows were divided, if some of them went to several instances."""

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "sections": [list(section) for section in self.sections]}

    @classmethod
    def from_description(cls, described: dict[str, Any]) -> Sections:
        sections = tuple(Section(*section) for section in described["sections"])
        return cls(described["name"], sections)

    def of(self, instance: int) -> Sections:
        """The sections that one instance has to read."""
        mine = tuple(section for section in self.sections if section.instance == instance)
        return Sections(self.name, mine)

    def by_instance(self) -> dict[int, Sections]:
        """The sections that each instance has to read."""
        found: dict[int, list[Section]] = defaultdict(list)
        for section in self.sections:
            found[section.instance].append(section)
        return {instance: Sections(self.name, tuple(mine)) for instance, mine in found.items()}

    def only(self, instances: Collection[int]) -> Sections:
        """The sections of some instances."""
        mine = tuple(section for section in self.sections if section.instance in instances)
        return Sections(self.name, mine)

    @property
    def rows(self) -> int:
        if self.divided is not None:
            return self.divided
        return sum(section.rows for section in self.sections)

    @property
    def nbytes(self) -> int:
        return sum(section.length for section in self.sections)


@dataclass(frozen=True)
class ExchangeDir:
    """A directory, given by its URI; it can be pickled and sent to tasks."""

    uri: str

    def create(self) -> None:
        """Make the directory, and write a file to see whether that is possible."""
        system, path = self._place()
        with self.writing():
            system.create_dir(path, recursive=True)
            with system.open_output_stream(f"{path}/tried") as out:
                out.write(bytes(4096))
            system.delete_file(f"{path}/tried")

    def remove_all_but(self, extension: str) -> None:
        """Remove all directories, and all files whose names end otherwise, but for the lock."""
        system, path = self._place()
        with contextlib.suppress(OSError):  # Files that are left are removed with the directory.
            for entry in system.get_file_info(fs.FileSelector(path)):
                if entry.type == fs.FileType.Directory:
                    system.delete_dir(entry.path)
                elif not entry.base_name.endswith((extension, ".lock")):
                    system.delete_file(entry.path)

    def delete(self, name: str) -> None:
        system, path = self._place()
        with contextlib.suppress(OSError):
            system.delete_file(f"{path}/{name}")

    def remove(self) -> None:
        system, path = self._place()
        with contextlib.suppress(OSError):  # It was removed already, or never made.
            system.delete_dir(path)

    def path_of(self, name: str) -> str:
        """A file's URI, for Spark to read."""
        return f"{self.uri}/{name}"

    def new_name(self, stem: str, extension: str) -> str:
        """A name that no other attempt of the same task will use."""
        return f"{stem}-{uuid.uuid4().hex[:12]}.{extension}"

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Raise errors of the file system as errors that name this directory, with a remedy."""
        try:
            yield
        except OSError as error:
            raise self._unusable(error) from error

    def open_output(self, name: str) -> pa.NativeFile:
        system, path = self._place()
        with self.writing():
            return system.open_output_stream(f"{path}/{name}")

    def write_sections(self, stem: str, blocks: Iterator[tuple[int, pa.RecordBatch]]) -> Sections:
        """Write a file of (instance, rows), a section for each."""
        with self.sections_file(stem) as file:
            for instance, rows in blocks:
                file.append(instance, rows)
        return file.written

    @contextlib.contextmanager
    def sections_file(self, stem: str) -> Iterator[SectionsFile]:
        """A new file for sections, which is complete when it is left."""
        name = self.new_name(stem, "arrow")
        file = SectionsFile(self, name, self.open_output(name))
        yield file  # Not within `writing`: errors of who writes are none of the storage.
        file.close()

    def read_sections(
        self, files: Sequence[Sections], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """The rows of these files in order; a section's checksum is compared before it is used."""
        system, path = self._place()
        for file in files:
            if not file.sections:
                continue
            try:
                source = system.open_input_file(f"{path}/{file.name}")
            except OSError as error:
                raise self._damaged(file.name, "cannot be opened") from error
            with source:
                for section in file.sections:
                    yield self._read(source, file.name, section, schema)

    def _read(
        self, source: pa.NativeFile, name: str, section: Section, schema: pa.Schema
    ) -> pa.RecordBatch:
        try:
            message = source.read_at(section.length, section.offset)
        except OSError as error:
            raise self._damaged(name, "cannot be read") from error
        if len(message) != section.length:
            raise self._damaged(name, "is shorter than what was written")
        if xxhash.xxh3_64_intdigest(message) != section.checksum:
            raise self._damaged(name, "has been altered")
        return pa.ipc.read_record_batch(pa.py_buffer(message), schema)

    def _place(self) -> tuple[fs.FileSystem, str]:
        try:
            system, path = fs.FileSystem.from_uri(self.uri)
        except OSError as error:
            raise self._unusable(error) from error
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidArgument(
                f"storage={self.uri!r} is no place that pyarrow can write to ({error}).",
                remedy="Give a directory, or a URI of file:, hdfs:, s3: or gs:.",
            ) from error
        return system, path

    def _unusable(self, error: OSError) -> SpillError:
        return SpillError(
            f"The run's storage {self.uri} cannot be written to ({error}).",
            remedy="Give `storage` a directory with enough room that the driver and every "
            "executor can write to.",
        )

    def _damaged(self, name: str, what: str) -> SpillCorrupted:
        return SpillCorrupted(
            f"The run's file {self.uri}/{name} {what}.",
            remedy="Nothing was read from it. Keep other programs out of `storage`, and run the "
            "join again.",
        )


class SectionsFile:
    """A file that is written a section at a time."""

    def __init__(self, storage: ExchangeDir, name: str, out: pa.NativeFile) -> None:
        self._storage = storage
        self._name = name
        self._out = out
        self._sections: list[Section] = []
        self._offset = 0

    def append(self, instance: int, rows: pa.RecordBatch) -> None:
        message = rows.serialize()
        with self._storage.writing():
            self._out.write(message)
        checksum = xxhash.xxh3_64_intdigest(message)
        section = Section(instance, self._offset, message.size, checksum, len(rows))
        self._sections.append(section)
        self._offset += message.size

    def close(self) -> None:
        with self._storage.writing():
            self._out.close()

    @property
    def written(self) -> Sections:
        return Sections(self._name, tuple(self._sections))
