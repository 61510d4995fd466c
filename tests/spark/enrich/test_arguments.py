"""What `enrich` refuses at the call, and in which words."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from tests.spark.enrich.running import Enrichment
from tests.spark.streams.running import RIGHT
from watersmeet.errors import InvalidArgument, MemoryTooSmall, SchemaError, StateError

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"on": "a"}, SchemaError, "'a' is not a column of the master|master.*'a'"),
        ({"on": "b"}, SchemaError, "stream.*'b'|'b'.*stream"),
        ({"on": {"k": "b_text"}}, SchemaError, "cannot be compared"),
        ({"on": wm.within("k", 5)}, InvalidArgument, "equal keys"),
        ({"how": "right"}, InvalidArgument, "no end after which"),
        ({"how": "full"}, InvalidArgument, "no end after which"),
        ({"algorithm": "rpj"}, InvalidArgument, "does not join a stream with a master"),
        ({"memory": "1MB", "instances": 2}, MemoryTooSmall, "at least 2MB"),
        ({"memory": "lots"}, InvalidArgument, "lots"),
        ({"refresh": "often", "master": "x"}, InvalidArgument, "often"),
        ({"refresh": 5}, InvalidArgument, "keeps the list of its files"),
        ({"deadline": -1}, InvalidArgument, "deadline=-1"),
        ({"version_column": "A"}, SchemaError, "one name"),
        ({"ticks": "often"}, InvalidArgument, "often"),
        ({"instances": 0}, InvalidArgument, "instances=0"),
        ({"state": "nowhere://x/y"}, InvalidArgument, "nowhere"),
        ({"master": "/no/such/place"}, InvalidArgument, "cannot read master"),
        ({"master": lambda: None}, InvalidArgument, "returned None"),
        ({"master": RIGHT}, InvalidArgument, "master is a Table"),
    ],
)
def test_wrong_arguments_fail_at_the_call(
    enrichment: Enrichment, changes: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        enrichment.joined(**changes)
    assert not (enrichment.path / "state" / "master").exists()


def test_streams_and_tables_in_each_other_s_place(enrichment: Enrichment) -> None:
    with pytest.raises(InvalidArgument, match=r"stream is a DataFrame that does not stream"):
        wm.enrich(enrichment.master(), enrichment.master(), "k", state=enrichment.path / "state")
    with pytest.raises(InvalidArgument, match=r"master is a DataFrame that streams.*join_streams"):
        enrichment.joined(master=enrichment.stream("right"))


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_state_beside_what_is_read_is_refused(enrichment: Enrichment, side: str) -> None:
    with pytest.raises(InvalidArgument, match="one in the other"):
        enrichment.joined(state=enrichment.path / side / "state")


def test_a_state_of_something_else_is_refused(enrichment: Enrichment) -> None:
    """Of another join, of a master with other columns, and of one in another place."""
    enrichment.run(instances=2)
    with pytest.raises(StateError, match="how='inner', not 'left'"):
        enrichment.joined(how="left")
    with pytest.raises(StateError, match=r"master=\['k: int64', 'b: int64', 'b_text"):
        enrichment.joined(master=enrichment.master().drop("b_text"))
    (enrichment.path / "elsewhere").mkdir()
    pq.write_table(RIGHT, enrichment.path / "elsewhere" / "all.parquet")
    elsewhere = enrichment.spark.read.parquet(str(enrichment.path / "elsewhere"))
    with pytest.raises(StateError, match=r"made with a master read from .*/right, and this one"):
        enrichment.joined(master=elsewhere)
    left, right = enrichment.stream("left"), enrichment.stream("right")
    with pytest.raises(StateError, match="algorithm='skipping', not 'rpj'"):
        wm.join_streams(left, right, "k", state=enrichment.path / "state")
    (enrichment.path / "state" / "master" / "00000000.json").unlink()
    with pytest.raises(StateError, match="no version of a master"):
        enrichment.joined()


def test_an_empty_master_and_one_row_that_is_longer_than_memory_allows(
    enrichment: Enrichment,
) -> None:
    enrichment.replace_master(RIGHT.slice(0, 0))
    assert enrichment.run(how="left") == enrichment.expected("left")
    long = pa.table({"k": [1], "b": [1], "b_text": ["x" * 2**21]})
    enrichment.replace_master(long)
    with pytest.raises(MemoryTooSmall, match="at least"):
        enrichment.joined(state=enrichment.path / "other", memory="2MB", instances=2)
