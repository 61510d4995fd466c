"""Where a state may not be: in a folder that a source reads or a checkpoint owns, or around one.

A source would read the state's files as its own, and whoever removes the one removes the other.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow.fs as fs

from watersmeet.errors import InvalidArgument, StateError
from watersmeet.spark.microbatches.state import StateDirectory, unusable


def check_apart_from_sources(
    directory: StateDirectory, folders: Mapping[str, Sequence[str]]
) -> None:
    """Refuse a state in a folder that an input is read from, or around it. Folders are given by
    what messages call the input."""
    mine = _place(directory.uri)
    for name, paths in folders.items():
        for path in paths:
            theirs = _place(path)
            if mine[0] == theirs[0] and _nested(mine[1], theirs[1]):
                raise InvalidArgument(
                    f"state={directory.uri!r} and {path}, which the {name} is "
                    "read from, lie one in the other: files of the state would be read as rows.",
                    remedy="Give the state a directory of its own, beside the inputs.",
                )


def source_folders(stream: Any) -> list[str]:
    """The paths that a streaming DataFrame's sources were given, as its plan shows them."""
    leaves = stream._jdf.queryExecution().analyzed().collectLeaves()
    found = []
    for number in range(leaves.size()):
        leaf = leaves.apply(number)
        if leaf.getClass().getSimpleName() == "StreamingRelation":
            source = leaf.dataSource()
            found += [source.paths().apply(n) for n in range(source.paths().size())]
            path = source.options().get("path")
            found += [path.get()] if path.isDefined() else []
    return sorted(set(found))


def check_apart_from_checkpoints(directory: StateDirectory) -> None:
    """Refuse a state in a checkpoint's folder, or around one. It can be known once the query has
    begun: a checkpoint has a file `metadata` beside a folder `offsets`."""
    try:
        _check_checkpoints(directory)
    except OSError as error:
        raise unusable(directory.uri, error) from error


def _check_checkpoints(directory: StateDirectory) -> None:
    system, path = directory.system()
    if isinstance(system, fs.LocalFileSystem):
        path = os.path.realpath(path)
    around = [str(folder) for folder in (PurePosixPath(path), *PurePosixPath(path).parents)]
    for folder in around:
        if _is_checkpoint(system, folder):
            raise _in_the_way(directory, folder)
    listed = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
    for info in listed:
        if info.type is fs.FileType.Directory and _is_checkpoint(system, info.path):
            raise _in_the_way(directory, info.path)


def _in_the_way(directory: StateDirectory, checkpoint: str) -> StateError:
    return StateError(
        f"The state {directory.uri} and the checkpoint {checkpoint} lie one in the other.",
        remedy="Give the state a directory of its own, beside the checkpoint, and begin with an "
        "empty one of each.",
    )


def _is_checkpoint(system: fs.FileSystem, folder: str) -> bool:
    base = folder.rstrip("/")
    metadata, offsets = system.get_file_info([f"{base}/metadata", f"{base}/offsets"])
    return metadata.type is fs.FileType.File and offsets.type is fs.FileType.Directory


def _place(path: str) -> tuple[str, PurePosixPath]:
    """Which file system, and where there. A path with wildcards is what comes before them."""
    parts = urlsplit(path)
    if parts.scheme in ("", "file"):
        host, text = "", unquote(parts.path) if parts.scheme else path
        text = str(PurePosixPath(*_absolute(text)))
    else:
        host, text = f"{parts.scheme}://{parts.netloc}", unquote(parts.path)
    plain = []
    for name in PurePosixPath(text).parts:
        if any(sign in name for sign in "*?[{"):
            break
        plain.append(name)
    return host, PurePosixPath(*plain)


def _absolute(path: str) -> tuple[str, ...]:
    return PurePosixPath(os.path.realpath(path)).parts


def _nested(one: PurePosixPath, other: PurePosixPath) -> bool:
    return one == other or one in other.parents or other in one.parents
