"""What a master table can be in this process, and how it is looked at again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, TypeVar

from watersmeet.errors import InputChanged, InvalidArgument
from watersmeet.local.files import find_files
from watersmeet.local.postgres import Postgres
from watersmeet.local.sources import Source, all_paths, no_columns, open_source

WORD = "master"

# A file that changes while it is read is read again so often, after pauses that double.
_TRIES = 6
_FIRST_PAUSE_S = 0.1

T = TypeVar("T")


class MasterInput(Protocol):
    """A master table that can be looked at again."""

    def look(self) -> Hashable | None:
        """Something that changes when the table does; None if only reading it tells."""
        ...

    def open(self) -> Source | None:
        """The table as it is now, with its columns; None if there is nothing new."""
        ...

    def pause_after(self, error: Exception, *, tries: int, seconds: float) -> float:
        """How many seconds to wait before it is read again after an error, when it has been tried
        so often, for so many seconds. Raises the error, or one that says more, if that is in vain.
        """
        ...


def patiently(master: MasterInput, act: Callable[[], T], pause: Callable[[float], object]) -> T:
    """What `act` returns, tried again as long as the master says that it may help."""
    began, tries = time.monotonic(), 0
    while True:
        try:
            return act()
        except Exception as error:
            tries += 1
            pause(master.pause_after(error, tries=tries, seconds=time.monotonic() - began))


def master_input(master: Any, *, batch_bytes: int, refreshed: bool) -> MasterInput:
    """Recognise a master. `refreshed`: it is to be looked at again."""
    if isinstance(master, Postgres):
        return _Database(master, batch_bytes)
    is_list = isinstance(master, list | tuple) and bool(master) and all_paths(master)
    if is_list or isinstance(master, str | os.PathLike):
        return _Files(master, batch_bytes)
    if _is_function(master):
        return _Called(master, batch_bytes)
    if refreshed:
        raise InvalidArgument(
            f"refresh= has the master looked at again, and a {type(master).__name__} is always "
            "the same.",
            remedy="Give a path, wm.postgres(...), or a function that returns the table as it is "
            "now; or leave refresh= out.",
        )
    return _Once(master, batch_bytes)


def _is_function(master: Any) -> bool:
    return callable(master) and not hasattr(master, "__arrow_c_stream__")


class _Once:
    """A table, or something that can be read once."""

    def __init__(self, master: Any, batch_bytes: int) -> None:
        self._master = master
        self._batch_bytes = batch_bytes

    def look(self) -> Hashable | None:
        return None

    def open(self) -> Source | None:
        return _with_columns(open_source(self._master, word=WORD, batch_bytes=self._batch_bytes))

    def pause_after(self, error: Exception, *, tries: int, seconds: float) -> float:
        raise error


class _Called(_Once):
    """A function that returns a table; None if there is nothing new."""

    _current: MasterInput | None = None

    def open(self) -> Source | None:
        found = self._master()
        if found is None and self._current is not None:
            return None
        if found is None or _is_function(found):
            raise InvalidArgument(
                f"master is a function that returned {found!r}, which is no table.",
                remedy="Return a table, a path, or batches; None, later, if nothing has changed.",
            )
        self._current = master_input(found, batch_bytes=self._batch_bytes, refreshed=False)
        return self._current.open()

    def pause_after(self, error: Exception, *, tries: int, seconds: float) -> float:
        if self._current is None:
            raise error
        return self._current.pause_after(error, tries=tries, seconds=seconds)


class _Files(_Once):
    """Files. They have changed if a name, a size or a time of change is another one."""

    def look(self) -> Hashable:
        paths = self._master if isinstance(self._master, list | tuple) else [self._master]
        found = [file.path for path in paths for file in find_files(Path(path), WORD)]
        self._looked = tuple((str(file), *_state(file)) for file in found)
        return self._looked

    _looked: Hashable = None

    def pause_after(self, error: Exception, *, tries: int, seconds: float) -> float:
        before = self._looked
        if before is None:  # It has never been there.
            raise error
        try:
            same = self.look() == before and not isinstance(error, InputChanged)
        except InvalidArgument:  # It is not there: perhaps another one is about to take its place.
            same = tries >= _TRIES
        if same:
            raise error
        if tries >= _TRIES:
            raise InputChanged(
                f"The files of {self._master} changed each of the {tries} times that they were "
                "read as the master.",
                remedy="Write a new version to another name, and move it over the old one when it "
                "is complete.",
            ) from error
        return _FIRST_PAUSE_S * 2.0**tries


def _state(file: Path) -> tuple[int, int]:
    try:
        status = file.stat()
    except OSError:  # It went after it was listed, which is a change as well.
        return -1, -1
    return status.st_size, status.st_mtime_ns


class _Database(_Once):
    """A query. If the server does not answer, it is asked again, after longer and longer pauses."""

    def look(self) -> Hashable | None:
        query: Postgres = self._master
        return query.look()

    def open(self) -> Source | None:
        query: Postgres = self._master
        reader = query.open(self._batch_bytes)
        return Source(f"{WORD} ({query.server})", reader.schema, lambda: iter(reader), None)

    def pause_after(self, error: Exception, *, tries: int, seconds: float) -> float:
        query: Postgres = self._master
        return query.pause_after(error, tries=tries, seconds=seconds)


def _with_columns(source: Source) -> Source:
    """The source with its columns, for which a plain iterator is asked for its first batch."""
    if source.schema is not None:
        return source
    batches = source.batches()
    first = next(batches, None)
    if first is None:
        raise no_columns(source.name)
    return replace(source, schema=first.schema, batches=lambda: chain([first], batches))
