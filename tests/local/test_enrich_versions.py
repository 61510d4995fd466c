"""Masters that change while they enrich a stream, in this process."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from tests.local.enriching import MASTER, SOON, STREAM, TYPES, version
from tests.local.inputs import PATIENCE_S, SPILLING, Gate, batches
from tests.local.oracle import expected, rows_of
from tests.local.waiting import until
from watersmeet.errors import (
    RunClosed,
    SchemaError,
)
from watersmeet.local import LocalEnrich
from watersmeet.local.enriching import EnrichDriver
from watersmeet.model import parse_bytes
from watersmeet.operators.family import ENRICHING, make_enricher
from watersmeet.store.master.laying import lay_down


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


def meet_three_versions(
    how: str, algorithm: str, stream: pa.Table, masters: Versions, *, threads: int = 1
) -> None:
    running: list[LocalEnrich] = []
    run = wm.local.enrich(
        in_parts(stream, masters, running),
        masters,
        "k",
        how,
        memory=threads * parse_bytes(SPILLING),
        algorithm=algorithm,
        refresh=SOON,
        version_column="version",
        wait_threshold=SOON,
        threads=threads,
    )
    running.append(run)
    found = run.read_all()
    names = sorted(set(found["version"].to_pylist()))
    assert len(names) == 3
    versions = dict(zip(names, masters.tables, strict=True))
    assert_one_version_each(stream, found, versions, how)


@pytest.mark.parametrize("threads", [1, 2])
def test_each_row_meets_all_of_one_version_and_says_which(threads: int) -> None:
    masters = Versions(version(0), version(1), version(2))
    meet_three_versions("left", "auto", STREAM, masters, threads=threads)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ENRICHING)
@pytest.mark.parametrize("how", TYPES)
@pytest.mark.parametrize(("skew", "threads"), [(1.2, 1), (1.2, 3), (None, 1)])
def test_each_row_meets_one_version_by_every_algorithm(
    how: str, algorithm: str, skew: float | None, threads: int
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

    masters = Versions(master(0), master(1), master(2))
    meet_three_versions(how, algorithm, stream, masters, threads=threads)


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


@pytest.mark.parametrize("threads", [1, 2])
def test_a_version_with_other_columns_is_an_error_and_nothing_is_lost(threads: int) -> None:
    versions = Versions(version(0), version(1).rename_columns(["k", "c"]))
    gate = Gate(batches(STREAM.slice(0, 1_000)), [])
    run = wm.local.enrich(
        gate, versions, "k", "left", refresh=SOON, wait_threshold=SOON, threads=threads
    )
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


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_without_a_partner_wait_for_newer_versions_until_the_deadline(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    making = partial(make_enricher, wall=lambda: now[0])
    # By its name the module is hidden behind the function.
    monkeypatch.setattr(sys.modules[EnrichDriver.__module__], "make_enricher", making)
    versions = Versions(pa.table({"k": [1], "b": [1]}), pa.table({"k": [1, 2], "b": [1, 2]}))
    gate = Gate(batches(pa.table({"k": [1, 2, 3], "a": [1, 2, 3]})), [])
    run = wm.local.enrich(
        gate, versions, "k", "left",
        refresh=SOON, deadline=0.2, wait_threshold=SOON, threads=threads,
    )  # fmt: skip
    assert next(run).to_pylist() == [{"k": 1, "a": 1, "b": 1}]
    versions.wanted = 1
    assert next(run).to_pylist() == [{"k": 2, "a": 2, "b": 2}]
    now[0] = 0.3
    assert next(run).to_pylist() == [{"k": 3, "a": 3, "b": None}]
    gate.open()
    assert not list(run)
