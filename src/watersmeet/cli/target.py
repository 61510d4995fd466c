"""Which files a command may write."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from watersmeet.errors import InvalidArgument


def check_target(path: str, option: str, *, inputs: Iterable[str], force: bool) -> None:
    """Find out before anything is read that `path` cannot, or must not, be written.

    An input is never overwritten, not even under another name, and no file is put into an input's
    directory, where the next command would read it. Other files are overwritten with `force`.
    """
    target = Path(path)
    if not target.absolute().parent.is_dir():
        raise InvalidArgument(
            f"{option} {path} is in a directory that does not exist.", remedy="Create it first."
        )
    for given in inputs:
        for source in _named(given):
            if _is_or_is_in(target, source):
                raise InvalidArgument(
                    f"{option} {path} is one of the inputs, or in its directory ({source}).",
                    remedy="Write to another place: an input is never overwritten.",
                )
    if target.is_dir():
        raise InvalidArgument(f"{option} {path} is a directory.", remedy="Name a file in it.")
    if not force and os.path.lexists(target):
        raise InvalidArgument(
            f"{option} {path} exists.", remedy="Choose another name, or overwrite it with --force."
        )
    if not os.access(target.absolute().parent, os.W_OK):
        raise InvalidArgument(
            f"{option} {path} cannot be written: its directory is not yours to write to.",
            remedy="Choose a place that is writable.",
        )


def _named(given: str) -> Iterator[Path]:
    """The paths that an input names: itself, or all that match its pattern."""
    if os.path.lexists(given):
        yield Path(given)
    elif glob.has_magic(given):
        yield from map(Path, glob.glob(given, recursive=True))  # noqa: PTH207


def _is_or_is_in(target: Path, source: Path) -> bool:
    resolved, of = target.resolve(), source.resolve()
    if resolved == of or (of.is_dir() and of in resolved.parents):
        return True
    if not target.exists():
        return False
    # It may be an input's file under another name: a link, perhaps below a directory.
    files = of.rglob("*") if of.is_dir() else [of]
    return any(file.exists() and file.samefile(target) for file in files)
