"""The state of a stream join on disk: versions that appear at once, files that never change.

    STATE/instance-0003/00000017.json     version 17 of instance 3: the state after batch 17
    STATE/instance-0003/files/...         rows that versions refer to, and the output of batches

A version exists from the moment its manifest does. The manifest lists the size and the checksum of
every file it needs and carries a checksum of itself.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.fs as fs
import xxhash

from watersmeet.errors import InvalidArgument, StateError

FORMAT = 4
Manifest = dict[str, Any]

_MANIFEST = re.compile(r"(\d{8,})\.json")
_FILE = re.compile(r"(\d{8,})-[0-9a-f]+\.arrow")
_INSTANCE = re.compile(r"instance-(\d{4,})")
_GIVEN_UP = "given-up"
_OWNER = "query"
_COPIED_BYTES = 2**20


class StoredFile(NamedTuple):
    size: int
    checksum: int


@dataclass(frozen=True)
class StateDirectory:
    """A directory by its URI, or by a path if it is on this machine. Can be sent to tasks."""

    uri: str

    @classmethod
    def parse(cls, state: object) -> StateDirectory:
        if not isinstance(state, str | os.PathLike) or not str(state):
            raise InvalidArgument(
                f"state={state!r} is no place for the state of a stream.",
                remedy="Give a directory or a URI that all executors reach, one for each query.",
            )
        text = str(state)
        place = cls(text.rstrip("/") if "://" in text else str(Path(text).absolute()))
        try:
            place.system()
        except (pa.ArrowInvalid, OSError) as error:
            raise InvalidArgument(
                f"state={text!r} cannot be reached: {error}.",
                remedy="Use a local path or a URI that pyarrow.fs knows, as in s3:// or hdfs://.",
            ) from error
        return place

    def system(self) -> tuple[fs.FileSystem, str]:
        system, path = fs.FileSystem.from_uri(self.uri)
        return system, path

    @property
    def local_path(self) -> Path | None:
        """Where it is, if it is a directory of this machine's own file systems."""
        system, path = self.system()
        return Path(path) if isinstance(system, fs.LocalFileSystem) else None

    def create(self) -> None:
        """Make the directory, and find out now whether it can be written to."""
        system, path = self.system()
        tried = f"{path}/tried-{uuid.uuid4().hex}"
        try:
            system.create_dir(path, recursive=True)
            with system.open_output_stream(tried) as out:
                out.write(bytes(4096))
            system.delete_file(tried)
        except OSError as error:
            raise unusable(self.uri, error) from error

    def check(self) -> None:
        """Refuse a place that no stream join has made: nothing there, or something else."""
        system, path = self.system()
        try:
            entries = system.get_file_info(fs.FileSelector(path))
        except OSError as error:
            raise StateError(
                f"There is no state of a stream join at {self.uri} ({type(error).__name__}).",
                remedy="Give the `state` that was given to wm.join_streams or wm.enrich.",
            ) from None
        # A query that begins has written nothing yet, or is about to.
        passing = ("spill", "draft-", "tried-", "master", "quarantine", "asked.json", "refused-")
        names = {info.base_name for info in entries if not info.base_name.startswith(passing)}
        if names and _OWNER not in names and not any(map(_INSTANCE.fullmatch, names)):
            raise StateError(
                f"{self.uri} is no state of a stream join: it holds {min(names)!r}.",
                remedy="Give the `state` that was given to wm.join_streams or wm.enrich.",
            )

    def claim(self, query: str) -> str:
        """Make this the state of a query, if it is nobody's yet; whose it is. Of two that ask at
        once, one gets it (on object stores both might)."""
        system, path = self.system()
        final, draft = f"{path}/{_OWNER}", f"{path}/draft-{uuid.uuid4().hex}"
        try:
            if not _exists(system, final):
                with system.open_output_stream(draft) as out:
                    out.write(query.encode())
                publish(system, draft, final)
            with system.open_input_stream(final) as source:
                return bytes(source.read()).decode()
        except OSError as error:
            raise unusable(self.uri, error) from error

    def owner(self) -> str | None:
        """The query whose state this is; None before its first batch."""
        system, path = self.system()
        try:
            with system.open_input_stream(f"{path}/{_OWNER}") as source:
                return bytes(source.read()).decode()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unusable(self.uri, error) from error

    def instance(self, number: int) -> InstanceState:
        return InstanceState(self.uri, number)

    def instances(self) -> list[int]:
        """The instances of which there is any state."""
        system, path = self.system()
        found = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
        names = (_INSTANCE.fullmatch(info.base_name) for info in found)
        return sorted(int(name[1]) for name in names if name)

    def latest(self) -> Manifest | None:
        """Some manifest of the newest version, for what all of them have in common."""
        for number in self.instances():
            instance = self.instance(number)
            if versions := instance.versions():
                return instance.read(versions[-1])
        return None


class InstanceState:
    """Versions and files of one instance.

    On a local file system a version is committed by making a hard link, which fails if there is
    one already: of several attempts, one wins. Elsewhere it is moved into place after a look
    whether there is one; HDFS refuses to replace it, an object store would let two attempts of
    one task that end in the same moment both win, so keep speculation off there.
    """

    def __init__(self, uri: str, number: int) -> None:
        self.number = number
        self.version = 0
        """The version that is being made. Files carry it in their names."""
        self.files: dict[str, StoredFile] = {}
        """Files that are known, from a manifest or because they were put here."""
        self._system, root = fs.FileSystem.from_uri(uri)
        self._path = f"{root}/instance-{number:04}"
        self._is_local = isinstance(self._system, fs.LocalFileSystem)

    def __str__(self) -> str:
        return self._path

    # ---- versions -------------------------------------------------------------------------------

    def versions(self) -> list[int]:
        names = (_MANIFEST.fullmatch(info.base_name) for info in self._list(self._path))
        return sorted(int(name[1]) for name in names if name)

    def has(self, version: int) -> bool:
        return self._exists(self._manifest(version))

    def read(self, version: int) -> Manifest | None:
        """A version's manifest; None if there is no such version."""
        found = _read(self._system, self._manifest(version))
        if found is None:
            return None
        manifest, manifest["batches"] = found
        return manifest

    def commit(self, version: int, manifest: Manifest) -> bool:
        """Make a version exist. False if it does already: then that one counts."""
        record = {name: value for name, value in manifest.items() if name != "batches"}
        try:
            return publish_record(
                self._system, self._manifest(version), record, texts=manifest["batches"]
            )
        except OSError as error:
            raise unusable(self._path, error) from error

    def give_up(self) -> None:
        """Have this state refused from now on."""
        try:
            with self._system.open_output_stream(f"{self._path}/{_GIVEN_UP}"):
                pass
        except OSError as error:
            raise unusable(self._path, error) from error

    @property
    def given_up(self) -> bool:
        return self._exists(f"{self._path}/{_GIVEN_UP}")

    def clean(self, version: int, keep: set[str]) -> None:
        """Remove versions older than the one before `version`, and files that `keep` lacks.

        Only files made for earlier versions: no attempt that writes them now can still commit, so
        a cleaner that is late does no harm. What cannot be removed now is tried again next time.
        """
        old = [self._manifest(each) for each in self.versions() if each < version - 1]
        for info in self._list(f"{self._path}/files"):
            made_for = _FILE.fullmatch(info.base_name)
            if made_for and int(made_for[1]) < version and info.base_name not in keep:
                old.append(info.path)
        for path in old:
            try:
                self._system.delete_file(path)
            except OSError:
                continue

    # ---- files ----------------------------------------------------------------------------------

    def begin(self, version: int) -> None:
        """Get ready to make a version."""
        self.version = version
        try:
            self._system.create_dir(f"{self._path}/files", recursive=True)
        except OSError as error:
            raise unusable(self._path, error) from error

    def put(self, path: Path) -> str:
        name = f"{self.version:08}-{uuid.uuid4().hex}.arrow"
        target = self._file(name)
        try:
            self.files[name] = _measure(path)
            if self._is_local:
                _link_or_copy(path, Path(target))
            else:
                with path.open("rb") as source, self._system.open_output_stream(target) as out:
                    shutil.copyfileobj(source, out, _COPIED_BYTES)
        except OSError as error:
            raise unusable(self._path, error) from error
        return name

    def get(self, name: str, path: Path) -> None:
        target = self._file(name)
        try:
            if self._is_local:
                _link_or_copy(Path(target), path)
            else:
                with self._system.open_input_stream(target) as source, path.open("xb") as out:
                    shutil.copyfileobj(source, out, _COPIED_BYTES)
            found = _measure(path)
        except OSError as error:
            raise _damaged(target, f"cannot be read ({error})") from error
        if found != self.files[name]:
            raise _damaged(target, "has been altered")

    def open(self, name: str) -> pa.NativeFile:
        try:
            return self._system.open_input_file(self._file(name))
        except OSError as error:
            raise _damaged(self._file(name), f"cannot be read ({error})") from error

    def read_block(self, source: pa.NativeFile, name: str, *, offset: int, length: int) -> Any:
        """Bytes of an open file. They are copied: mapped pages would count as the worker's."""
        try:
            source.seek(offset)
            block = source.read_buffer(length)
        except OSError as error:
            raise _damaged(self._file(name), f"cannot be read ({error})") from error
        if block.size != length:
            raise _damaged(self._file(name), "is shorter than what was written")
        return block

    def altered(self, name: str) -> StateError:
        return _damaged(self._file(name), "has been altered")

    def verify(self, manifest: Manifest) -> None:
        """Find out that all files of a version are there, with the right sizes."""
        self.files = {name: StoredFile(*file) for name, file in manifest["files"].items()}
        sizes = {info.base_name: info.size for info in self._list(f"{self._path}/files")}
        for name, file in self.files.items():
            if name not in sizes:
                raise _damaged(self._file(name), "is missing")
            if sizes[name] != file.size:
                raise _damaged(self._file(name), "has another size than what was written")

    def _list(self, path: str) -> list[fs.FileInfo]:
        selector = fs.FileSelector(path, allow_not_found=True)
        try:
            listed: list[fs.FileInfo] = self._system.get_file_info(selector)
        except OSError as error:
            raise _damaged(path, f"cannot be listed ({error})") from error
        return listed

    def _file(self, name: str) -> str:
        return f"{self._path}/files/{name}"

    def _manifest(self, version: int) -> str:
        return f"{self._path}/{version:08}.json"

    def _exists(self, path: str) -> bool:
        return _exists(self._system, path)


def read_record(system: fs.FileSystem, path: str) -> Manifest | None:
    """JSON that carries a checksum of itself; None if there is no such file."""
    found = _read(system, path)
    return None if found is None else found[0]


def _read(system: fs.FileSystem, path: str) -> tuple[Manifest, list[str]] | None:
    """A record and the texts that were published with it; None if there is no such file."""
    try:
        with system.open_input_stream(path) as source:
            text = source.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _damaged(path, f"cannot be read ({error})") from error
    try:
        checksum, content = text.split(b"\n", 1)
        if int(checksum) != xxhash.xxh3_64_intdigest(content):
            raise ValueError
        record, *texts = content.split(b"\n")
        return json.loads(record), [text.decode() for text in texts]
    except ValueError:
        raise _damaged(path, "has been altered") from None


def publish_record(
    system: fs.FileSystem, path: str, record: Manifest, *, texts: Iterable[str] = ()
) -> bool:
    """Write JSON that carries a checksum of itself, unless the file exists; whether it did.

    `texts` are lines of their own behind it, which nobody parses on the way: to write and to read
    the records of a hundred batches as a part of the JSON took a twentieth of a small batch.
    """
    content = "\n".join((json.dumps(record), *texts)).encode()
    draft = f"{path.rpartition('/')[0]}/draft-{uuid.uuid4().hex}"
    with system.open_output_stream(draft) as out:
        out.write(b"%d\n%s" % (xxhash.xxh3_64_intdigest(content), content))
    return publish(system, draft, path)


def publish(system: fs.FileSystem, draft: str, final: str) -> bool:
    """Give a file its final name unless that exists; whether it has it now. The draft is gone."""
    try:
        if isinstance(system, fs.LocalFileSystem):
            os.link(draft, final)
            return True
        if _exists(system, final):
            return False
        system.move(draft, final)
        return True
    except OSError:
        if _exists(system, final):
            return False
        raise
    finally:
        if _exists(system, draft):
            system.delete_file(draft)


def _exists(system: fs.FileSystem, path: str) -> bool:
    return bool(system.get_file_info(path).type is not fs.FileType.NotFound)


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:  # Another device, or a file system without links.
        shutil.copyfile(source, target)


def _measure(path: Path) -> StoredFile:
    digest, size = xxhash.xxh3_64(), 0
    with path.open("rb") as file:
        while piece := file.read(_COPIED_BYTES):
            digest.update(piece)
            size += len(piece)
    return StoredFile(size, digest.intdigest())


def unusable(place: str, error: OSError) -> StateError:
    return StateError(
        f"The state directory {place} cannot be written to ({error}).",
        remedy="Give `state` a directory with enough room that the driver and every executor can "
        "write to.",
    )


def _damaged(path: str, what: str) -> StateError:
    return StateError(
        f"{path}, of the state, {what}.",
        remedy="No row was emitted from it. Bring the file back from a copy, or start the query "
        "anew with an empty state and a new checkpoint.",
    )
