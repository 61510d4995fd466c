"""Versions and files of one instance, without Spark: the first to commit wins, the old go."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest

from watersmeet.errors import StateError
from watersmeet.spark import cache
from watersmeet.spark.microbatches.state import InstanceState, Manifest, StateDirectory


@pytest.fixture
def directory(tmp_path: Path) -> StateDirectory:
    state = StateDirectory.parse(tmp_path / "state")
    state.create()
    return state


def put(state: InstanceState, version: int, content: bytes, scratch: Path) -> str:
    state.begin(version)
    path = scratch / "draft"
    path.write_bytes(content)
    name = state.put(path)
    path.unlink()
    return name


def manifest(state: InstanceState, *names: str) -> Manifest:
    batches = ['{"batch": 0, "words": "one\\ntwo"}', '{"batch": 1}']
    return {"files": {name: list(state.files[name]) for name in names}, "batches": batches}


def test_a_version_is_there_as_it_was_committed(directory: StateDirectory, tmp_path: Path) -> None:
    state = directory.instance(3)
    assert state.read(0) is None
    name = put(state, 0, b"rows", tmp_path)
    assert state.commit(0, manifest(state, name))
    again = directory.instance(3)
    found = again.read(0)
    assert found == manifest(state, name)
    again.verify(found)
    again.get(name, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"rows"
    assert directory.instances() == [3]
    assert directory.latest() == found


def test_the_second_to_commit_is_told_so(directory: StateDirectory) -> None:
    state = directory.instance(0)
    state.begin(0)
    assert state.commit(0, {"files": {}, "by": 1, "batches": []})
    assert not directory.instance(0).commit(0, {"files": {}, "by": 2, "batches": []})
    assert state.read(0) == {"files": {}, "by": 1, "batches": []}
    assert [path.name for path in Path(str(state)).iterdir() if path.is_file()] == ["00000000.json"]


def commit_some(uri: str, by: int) -> list[int]:
    state = StateDirectory(uri).instance(0)
    state.begin(0)
    return [version for version in range(200) if state.commit(version, {"by": by, "batches": []})]


def test_of_many_at_once_exactly_one_wins(directory: StateDirectory) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(3) as pool:
        won = pool.starmap(commit_some, [(directory.uri, by) for by in range(3)])
    assert sorted(version for mine in won for version in mine) == list(range(200))
    for by, mine in enumerate(won):
        for version in mine:
            assert directory.instance(0).read(version) == {"by": by, "batches": []}


def test_cleaning_leaves_what_is_needed_and_what_is_being_made(
    directory: StateDirectory, tmp_path: Path
) -> None:
    state = directory.instance(0)
    names = []
    for version in range(5):
        names.append(put(state, version, b"%d" % version, tmp_path))
        assert state.commit(version, manifest(state, *names[-2:]))
    orphan = put(state, 2, b"of an attempt that failed", tmp_path)
    coming = put(state, 5, b"of the next batch", tmp_path)
    state.clean(4, set(names[2:]))
    assert state.versions() == [3, 4]
    left = {path.name for path in (Path(str(state)) / "files").iterdir()}
    assert left == {*names[2:], coming}
    assert orphan not in left
    for version in (3, 4):
        found = state.read(version)
        assert found is not None
        state.verify(found)


@pytest.mark.parametrize("damage", ["missing", "altered", "size"])
def test_damage_is_found(directory: StateDirectory, tmp_path: Path, damage: str) -> None:
    state = directory.instance(0)
    name = put(state, 0, b"rows" * 100, tmp_path)
    described = manifest(state, name)
    file = Path(str(state)) / "files" / name
    file.unlink()
    if damage == "altered":
        file.write_bytes(b"ROWS" * 100)
        state.verify(described)
        with pytest.raises(StateError, match="altered"):
            state.get(name, tmp_path / "copy")
        return
    if damage == "size":
        file.write_bytes(b"rows")
    with pytest.raises(StateError, match=damage):
        state.verify(described)


def test_an_altered_manifest_is_found(directory: StateDirectory) -> None:
    state = directory.instance(0)
    state.begin(0)
    state.commit(0, {"files": {}, "number": 1, "batches": []})
    path = Path(str(state)) / "00000000.json"
    path.write_text(path.read_text().replace('"number": 1', '"number": 2'))
    with pytest.raises(StateError, match="altered"):
        state.read(0)
    path.write_text(json.dumps({}))
    with pytest.raises(StateError, match="altered"):
        state.read(0)


def test_a_state_elsewhere_than_on_local_disks(tmp_path: Path) -> None:
    """By a URI, as on a cluster; the local file system stands in for a remote one."""
    directory = StateDirectory.parse((tmp_path / "state").as_uri())
    directory.create()
    state = directory.instance(0)
    state._is_local = False
    name = put(state, 0, b"rows", tmp_path)
    assert state.commit(0, manifest(state, name))
    assert not state.commit(0, {"batches": []})
    state.get(name, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == b"rows"
    with state.open(name) as source:
        assert state.read_block(source, name, offset=1, length=2).to_pybytes() == b"ow"


class Closing:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_a_worker_keeps_one_operator() -> None:
    first, second = Closing(), Closing()
    cache.keep(("q", 0, 1), first)
    assert cache.take(("q", 0, 1)) is first
    assert cache.take(("q", 0, 1)) is None
    cache.keep(("q", 0, 1), first)
    cache.keep(("q", 1, 1), second)
    assert (first.closed, second.closed) == (1, 0)
    assert cache.take(("q", 1, 2)) is None
    assert second.closed == 1
