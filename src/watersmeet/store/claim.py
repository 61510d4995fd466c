"""The spill directory of a join, tested before the first row is read and removed after a crash."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from pathlib import Path

from watersmeet.errors import InvalidArgument
from watersmeet.store.spill import SpillArea, unusable

_LOCK = "owner.lock"
_OURS = re.compile(r"watersmeet-(\d+)-\w+")


class SpillClaim:
    """A spill area in a directory that is locked as long as its process lives.

    The system releases the lock when the process ends, however it does. A directory of this name
    that is not locked and whose process has ended is left over, and the next claim removes it.
    """

    def __init__(self, directory: str | Path | None, *, argument: str = "spill_dir") -> None:
        """`argument` is what the user calls the directory."""
        if directory is not None and not isinstance(directory, str | os.PathLike):
            raise InvalidArgument(
                f"{argument}={directory!r} is no path.", remedy="Give an existing directory."
            )
        base = Path(tempfile.gettempdir() if directory is None else directory)
        sweep(base)
        self.area = SpillArea(base, argument=argument)
        self._argument = argument
        self._lock = -1
        try:
            self._lock = self._open_locked()
            self._try_a_block()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.area.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _open_locked(self) -> int:
        path = self.area.path / _LOCK
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise unusable(path.parent.parent, error, argument=self._argument) from error
        with contextlib.suppress(OSError):  # Some network file systems have no locks.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return lock

    def _try_a_block(self) -> None:
        """Write a block, so that a full disk is noticed now and not after an hour of joining."""
        path = self.area.path / "tried"
        try:
            path.write_bytes(bytes(self.area.block_bytes))
        except OSError as error:
            raise unusable(self.area.path.parent, error, argument=self._argument) from error
        finally:
            path.unlink(missing_ok=True)


def sweep(base: Path) -> None:
    """Remove directories below `base` that joins have left whose processes were killed."""
    try:
        entries = list(os.scandir(base))
    except OSError:
        return  # The claim that follows raises an error, with a remedy.
    for entry in entries:
        named = _OURS.fullmatch(entry.name)
        if named and _is_my_directory(entry) and not _is_alive(int(named[1])):
            _remove_unless_locked(Path(entry.path))


def _is_my_directory(entry: os.DirEntry[str]) -> bool:
    """Whether it is a directory of this user, and not a link that another user has put there."""
    try:
        status = entry.stat(follow_symlinks=False)
        return entry.is_dir(follow_symlinks=False) and status.st_uid == os.getuid()
    except OSError:
        return False


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def _remove_unless_locked(directory: Path) -> None:
    """Remove a directory if nobody holds its lock. An owner in another container, whose process
    number cannot be seen from here, holds it, too."""
    with contextlib.suppress(OSError):
        lock = os.open(directory / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(directory, ignore_errors=True)
        finally:
            os.close(lock)
