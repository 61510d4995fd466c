"""Going on from a checkpoint: with the same state, with another, and with a damaged one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xxhash
from pyspark.errors import StreamingQueryException

from tests.spark.streams.running import LEFT, RIGHT, Streams
from watersmeet.errors import StateError
from watersmeet.spark.microbatches.metrics import stream_metrics

pytestmark = pytest.mark.spark

MORE = LEFT.slice(0, 200)


def test_a_query_goes_on_with_what_came_meanwhile(ran: Streams) -> None:
    first = ran.output()
    assert first == ran.expected()
    ran.add("left", MORE, "more")
    second = ran.run()
    assert second == ran.expected()
    assert second.total() > first.total()
    assert stream_metrics(ran.path / "state")[-1]["batch"] == 4


@pytest.mark.slow
def test_memory_and_patience_may_change(streams: Streams) -> None:
    streams.run(memory="256MB")
    streams.add("left", MORE, "more")
    assert streams.run(memory="2MB", wait_threshold=9.0) <= streams.expected()
    streams.add("right", RIGHT.slice(0, 50), "more")
    streams.run(memory="512MB")
    assert streams.output() <= streams.expected()
    limits = [record["memory_limit"] for record in stream_metrics(streams.path / "state")]
    assert limits[-3:] == [2**28, 2 * 2**20, 2**29]


@pytest.mark.slow
def test_instances_stay_as_many_as_they_were(streams: Streams) -> None:
    streams.run(instances=3)
    streams.add("left", MORE, "more")
    assert streams.run() == streams.expected()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"on": ["k", "a"]}, "on="),
        ({"algorithm": "hmj"}, "algorithm="),
        ({"instances": 3}, "instances="),
        ({"how": "left", "ends": ("a < 0", "b < 0")}, "how="),
        ({"suffixes": ("_l", "_r")}, "suffixes="),
    ],
)
def test_changed_parameters_are_refused_at_the_call(
    ran: Streams, changes: dict[str, Any], named: str
) -> None:
    if changes.get("on"):
        changes = {"on": {"k": "k", "a": "b"}}
    with pytest.raises(StateError, match=f"made with {named}.*same parameters"):
        ran.joined(**changes)


def test_changed_columns_are_refused(ran: Streams) -> None:
    from watersmeet.spark.streams.join import join_streams

    left = ran.stream("left").selectExpr("k", "cast(a as int) as a", "a_text")
    with pytest.raises(StateError, match="made with left="):
        join_streams(left, ran.stream("right"), on="k", state=ran.path / "state")


@pytest.mark.slow
def test_a_state_of_another_query_is_refused(ran: Streams) -> None:
    (ran.path / "checkpoint").rename(ran.path / "old checkpoint")
    seen: list[int] = []
    with pytest.raises(StreamingQueryException, match=r"first batch.*another query's state"):
        ran.for_each_batch(lambda batch, number: seen.append(batch.count()))
    assert not seen


@pytest.mark.slow
def test_a_checkpoint_without_its_state_is_refused(ran: Streams) -> None:
    first = ran.output()
    (ran.path / "state").rename(ran.path / "old state")
    ran.add("left", MORE, "more")
    with pytest.raises(StreamingQueryException, match=r"Batch 4 needs version 3.*deleted"):
        ran.run()
    assert ran.output() == first


def flip_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.unlink()
    file.write_bytes(content)


def cut_short(file: Path) -> None:
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content[:-100])


@pytest.mark.parametrize(
    "damage",
    [flip_a_byte, *(pytest.param(d, marks=pytest.mark.slow) for d in (cut_short, Path.unlink))],
)
def test_a_damaged_file_of_rows_gives_an_error_and_no_rows(
    ran: Streams, damage: Callable[[Path], None]
) -> None:
    first = ran.output()
    for instance in (ran.path / "state").glob("instance-*"):
        manifest = read_manifest(instance / "00000003.json")
        name = next(n for n in manifest["files"] if n != manifest["output"]["name"])
        damage(instance / "files" / name)
        # Workers that have kept the operator would not need the file.
        write_manifest(instance / "00000003.json", manifest | {"id": "another"})
    ran.add("left", MORE, "more")
    with pytest.raises(StreamingQueryException, match=f", of the state, ({DAMAGED})"):
        ran.run()
    assert ran.output() == first


@pytest.mark.parametrize(
    "damage",
    [Path.unlink, *(pytest.param(d, marks=pytest.mark.slow) for d in (cut_short, flip_a_byte))],
)
def test_a_damaged_file_of_output_gives_an_error_and_no_rows(
    ran: Streams, damage: Callable[[Path], None]
) -> None:
    """As after a crash: the batch is run again, and its rows come from the file."""
    for path in (ran.path / "checkpoint" / "commits").glob("*3*"):
        path.unlink()
    instance = ran.path / "state" / "instance-0001"
    damage(instance / "files" / read_manifest(instance / "00000003.json")["output"]["name"])
    seen: list[int] = []
    with pytest.raises(StreamingQueryException, match=f", of the state, ({DAMAGED})"):
        ran.for_each_batch(lambda batch, number: seen.append(batch.count()))
    assert not seen


DAMAGED = "is missing|has been altered|has another size|cannot be read|is shorter"


def read_manifest(path: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads(path.read_text().split("\n")[1])
    return manifest


def write_manifest(path: Path, manifest: dict[str, Any]) -> None:
    content = json.dumps(manifest).encode()
    path.write_bytes(b"%d\n%s" % (xxhash.xxh3_64_intdigest(content), content))


def test_a_damaged_manifest_is_refused(ran: Streams) -> None:
    flip_a_byte(ran.path / "state" / "instance-0000" / "00000003.json")
    with pytest.raises(StateError, match=r"00000003\.json, of the state, has been altered"):
        ran.joined()


def test_a_state_of_another_format_is_refused(ran: Streams) -> None:
    for path in (ran.path / "state").glob("instance-*/*.json"):
        write_manifest(path, read_manifest(path) | {"format": 99})
    with pytest.raises(StateError, match=r"format 99, written by watersmeet \d"):
        ran.joined()


@pytest.mark.slow
def test_a_full_disk_ends_the_query_and_not_the_state(ran: Streams) -> None:
    """A directory that can no longer be written to; afterwards it goes on."""
    ran.add("left", MORE, "more")
    files = ran.path / "state" / "instance-0000" / "files"
    kept = ran.path / "kept"
    files.rename(kept)
    files.write_text("in the way")
    with pytest.raises(StreamingQueryException, match=r"files, of the state, cannot be listed"):
        ran.run()
    files.unlink()
    kept.rename(files)
    assert ran.run() == ran.expected()
