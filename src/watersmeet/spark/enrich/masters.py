"""The versions of a master table beside the state of its join: files that never change.

    STATE/master/00000003.json                  version 3 exists, and consists of these files
    STATE/master/00000003/instance-0002-...     its rows of instance 2

A version exists from the moment its record does. Versions are numbered from 0, which is the one
that a query begins with.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow.fs as fs

from watersmeet import errors
from watersmeet.errors import StateError, WatersmeetError
from watersmeet.spark.microbatches.state import (
    StateDirectory,
    publish_record,
    read_record,
    unusable,
)
from watersmeet.store.master.table import Master

_RECORD = re.compile(r"(\d{8,})\.json")
_FAILURE = "failed.json"
_FOLDER = re.compile(r"(\d{8,})")


@dataclass(frozen=True)
class MasterRecord:
    """What is known of one version."""

    number: int
    version: str
    """When it was laid down: what the result's version column says."""
    columns: list[str]
    files: list[dict[str, Any]]
    """For each instance the description of its file."""
    roots: list[str]
    """The places that the DataFrame was read from, if it was read from files."""
    look: str | None
    """Something that changes when the files do; None if nothing is known of them."""

    @property
    def rows(self) -> int:
        return sum(int(file["rows"]) for file in self.files)

    @property
    def nbytes(self) -> int:
        return sum(int(file["size"]) for file in self.files)


class Masters:
    """All versions of one join."""

    def __init__(self, state: StateDirectory) -> None:
        self._state = state
        self._system, root = state.system()
        self._path = f"{root}/master"

    def numbers(self) -> list[int]:
        """The versions that exist."""
        names = (_RECORD.fullmatch(info.base_name) for info in self._list())
        return sorted(int(name[1]) for name in names if name)

    def newest(self) -> MasterRecord | None:
        numbers = self.numbers()
        return self.read(numbers[-1]) if numbers else None

    def read(self, number: int) -> MasterRecord:
        record = read_record(self._system, self._record(number))
        if record is None:
            raise StateError(
                f"Version {number} of the master table, {self._record(number)}, is missing.",
                remedy="Bring it back from a copy, or start the query anew with an empty state "
                "and a new checkpoint.",
            )
        return MasterRecord(**record)

    def open(self, number: int, instance: int) -> Master:
        """The rows of an instance."""
        described = self.read(number).files[instance]
        return Master.open(f"{self.folder(number)}/{described['name']}", described)

    def folder(self, number: int) -> str:
        """Where the files of a version are: a path or a URI."""
        return f"{self._state.uri}/master/{number:08}"

    def prepare(self, number: int) -> str:
        """Make the folder of a new version, without what an attempt that failed has left there."""
        folder = f"{self._path}/{number:08}"
        try:
            if self._system.get_file_info(folder).type is not fs.FileType.NotFound:
                self._system.delete_dir(folder)
            self._system.create_dir(folder, recursive=True)
        except OSError as error:
            raise unusable(self._path, error) from error
        return self.folder(number)

    def publish(self, record: MasterRecord) -> None:
        """Make a version exist."""
        try:
            won = publish_record(self._system, self._record(record.number), asdict(record))
        except OSError as error:
            raise unusable(self._path, error) from error
        if not won:
            raise StateError(
                f"Version {record.number} of the master table in {self._path} was laid down by "
                "another program at the same time.",
                remedy="Give each query a state of its own, and start it once.",
            )

    def remove(self, numbers: list[int]) -> None:
        """Remove versions; first the records, so that none exists in part."""
        for number in numbers:
            try:
                self._system.delete_file(self._record(number))
                self._system.delete_dir(f"{self._path}/{number:08}")
            except OSError:
                continue  # Whoever removes the next version tries again.

    def remove_all(self) -> None:
        """Remove what was laid down for a query that has never begun."""
        self.remove(sorted({*self.numbers(), *self._folders()}))

    def remove_before(self, number: int) -> None:
        """Remove versions that nobody needs any more."""
        known = {*self.numbers(), *self._folders()}
        self.remove(sorted(each for each in known if each < number))

    # ---- what went wrong ------------------------------------------------------------------------

    def fail(self, error: WatersmeetError) -> None:
        """Have the query end with an error that was found between its batches."""
        said = {"kind": type(error).__name__, "cause": error.cause, "remedy": error.remedy}
        try:
            publish_record(self._system, f"{self._path}/{_FAILURE}", said)
        except OSError as reason:
            raise unusable(self._path, reason) from reason

    def check(self) -> None:
        """Raise the error that was found, if there is one."""
        said = read_record(self._system, f"{self._path}/{_FAILURE}")
        if said is not None:
            raise getattr(errors, said["kind"])(said["cause"], remedy=said["remedy"])

    def forgive(self) -> None:
        """Forget the error: the query is started again."""
        with contextlib.suppress(FileNotFoundError):
            self._system.delete_file(f"{self._path}/{_FAILURE}")

    def _folders(self) -> list[int]:
        names = (_FOLDER.fullmatch(info.base_name) for info in self._list())
        return [int(name[1]) for name in names if name]

    def _record(self, number: int) -> str:
        return f"{self._path}/{number:08}.json"

    def _list(self) -> list[fs.FileInfo]:
        try:
            listed: list[fs.FileInfo] = self._system.get_file_info(
                fs.FileSelector(self._path, allow_not_found=True)
            )
        except OSError as error:
            raise unusable(self._path, error) from error
        return listed
