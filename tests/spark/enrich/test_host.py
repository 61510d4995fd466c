"""Batches of one instance without Spark: attempts that fail or come again, versions that change."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from tests.spark.streams.test_host import Failure, Worker, fail_somewhere
from watersmeet.model import Side
from watersmeet.operators.enriching import EnrichQuestion
from watersmeet.operators.family import ENRICHING
from watersmeet.spark import cache
from watersmeet.spark.enrich.masters import MasterRecord, Masters
from watersmeet.spark.enrich.plan import EnrichPlan
from watersmeet.spark.explain_stream import explain_stream
from watersmeet.spark.microbatches.metrics import stream_metrics
from watersmeet.spark.microbatches.state import StateDirectory
from watersmeet.spark.microbatches.wire import Tags, Wire
from watersmeet.store.claim import SpillClaim
from watersmeet.store.master.laying import encoder, lay_down

STREAM = StructType([StructField("k", LongType()), StructField("a", StringType())])
SCHEMAS = (
    pa.schema({"k": pa.int64(), "a": pa.string()}),
    pa.schema({"k": pa.int64(), "b": pa.string()}),
)
WIRE = Wire.of(STREAM, StructType([]))
SETTLE, NEWER = Tags(2).settle, Tags(2).newer
Keys = list[int | None]
Rows = Counter[tuple[Any, ...]]
Came = dict[str, tuple[int | None, int]]
"""By the text of a stream row its key, and the newest version that had been taken over."""


def make_plan(directory: Path, algorithm: str = "auto", **changes: Any) -> EnrichPlan:
    state = StateDirectory.parse(directory)
    state.create()
    (directory / "spill").mkdir(exist_ok=True)
    question = EnrichQuestion.parse(
        "k",
        changes.pop("how", "left"),
        algorithm=algorithm,
        condition=None,
        suffixes=("", "_right"),
        version_column="met",
        deadline=changes.pop("deadline", None),
    )
    settings = {"instances": 1, "memory": 2**18, "budget": 0.0} | changes
    return EnrichPlan(
        question=question,
        schemas=SCHEMAS,
        wire=WIRE,
        state=state,
        spill_dir=str(directory / "spill"),
        **settings,
    )


def lay(plan: EnrichPlan, number: int, keys: Keys) -> None:
    """A version whose rows have these keys, called by its number."""
    masters = Masters(plan.state)
    claim = SpillClaim(plan.spill_dir)
    rows = pa.record_batch(
        [pa.array(keys, pa.int64()), pa.array([f"{number} {n}" for n in range(len(keys))])],
        schema=SCHEMAS[1],
    )
    file = lay_down(
        [rows],
        encoder(plan.join),
        schema=plan.join.stored(Side.RIGHT),
        target=f"{masters.prepare(number)}/instance-0000",
        scratch=claim.area,
        memory=plan.memory,
        version=f"v{number}",
    )
    claim.close()
    masters.publish(MasterRecord(number, f"v{number}", [], [file], [], None))


def wire_batch(kind: int, keys: Keys, first: int = 0) -> pa.RecordBatch:
    texts = [f"{first + n} " + "x" * 50 for n in range(len(keys))]
    columns = [
        pa.array([kind] * len(keys), pa.int32()),
        pa.array(keys, pa.int64()),
        pa.array(texts),
    ]
    return pa.record_batch(columns, names=["tag", "c0", "c1"])


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    yield Worker(make_plan(tmp_path / "state"), monkeypatch)  # type: ignore[arg-type]
    cache.take(("", 0, 0))
    assert not list((tmp_path / "state" / "spill").iterdir())


def check(found: Rows, came: Came, versions: list[Keys]) -> None:
    """Each row has met all of one version, not older than the newest when it came."""
    by_row: dict[str, Rows] = {}
    for (key, text, partner, version), count in found.items():
        by_row.setdefault(text, Counter())[key, partner, version] += count
    assert by_row.keys() == came.keys()
    for text, (key, newest) in came.items():
        (version,) = {met for _, _, met in by_row[text]}
        number = int(version[1:])
        assert number >= newest
        partners: list[str | None] = [
            f"{number} {n}" for n, each in enumerate(versions[number]) if each == key is not None
        ]
        assert by_row[text] == Counter((key, each, version) for each in partners or [None])


ATTEMPTS = [
    pytest.param(seed, name, marks=[pytest.mark.slow] if seed > 2 or name != "skipping" else [])
    for name in ENRICHING
    if name != "cmeshjoin"  # Its master's keys must be unique.
    for seed in range(8)
]


@pytest.mark.parametrize(("seed", "algorithm"), ATTEMPTS)
def test_whatever_happens_to_attempts_every_row_meets_one_version(
    seed: int, algorithm: str, tmp_path: Path, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    plan = make_plan(tmp_path / "state", algorithm)
    worker.plan = plan  # type: ignore[assignment]
    versions: list[Keys] = [[]]
    came: Came = {}
    found: Rows = Counter()

    def drawn(rows: int) -> Keys:
        return [chance.choice([None, *range(300)]) for _ in range(rows)]

    versions[0] = drawn(2000)
    lay(plan, 0, versions[0])
    taken = 0
    for batch in range(12):
        worker.batch = batch
        arriving = []
        newer = 0
        while chance.random() < 0.3:
            versions.append(drawn(chance.choice([0, 500, 2000])))
            lay(plan, len(versions) - 1, versions[-1])
            newer += 1
        taken += newer
        for _ in range(chance.randrange(3)):
            keys = drawn(chance.randrange(1, 200))
            arriving.append(wire_batch(0, keys, len(came)))
            came |= {
                text: (key, taken)
                for key, text in zip(keys, arriving[-1].column(2).to_pylist(), strict=True)
            }
        if newer:
            arriving.append(wire_batch(NEWER, [None] * newer))
        if batch == 11 or chance.random() < 0.1:
            arriving.append(wire_batch(SETTLE, [None]))
        while chance.random() < 0.5:
            # Of this attempt nobody hears, even if it gets through.
            with contextlib.suppress(Failure), monkeypatch.context() as patched:
                fail_somewhere(chance, patched)
                worker.run(chance.sample(arriving, len(arriving)))
        if chance.random() < 0.4:
            cache.take(("", 0, 0))  # another worker gets the task
        rows = worker.run(chance.sample(arriving, len(arriving)))
        if chance.random() < 0.3:
            assert worker.run(arriving) == rows
        found += rows
    check(found, came, versions)


def test_a_state_explains_what_waits_and_what_was_read_of_the_master(worker: Worker) -> None:
    plan = worker.plan
    lay(plan, 0, list(range(2000)))  # type: ignore[arg-type]
    worker.run([wire_batch(0, list(range(500)))])
    state = plan.state.uri
    words = " ".join(explain_stream(state).split())
    record = stream_metrics(state)[0]
    own = record["enriched"]
    assert "join left, stream with master, on k; query query, 1 instance" in words
    assert "algorithm skipping: " in words
    assert "master 2,000 rows, " in words
    assert "version v0, number 0" in words
    assert f"read 500 stream rows so far; {own['waiting_rows']:,} wait for the scan now" in words
    worker.batch = 1
    worker.run([wire_batch(SETTLE, [None])])
    worker.batch = 2
    worker.run([wire_batch(0, list(range(500)), first=500)])
    words = " ".join(explain_stream(state).split())
    records = stream_metrics(state)
    hits = sum(each["enriched"]["cache_hits"] for each in records)
    assert hits, "nothing was cached"
    keys = records[-1]["enriched"]["cache_entries"]
    assert f"cache {keys:,} keys in " in words
    assert f"it served {hits / 1000:.0%} of the stream rows so far" in words
    read = sum(each["enriched"]["blocks_read"] for each in records)
    assert f"scan {read:,} block" in words
    found = records[0]["rows_out"] + records[1]["rows_out"] + records[2]["rows_out"]
    assert f"results {found:,} rows: " in words
    assert "0: 500 stream rows, " in words


def test_a_state_explains_which_versions_rows_meet(worker: Worker) -> None:
    plan = worker.plan
    lay(plan, 0, list(range(20_000)))  # type: ignore[arg-type]
    worker.run([wire_batch(0, list(range(0, 20_000, 9)))])
    lay(plan, 1, [1, 2, 3])  # type: ignore[arg-type]
    words = " ".join(explain_stream(plan.state.uri).split())
    assert "version v0, number 0; number 1 is laid down" in words
    worker.batch = 1
    worker.run([wire_batch(NEWER, [None])])
    words = " ".join(explain_stream(plan.state.uri).split())
    assert "master 3 rows, " in words
    assert "version v1, number 1" in words
