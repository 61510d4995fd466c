"""Enrichment in this process: every stream row meets all of one version of the master."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from tests.local.enriching import MASTER, STREAM, TYPES, check_larger, check_silence, enriched
from tests.local.inputs import SPILLING_ROWS, sides
from tests.local.oracle import expected
from watersmeet.operators.family import ENRICHING

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
    check_larger(*sides(3 * SPILLING_ROWS), how, memory=2**20)


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
    check_silence()


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


def test_a_plan_is_shown_beside_what_came() -> None:
    plan = wm.plan_enrich(STREAM, MASTER, "k", memory="4MB")
    run = wm.local.enrich(STREAM, MASTER, "k", memory="4MB")
    assert "nothing has come yet" in " ".join(run.explain(plan).split())
    run.read_all()
    assert "expected" not in run.explain()
    words = " ".join(run.explain(plan).split())
    assert f"the plan for skipping in 4 MB says {plan.rate:,.0f} rows a second" in words
    assert re.search(r"so far it was [\d,]+ rows a second of processor time, \d+%", words)
