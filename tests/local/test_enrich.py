"""Enrichment in this process: every stream row meets all of one version of the master."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from tests.local.inputs import PATIENCE_S, SPILLING, SPILLING_ROWS, Gate, batches, sides
from tests.local.oracle import expected, rows_of
from tests.local.waiting import until
from watersmeet.errors import (
    InputChanged,
    InvalidArgument,
    MemoryTooSmall,
    RunClosed,
    SchemaError,
    SourceFailed,
    SpillError,
)
from watersmeet.local import LocalEnrich
from watersmeet.local.enrich import EnrichDriver
from watersmeet.operators.family import ENRICHING, make_enricher
from watersmeet.store.master.laying import lay_down

STREAM, MASTER = sides(2_000)
TYPES = ("inner", "left", "semi", "anti")
SOON = 0.01
"""Seconds of silence and between looks: tests wait for events, not for times."""


def enriched(stream: Any = STREAM, master: Any = MASTER, how: str = "inner", **more: Any) -> Any:
    return rows_of(wm.local.enrich(stream, master, "k", how, **more).read_all())


# ---- results -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", TYPES)
@pytest.mark.parametrize("algorithm", ["auto", *ENRICHING])
def test_it_joins_as_duckdb_does(how: str, algorithm: str) -> None:
    master = MASTER
    if algorithm == "cmeshjoin":  # For masters whose keys are unique.
        master = pa.table({"k": range(1_000), "b": range(1_000)})
    assert enriched(STREAM, master, how, algorithm=algorithm) == expected(STREAM, master, how)


@pytest.mark.parametrize(
    "how",
    ["left", *(pytest.param(how, marks=pytest.mark.slow) for how in ("inner", "semi", "anti"))],
)
def test_a_master_larger_than_memory_is_read_from_disk(how: str) -> None:
    stream, master = sides(3 * SPILLING_ROWS)
    master = master.append_column("text", pa.array(["x" * 40] * len(master)))
    run = wm.local.enrich(batches(stream, 500), master, "k", how, memory=SPILLING)
    found = run.read_all()
    wanted = expected(stream, master.select(["k", "b"]), how)
    assert rows_of(found.select(range(min(3, found.num_columns)))) == wanted
    assert run.metrics.blocks_read > 10
    assert run.metrics.memory_peak <= 2**20


def batches_of(table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from table.to_batches(max_chunksize=300)


KINDS: dict[str, Any] = {
    "table": lambda table, path: table,
    "iterator": lambda table, path: batches_of(table),
    "reader": lambda table, path: table.to_reader(max_chunksize=100),
    "frame": lambda table, path: table.to_pandas(types_mapper=__import__("pandas").ArrowDtype),
    "parquet": lambda table, path: _written(pq.write_table, table, path / "t.parquet"),
    "arrow": lambda table, path: _written(feather.write_feather, table, path / "t.arrow"),
    "csv": lambda table, path: str(_written(csv.write_csv, table, path / "t.csv")),
    "dataset": lambda table, path: ds.dataset(
        _written(pq.write_table, table, path / "t.parquet"), format="parquet"
    ),
    "paths": lambda table, path: [
        _written(pq.write_table, table.slice(0, 900), path / "1.parquet"),
        _written(pq.write_table, table.slice(900), path / "2.parquet"),
    ],
    "function": lambda table, path: lambda: table,
}


def _written(write: Any, table: pa.Table, path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    write(table, path)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_the_master_is_any_kind_of_input(kind: str, tmp_path: Path) -> None:
    assert enriched(STREAM, KINDS[kind](MASTER, tmp_path)) == expected(STREAM, MASTER)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "function"])
def test_the_stream_is_any_kind_of_input(kind: str, tmp_path: Path) -> None:
    assert enriched(KINDS[kind](STREAM, tmp_path), MASTER) == expected(STREAM, MASTER)


def test_rows_are_answered_while_the_stream_is_silent() -> None:
    gate = Gate(batches(STREAM.slice(0, 500)), batches(STREAM.slice(500)))
    run = wm.local.enrich(gate, MASTER, "k", "left", wait_threshold=SOON)
    first = expected(STREAM.slice(0, 500), MASTER, "left")
    found: list[pa.RecordBatch] = []
    while sum(map(len, found)) < first.total():
        found.append(next(run))
    assert rows_of(pa.Table.from_batches(found)) == first
    assert not gate.is_open
    gate.open()
    found.extend(run)
    assert rows_of(pa.Table.from_batches(found)) == expected(STREAM, MASTER, "left")


def test_names_conditions_and_suffixes() -> None:
    stream = pa.table({"id": [1, 2, 3, None], "x": [1, 2, 3, 4]})
    master = pa.table({"key": [1, 1, 2, None], "x": [5, 0, 9, 9]})
    run = wm.local.enrich(
        stream, master, {"id": "key"}, "left", condition="x < x_m", suffixes=("", "_m")
    )
    assert run.schema.names == ["id", "x", "key", "x_m"]
    assert sorted(map(str, run.read_all().to_pylist())) == sorted(
        map(
            str,
            [
                {"id": 1, "x": 1, "key": 1, "x_m": 5},
                {"id": 2, "x": 2, "key": 2, "x_m": 9},
                {"id": 3, "x": 3, "key": None, "x_m": None},
                {"id": None, "x": 4, "key": None, "x_m": None},
            ],
        )
    )


@pytest.mark.parametrize("how", TYPES)
def test_a_master_may_be_empty(how: str) -> None:
    assert enriched(STREAM, MASTER.slice(0, 0), how) == expected(STREAM, MASTER.slice(0, 0), how)


def test_a_stream_may_be_empty() -> None:
    assert enriched(STREAM.slice(0, 0), MASTER) == Counter()


# ---- versions ------------------------------------------------------------------------------------


def version(number: int, rows: int = 1_000) -> pa.Table:
    """A version whose rows say which it is; each has some keys that the others have not."""
    keys = np.arange(rows) * (number + 1) % rows
    return pa.table({"k": keys[: rows // 2], "b": np.full(rows // 2, number)})


def assert_one_version_each(
    stream: pa.Table, found: pa.Table, versions: dict[str, pa.Table], how: str
) -> None:
    """Every row of the stream has met all of one version: the one that its results name, or, if it
    has none, one of those by which it has none."""
    ids = stream["a"].to_pylist()
    wanted = {name: _by_row(expected(stream, master, how)) for name, master in versions.items()}
    met: dict[int, Counter[tuple[Any, ...]]] = defaultdict(Counter)
    named: dict[int, set[str]] = defaultdict(set)
    for *row, name in rows_of(found).elements():
        met[row[1]][tuple(row)] += 1
        named[row[1]].add(name)
    assert set(met) <= set(ids)
    for row in ids:
        assert len(named[row]) <= 1
        possible = named[row] or set(versions)
        assert any(met[row] == wanted[name][row] for name in possible), row


def _by_row(rows: Counter[tuple[Any, ...]]) -> dict[int, Counter[tuple[Any, ...]]]:
    """The results of each row of the stream."""
    found: dict[int, Counter[tuple[Any, ...]]] = defaultdict(Counter)
    for row, count in rows.items():
        found[row[1]][row] += count
    return found


class Versions:
    """A function that returns the next version each time a test has asked for it."""

    def __init__(self, *tables: pa.Table) -> None:
        self.tables = tables
        self.wanted = 0
        self.delivered = -1

    def __call__(self) -> pa.Table | None:
        if self.delivered >= self.wanted:
            return None
        self.delivered += 1
        return self.tables[self.delivered]


def _has_met(run: list[LocalEnrich], versions: int) -> bool:
    return bool(run) and run[0].metrics.versions_met >= versions


def in_parts(stream: pa.Table, versions: Versions, run: list[LocalEnrich]) -> Iterator[Any]:
    """The stream in as many parts as there are versions; each comes when its version is there."""
    size = -(-len(stream) // len(versions.tables))
    for number in range(len(versions.tables)):
        until(lambda: bool(run) and run[0].metrics.rows_in[0] >= number * size)  # noqa: B023
        versions.wanted = number
        until(partial(_has_met, run, number + 1))
        yield from batches(stream.slice(number * size, size), 100)


def meet_three_versions(how: str, algorithm: str, stream: pa.Table, masters: Versions) -> None:
    running: list[LocalEnrich] = []
    run = wm.local.enrich(
        in_parts(stream, masters, running),
        masters,
        "k",
        how,
        memory=SPILLING,
        algorithm=algorithm,
        refresh=SOON,
        version_column="version",
        wait_threshold=SOON,
    )
    running.append(run)
    found = run.read_all()
    names = sorted(set(found["version"].to_pylist()))
    assert len(names) == 3
    versions = dict(zip(names, masters.tables, strict=True))
    assert_one_version_each(stream, found, versions, how)


def test_each_row_meets_all_of_one_version_and_says_which() -> None:
    masters = Versions(version(0), version(1), version(2))
    meet_three_versions("left", "auto", STREAM, masters)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ENRICHING)
@pytest.mark.parametrize("how", TYPES)
@pytest.mark.parametrize("skew", [1.2, None])
def test_each_row_meets_one_version_by_every_algorithm(
    how: str, algorithm: str, skew: float | None
) -> None:
    random = np.random.default_rng(7)
    rows, keys = 30_000, 40_000
    drawn = random.integers(0, keys, rows) if skew is None else random.zipf(skew, rows) % keys
    stream = pa.table({"k": drawn, "a": np.arange(rows)})

    def master(number: int) -> pa.Table:
        chosen = random.permutation(keys)[: keys // 2]
        if algorithm != "cmeshjoin":  # Which wants keys that are unique.
            chosen = np.concatenate([chosen, chosen[:1_000], np.full(50, 1)])
        return pa.table({"k": chosen, "b": np.full(len(chosen), number)})

    meet_three_versions(how, algorithm, stream, Versions(master(0), master(1), master(2)))


@pytest.mark.parametrize("kind", ["parquet", "csv", "arrow"])
def test_a_path_is_read_again_when_it_changes(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"master.{kind}"
    write = {"parquet": pq.write_table, "csv": csv.write_csv, "arrow": feather.write_feather}[kind]
    write(version(0), path)
    running: list[LocalEnrich] = []

    def stream() -> Iterator[pa.RecordBatch]:
        yield from batches(STREAM.slice(0, 1_000))
        until(lambda: running[0].metrics.rows_in[0] >= 1_000)
        write(version(1), tmp_path / "new")
        (tmp_path / "new").replace(path)
        until(partial(_has_met, running, 2))
        yield from batches(STREAM.slice(1_000))

    run = wm.local.enrich(stream(), path, "k", refresh=SOON, wait_threshold=SOON)
    running.append(run)
    wanted = expected(STREAM.slice(0, 1_000), version(0)) + expected(
        STREAM.slice(1_000), version(1)
    )
    assert rows_of(run.read_all()) == wanted


def test_a_master_that_is_written_again_unchanged_is_not_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "master.parquet"
    pq.write_table(MASTER, path)
    laid_down: list[str] = []

    def counted(*arguments: Any, **more: Any) -> Any:
        laid_down.append(more["version"])
        return lay_down(*arguments, **more)

    monkeypatch.setattr("watersmeet.local.keeping.lay_down", counted)

    def stream() -> Iterator[pa.RecordBatch]:
        yield from batches(STREAM.slice(0, 1_000))
        for times in (2, 3):
            pq.write_table(MASTER, tmp_path / "new")
            (tmp_path / "new").replace(path)
            until(lambda: len(laid_down) >= times)  # noqa: B023
        yield from batches(STREAM.slice(1_000))

    run = wm.local.enrich(stream(), path, "k", refresh=SOON, wait_threshold=SOON)
    assert rows_of(run.read_all()) == expected(STREAM, MASTER)
    assert run.metrics.versions_met == 1


def test_a_version_with_other_columns_is_an_error_and_nothing_is_lost() -> None:
    versions = Versions(version(0), version(1).rename_columns(["k", "c"]))
    gate = Gate(batches(STREAM.slice(0, 1_000)), [])
    run = wm.local.enrich(gate, versions, "k", "left", refresh=SOON, wait_threshold=SOON)
    found = [next(run)]
    assert gate.reached.wait(PATIENCE_S)
    versions.wanted = 1
    with pytest.raises(SchemaError, match=r"no column 'b'; a new column 'c'") as caught:
        found.extend(run)
    assert "answered from the version before" in caught.value.remedy
    wanted = expected(STREAM.slice(0, 1_000), version(0), "left")
    assert rows_of(pa.Table.from_batches(found)) == wanted
    gate.open()
    with pytest.raises(RunClosed):
        next(run)


def test_columns_may_come_in_another_order() -> None:
    versions = Versions(version(0), version(1).select(["b", "k"]))
    running: list[LocalEnrich] = []
    run = wm.local.enrich(
        in_parts(STREAM, versions, running), versions, "k", refresh=SOON, wait_threshold=SOON
    )
    running.append(run)
    wanted = expected(STREAM.slice(0, 1_000), version(0)) + expected(
        STREAM.slice(1_000), version(1)
    )
    assert rows_of(run.read_all()) == wanted


def test_rows_without_a_partner_wait_for_newer_versions_until_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    making = partial(make_enricher, wall=lambda: now[0])
    # By its name the module is hidden behind the function.
    monkeypatch.setattr(sys.modules[EnrichDriver.__module__], "make_enricher", making)
    versions = Versions(pa.table({"k": [1], "b": [1]}), pa.table({"k": [1, 2], "b": [1, 2]}))
    gate = Gate(batches(pa.table({"k": [1, 2, 3], "a": [1, 2, 3]})), [])
    run = wm.local.enrich(
        gate, versions, "k", "left", refresh=SOON, deadline=0.2, wait_threshold=SOON
    )
    assert next(run).to_pylist() == [{"k": 1, "a": 1, "b": 1}]
    versions.wanted = 1
    assert next(run).to_pylist() == [{"k": 2, "a": 2, "b": 2}]
    now[0] = 0.3
    assert next(run).to_pylist() == [{"k": 3, "a": 3, "b": None}]
    gate.open()
    assert not list(run)


# ---- bad input -----------------------------------------------------------------------------------

WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"on": "b"}, SchemaError, "stream input has no column 'b'"),
    ({"on": {"k": "a"}}, SchemaError, "master input has no column 'a'"),
    ({"how": "right"}, InvalidArgument, "rows of the master that no row of the stream meets"),
    ({"how": "full"}, InvalidArgument, "have the others"),
    ({"how": "sideways"}, InvalidArgument, "no join type"),
    ({"on": wm.within("k", 5)}, InvalidArgument, "equal keys"),
    ({"algorithm": "rpj"}, InvalidArgument, "does not join a stream with a master"),
    ({"algorithm": 7}, InvalidArgument, "no text"),
    ({"memory": "1kB"}, MemoryTooSmall, "at least 1MB"),
    ({"refresh": 5}, InvalidArgument, "always the same"),
    ({"refresh": "soon", "master": "x.parquet"}, InvalidArgument, "no span of time"),
    ({"refresh": -1, "master": "x.parquet"}, InvalidArgument, "no length of time"),
    ({"deadline": 0}, InvalidArgument, "no length of time"),
    ({"version_column": "a"}, SchemaError, "column of the output already"),
    ({"version_column": 3}, InvalidArgument, "no text"),
    ({"master": "nowhere.parquet"}, InvalidArgument, "does not exist"),
    ({"master": 5}, InvalidArgument, "cannot be read as batches"),
    ({"master": iter([])}, SchemaError, "ended without a single batch"),
    ({"master": lambda: None}, InvalidArgument, "no table"),
    ({"master": pa.table({"k": ["text"]})}, SchemaError, "cannot be compared"),
    ({"spill_dir": "nowhere"}, SpillError, "Cannot write"),
]


@pytest.mark.parametrize(("arguments", "error", "says"), WRONG)
def test_errors_are_raised_at_the_call(
    arguments: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        wm.local.enrich(**{"stream": STREAM, "master": MASTER, "on": "k"} | arguments)


def test_a_row_that_does_not_fit_is_refused_with_the_memory_it_needs() -> None:
    master = pa.table({"k": [1, 2], "b": ["x" * 500_000, "y"]})
    with pytest.raises(MemoryTooSmall, match=r"row of 500,0.*at least memory=\"4MB\""):
        enriched(STREAM, master, memory="1MB")


def test_a_row_of_the_stream_that_does_not_fit_is_refused_too() -> None:
    stream = pa.table({"k": [1, 2], "a": ["x" * 500_000, "y"]})
    with pytest.raises(MemoryTooSmall, match=r"stream \(Table\) has a row of 500,0"):
        enriched(stream, MASTER, memory="1MB")


def test_memory_too_small_for_a_block_is_refused_with_what_it_needs() -> None:
    """A block has at least one row, and several must fit."""
    master = pa.table({"k": range(20), "b": ["x" * 100_000] * 20})
    with pytest.raises(MemoryTooSmall, match=r"at least [\d,]+ bytes") as caught:
        enriched(STREAM, master, memory="1MB")
    (needed,) = re.findall(r"at least ([\d,]+) bytes", caught.value.remedy)
    found = enriched(STREAM, master, memory=int(needed.replace(",", "")))
    assert found == expected(STREAM, master)


def test_a_failing_master_names_itself() -> None:
    def master() -> Iterator[pa.RecordBatch]:
        yield from batches(MASTER)
        raise ValueError("the line was cut")

    with pytest.raises(SourceFailed, match=r"master \(generator\) failed .* the line was cut"):
        enriched(STREAM, master())


def test_a_failing_stream_gets_its_rows_answered_first() -> None:
    def stream() -> Iterator[pa.RecordBatch]:
        yield from batches(STREAM)
        raise ValueError("the line was cut")

    run = wm.local.enrich(stream(), MASTER, "k", "left")
    found: list[pa.RecordBatch] = []
    with pytest.raises(SourceFailed, match="the line was cut"):
        found.extend(run)
    assert rows_of(pa.Table.from_batches(found)) == expected(STREAM, MASTER, "left")


def test_a_master_that_changes_while_it_is_laid_down_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "master.csv"
    csv.write_csv(version(0), path)
    calls: list[str] = []

    def changing(*arguments: Any, **more: Any) -> Any:
        described = lay_down(*arguments, **more)
        calls.append(more["version"])
        if len(calls) <= changes:
            csv.write_csv(version(len(calls), rows=1_000 + len(calls)), path)
        return described

    monkeypatch.setattr("watersmeet.local.keeping.lay_down", changing)
    monkeypatch.setattr("watersmeet.local.masters._FIRST_PAUSE_S", 0.001)
    changes = 2
    assert enriched(STREAM, path) == expected(STREAM, version(2, rows=1_002))
    calls, changes = [], 1_000
    with pytest.raises(InputChanged, match=r"changed each of the \d times"):
        enriched(STREAM, path)


def test_nothing_is_left_when_it_is_closed_early(tmp_path: Path) -> None:
    before = threading.active_count()
    gate = Gate(batches(STREAM), [])
    run = wm.local.enrich(gate, MASTER, "k", spill_dir=tmp_path, memory=SPILLING)
    next(run)
    run.close()
    assert not list(tmp_path.iterdir())
    gate.open()
    until(lambda: threading.active_count() <= before)
    with pytest.raises(RunClosed):
        next(run)


def test_it_can_be_closed_before_it_begins_and_while_the_master_hangs(tmp_path: Path) -> None:
    wm.local.enrich(STREAM, MASTER, "k", spill_dir=tmp_path).close()
    gate = Gate(batches(MASTER), batches(MASTER))
    run = wm.local.enrich(STREAM, iter(gate), "k", spill_dir=tmp_path)
    refused: list[RunClosed] = []

    def read() -> None:
        try:
            list(run)
        except RunClosed as error:
            refused.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    assert gate.reached.wait(PATIENCE_S)
    run.close()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert refused
    assert not list(tmp_path.iterdir())
    gate.open()


# ---- what it says --------------------------------------------------------------------------------


def test_it_says_what_it_did() -> None:
    stream = pa.concat_tables([STREAM] * 5)
    run = wm.local.enrich(stream, MASTER, "k", memory="4MB")
    assert "nothing has been read" in run.explain()
    run.read_all()
    words = " ".join(run.explain().split())
    for part in ("inner", "stream (Table)", "on k", "auto", "cache", "blocks", "MESHJOIN"):
        assert part in words
    assert "LocalEnrich: inner join" in repr(run)
    metrics = run.metrics.as_dict()
    assert metrics["rows_in"][0] == len(stream)
    assert 0 < metrics["cache_hits"] < len(stream)


# ---- streams that go on arriving -----------------------------------------------------------------


def test_files_that_appear_in_a_directory_are_a_stream(tmp_path: Path) -> None:
    pq.write_table(STREAM.slice(0, 500), tmp_path / "1.parquet")
    (tmp_path / ".hidden.parquet").write_text("not complete")
    (tmp_path / "notes.txt").write_text("of no format")
    stream = wm.local.watch(tmp_path, every=SOON)
    run = wm.local.enrich(stream, MASTER, "k", wait_threshold=SOON)
    found = [next(run)]
    pq.write_table(STREAM.slice(500), tmp_path / "_2.parquet")
    (tmp_path / "_2.parquet").rename(tmp_path / "2.parquet")
    until(lambda: stream.files_read == 2)
    stream.stop()
    found.extend(run)
    assert rows_of(pa.Table.from_batches(found)) == expected(STREAM, MASTER)


def test_only_a_directory_is_watched(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no directory"):
        wm.local.watch(tmp_path / "nowhere")


def test_lines_of_json_are_a_stream(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"k": 1, "a": 1}\n\n{"k": 2, "a": 2}\n{"a": 3}')
    master = pa.table({"k": [1, 2, 3], "b": [5, 6, 7]})
    assert enriched(wm.local.json_lines(path), master) == Counter([(1, 1, 5), (2, 2, 6)])


def test_a_line_is_answered_when_it_has_come() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as file, open(writing, "wb", buffering=0) as pipe:  # noqa: PTH123
        stream = wm.local.json_lines(file)
        run = wm.local.enrich(stream, pa.table({"k": [1, 2]}), "k", wait_threshold=SOON)
        pipe.write(b'{"k": 2, "a": "x"}\n{"k": 1,')
        assert next(run).to_pylist() == [{"k": 2, "a": "x"}]
        pipe.write(b' "a": "y"}\n')
        assert next(run).to_pylist() == [{"k": 1, "a": "y"}]
        stream.stop()
        assert not list(run)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"k": 1}\nno json\n', "cannot be read"),
        ('{"k": 1}\n', ""),
    ],
)
def test_lines_that_are_no_json_are_refused(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(text)
    stream = wm.local.json_lines(path)
    if not says:
        assert enriched(stream, pa.table({"k": [1]})) == Counter([(1,)])
        return
    with pytest.raises(SchemaError, match=says):
        enriched(stream, pa.table({"k": [1]}))
