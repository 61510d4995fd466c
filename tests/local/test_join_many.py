"""Joins of many inputs against DuckDB: trees, predicates, small memory, stalls, bad input."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from tests.crossing import crossed
from tests.local.inputs import SPILLING, Gate, batches
from watersmeet.cli.__main__ import main
from watersmeet.errors import InvalidArgument, SchemaError
from watersmeet.local import LocalJoin
from watersmeet.operators.stage import Stage

ROWS = 4_000
NAMES = ("a", "b", "c", "d")
Row = Counter[tuple[Any, ...]]


def relation(name: str, *, rows: int = ROWS, seed: int = 0) -> pa.Table:
    """Two keys, a text key, a time, and a number of its own; some of each are null."""
    rng = np.random.default_rng([seed, ord(name)])

    def some(values: Any, kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind, mask=rng.random(rows) < 0.02)

    times = rng.integers(0, 40 * rows, rows) * 10**6
    return pa.table(
        {
            "k": some(rng.integers(0, rows, rows), pa.int64()),
            "j": some(rng.integers(0, rows, rows), pa.int32()),
            "s": some(np.char.add("key", rng.integers(0, rows, rows).astype(str)), pa.string()),
            "t": some(times, pa.timestamp("us")),
            f"n{name}": np.arange(rows),
            f"x{name}": ["x" * 40] * rows,
        }
    )


RELATIONS = {name: relation(name) for name in NAMES}
MINUTE = timedelta(seconds=60)

TREES: dict[str, tuple[Any, str]] = {
    "chain": (
        ["a.k = b.k", "b.s = c.s", "d.j = c.j"],
        "a.k = b.k AND b.s = c.s AND c.j = d.j",
    ),
    "star on one column": ("k", "a.k = b.k AND a.k = c.k AND a.k = d.k"),
    "star": (
        [("b.k", "a.k"), ("b.s", "c.s"), wm.within(("d.t", "b.t"), MINUTE)],
        "a.k = b.k AND b.s = c.s AND abs(epoch_us(b.t) - epoch_us(d.t)) <= 60000000",
    ),
    "keys and bands": (
        [
            ("a.k", "b.k"),
            ("b.j", "a.j"),
            wm.within(("b.t", "c.t"), "1 minute"),
            wm.band(("d.t", "c.t"), low="0 seconds", high="90 seconds"),
        ],
        "a.k = b.k AND a.j = b.j AND abs(epoch_us(b.t) - epoch_us(c.t)) <= 60000000 "
        "AND epoch_us(d.t) - epoch_us(c.t) BETWEEN 0 AND 90000000",
    ),
    "keys of two types": (
        ["a.k = b.j", "b.s = c.s", "c.k = d.j"],
        "a.k = b.j AND b.s = c.s AND c.k = d.j",
    ),
}


def numbers(join: LocalJoin) -> Row:
    """Which rows were combined, and how often."""
    table = join.read_all()
    columns = [table.column(f"n{name}").to_pylist() for name in NAMES]
    return Counter(zip(*columns, strict=True))


def expected(where: str, relations: dict[str, pa.Table]) -> Row:
    with duckdb.connect() as connection:
        for name, table in relations.items():
            connection.register(name, table)
        return Counter(
            connection.execute(f"SELECT na, nb, nc, nd FROM a, b, c, d WHERE {where}").fetchall()
        )


@pytest.mark.parametrize(("tree", "memory"), crossed(TREES, ["64MB", SPILLING]))
def test_the_result_is_the_join(tree: str, memory: str) -> None:
    on, where = TREES[tree]
    join = wm.local.join_many(RELATIONS, on, memory=memory)
    found = numbers(join)
    assert found == expected(where, RELATIONS)
    if tree != "keys and bands":
        assert found
    assert (join.metrics.flush_count > 0) == (memory == SPILLING)


@pytest.mark.parametrize("algorithm", ["miner-plain", "mjoin"])
def test_other_algorithms(algorithm: str) -> None:
    small = {name: table.slice(0, 400) for name, table in RELATIONS.items()}
    join = wm.local.join_many(small, "k", algorithm=algorithm, memory="1MB")
    assert numbers(join) == expected(TREES["star on one column"][1], small)


def test_rows_come_while_inputs_stall() -> None:
    """Spilled blocks of all inputs are joined while one of them is silent."""
    parts = {name: batches(table, 300) for name, table in RELATIONS.items()}
    gate = Gate(parts["d"][:12], parts["d"][12:])
    sources: dict[str, Any] = parts | {"d": gate}
    on, where = TREES["chain"]
    join = wm.local.join_many(sources, on, memory=SPILLING, wait_threshold=0.01)
    found = []
    while not join.metrics.results[Stage.DD]:
        found.append(next(join))
    gate.open()
    found += join
    table = pa.Table.from_batches(found)
    columns = [table.column(f"n{name}").to_pylist() for name in NAMES]
    assert Counter(zip(*columns, strict=True)) == expected(where, RELATIONS)


def test_columns_of_one_name_are_told_apart() -> None:
    join = wm.local.join_many(RELATIONS, ["a.k = b.k", "b.s = c.s", "c.j = d.j"])
    names = join.schema.names
    assert names.count("k") == 1
    assert {"k_c", "k_d", "j_a", "j_b", "s_a", "s_d", "t_a", "t_d", "s", "j"} <= set(names)
    join.close()


def test_a_condition_over_all_columns() -> None:
    on, where = TREES["chain"]
    join = wm.local.join_many(RELATIONS, on, condition="na < nd")
    assert numbers(join) == expected(f"{where} AND na < nd", RELATIONS)


def test_it_explains_itself() -> None:
    with wm.local.join_many(RELATIONS, TREES["star"][0]) as join:
        next(join)
        text = join.explain()
    flat = " ".join(text.split())
    assert "auto, which is miner" in flat
    assert "a.k = b.k and b.s = c.s and b.t within 1 minute of d.t" in flat
    assert "a and" in flat
    assert "inner join by miner" in repr(join)


def test_results_in_memory_come_as_rows_arrive() -> None:
    join = wm.local.join_many(RELATIONS, TREES["chain"][0])
    assert numbers(join)
    assert {stage for stage, rows in join.metrics.results.items() if rows} == {Stage.MM}


BAD: dict[str, tuple[Any, Any, str]] = {
    "a circle": (
        RELATIONS,
        ["a.k = b.k", "b.k = c.k", "c.k = a.k", "a.j = d.j"],
        "connected twice",
    ),
    "left out": (RELATIONS, ["a.k = b.k", "b.k = c.k"], "does not connect 'd'"),
    "unknown relation": (RELATIONS, ["a.k = z.k"], "names no relation"),
    "with itself": (RELATIONS, ["a.k = a.j"], "with itself"),
    "named twice": ([("a", None), ("a", None)], "k", "Two relations are named 'a'"),
    "one relation": ({"a": None}, "k", "1 relations cannot be joined"),
    "nine relations": ({f"r{n}": None for n in range(9)}, "k", "9 relations cannot be joined"),
    "no names": ([1, 2], "k", "names no relations"),
    "an empty name": ({"": None, "b": None}, "k", "no name of a relation"),
    "nothing to join on": (RELATIONS, [], "names no columns"),
    "no text": (RELATIONS, [7], "names no columns"),
    "the same twice": (RELATIONS, ["a.k = b.k", ("b.k", "a.k")], "says twice"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_questions_are_refused_at_the_call(what: str) -> None:
    relations, on, words = BAD[what]
    with pytest.raises(InvalidArgument, match=words) as refused:
        wm.local.join_many(relations, on)
    assert refused.value.remedy


def test_a_column_that_is_not_there_is_named_with_its_relation() -> None:
    with pytest.raises(SchemaError, match="The b input has no column 'nope'"):
        wm.local.join_many(RELATIONS, ["a.k = b.nope", "b.k = c.k", "c.k = d.k"])


def test_algorithms_of_two_inputs_are_refused_and_those_of_many_are_refused_for_two() -> None:
    with pytest.raises(InvalidArgument, match="joins two inputs, not 4"):
        wm.local.join_many(RELATIONS, "k", algorithm="rpj")
    with pytest.raises(InvalidArgument, match="not known"):
        wm.local.join_many(RELATIONS, "k", algorithm="nope")
    with pytest.raises(InvalidArgument, match="mjoin"):
        wm.local.join_many(RELATIONS, TREES["chain"][0], algorithm="mjoin").read_all()
    with pytest.raises(InvalidArgument, match="join_many"):
        wm.local.join(RELATIONS["a"], RELATIONS["b"], "k", algorithm="miner")


def test_the_command(tmp_path: Path) -> None:
    inputs = []
    for name, table in RELATIONS.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
        inputs.append(f"{name}={tmp_path / name}.parquet")
    command = [sys.executable, "-m", "watersmeet.cli", "join-many", *inputs, "--json"]
    tree = ["--on", "a.k = b.k", "--on", "b.s = c.s", "--within", "b.t,d.t=1 minute"]
    done = subprocess.run(
        [*command, *tree, "--threads", "2"], capture_output=True, text=True, check=True
    )
    summary = json.loads(done.stdout)
    assert summary["rows"] == expected(TREES["star"][1], RELATIONS).total()


def test_the_command_says_how_inputs_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["join-many", "plain.parquet", "--on", "a.k = b.k"]) == 2
    assert "no input with a name" in capsys.readouterr().err
    assert main(["join-many", "a=plain.parquet", "b=other.parquet"]) == 2
    assert "Neither --on nor --within" in capsys.readouterr().err
