"""Local joins with intervals against DuckDB: every join type and type, small memory, hot keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from tests.local.inputs import SPILLING
from tests.local.test_bands import cents, days, expected, found, moments
from watersmeet.errors import InvalidArgument, SchemaError
from watersmeet.rows.intervals import Overlap

ROWS = 6_000


def side(name: str, make: Any, rows: int = ROWS, *, seed: int, keys: int = 40) -> pa.Table:
    """A key, a value and an interval, some of them null, some that end before they start; lengths
    are from 1 to 10,000."""
    random = np.random.default_rng(seed)
    start = random.integers(-100 * rows, 100 * rows, rows)
    length = (10 ** random.uniform(0, 4, rows)).astype(np.int64)
    # Many values are just where an interval starts or ends.
    value = np.where(random.random(rows) < 0.5, start, random.integers(-200, 200, rows))
    end = np.where(random.random(rows) < 0.05, start - length, start + length)
    columns = {"p": value, "s": start, "e": end}
    return pa.table(
        {
            "k": pa.array(random.integers(0, keys, rows), mask=random.random(rows) < 0.01),
            **{each: _with_nulls(make(values), random) for each, values in columns.items()},
            name: np.arange(rows),
            f"{name}_text": pa.array(["x" * 90] * rows),
        }
    )


def _with_nulls(values: pa.Array, random: np.random.Generator) -> pa.Array:
    null = pa.array(random.random(len(values)) < 0.01)
    return pa.compute.if_else(null, pa.scalar(None, values.type), values)


def eighths(values: np.ndarray) -> pa.Array:
    floats = values / 8
    floats[::997], floats[7::997] = np.nan, np.inf
    return pa.array(floats)


KINDS = {"int64": pa.array, "double": eighths, "decimal": cents, "date": days, "timestamp": moments}


@dataclass(frozen=True)
class Asked:
    on: Overlap
    sql: str


ASKED = {
    "between": Asked(wm.between("p", "s", "e"), "r.s <= l.p AND l.p <= r.e"),
    "turned, open": Asked(
        wm.between(("s", "e"), "p", low_open=True, high_open=True), "l.s < r.p AND r.p < l.e"
    ),
    "half open": Asked(wm.between("p", ("s", "e"), high_open=True), "r.s <= l.p AND l.p < r.e"),
    "overlaps": Asked(wm.overlaps(("s", "e"), ("s", "e")), "l.s <= r.e AND r.s <= l.e"),
    "overlaps, open": Asked(
        wm.overlaps(("s", "e"), ("s", "e"), open=True), "l.s < r.e AND r.s < l.e"
    ),
}


def check(asked: Asked, kind: str, how: str, memory: str, *, beside: bool) -> None:
    left, right = (side(name, KINDS[kind], seed=seed) for name, seed in (("a", 1), ("b", 2)))
    on: Any = ["k", asked.on] if beside else asked.on
    sql = f"l.k = r.k AND {asked.sql}" if beside else asked.sql
    with wm.local.join(left, right, on=on, how=how, memory=memory) as run:
        rows = found(run)
    assert rows == expected(left, right, sql, how)
    assert rows.total() > (30 if how == "anti" else 100)
    assert (run.metrics.rows_spilled > 0) == (memory == SPILLING)


# Each type, question, join type and memory; the slow test has all types with all join types.
SOME = [
    ("int64", "between", "inner", SPILLING, False),
    ("int64", "overlaps", "full", "256MB", False),
    ("double", "overlaps", "left", SPILLING, True),
    ("double", "turned, open", "anti", "256MB", True),
    ("decimal", "half open", "semi", SPILLING, False),
    ("date", "overlaps, open", "right", "256MB", False),
    ("timestamp", "between", "full", SPILLING, True),
]


@pytest.mark.parametrize(("kind", "name", "how", "memory", "beside"), SOME)
def test_intervals_are_duckdbs(kind: str, name: str, how: str, memory: str, beside: bool) -> None:
    check(ASKED[name], kind, how, memory, beside=beside)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("kind", KINDS)
def test_all_intervals_are_duckdbs(kind: str, how: str) -> None:
    for number, asked in enumerate(ASKED.values()):
        for beside in (False, True):
            memory = SPILLING if (number % 2 == 0) == beside else "256MB"
            check(asked, kind, how, memory, beside=beside)


@pytest.mark.parametrize("beside", [False, True])
def test_a_hot_key_is_not_joined_with_all_of_its_rows(beside: bool) -> None:
    """Lengths of four decades, one key: what is looked at is little more than what is found."""
    left, right = (
        side(name, pa.array, 20_000, seed=seed, keys=1) for name, seed in (("a", 1), ("b", 2))
    )
    near = wm.overlaps(("s", "e"), ("s", "e"))
    on: Any = ["k", near] if beside else near
    with wm.local.join(left, right, on=on) as run:
        rows = sum(batch.num_rows for batch in run)
    assert rows > 10_000
    assert run.metrics.candidates < 3 * rows


def test_many_keys_are_not_compared_with_each_other() -> None:
    left, right = (
        side(name, pa.array, 20_000, seed=seed, keys=1000) for name, seed in (("a", 1), ("b", 2))
    )
    # Intervals that all overlap: only the key tells their rows apart.
    long = [
        table.set_column(3, "e", pa.compute.add(table.column("s"), 10**9))
        for table in (left, right)
    ]
    on: Any = ["k", wm.overlaps(("s", "e"), ("s", "e"))]
    with wm.local.join(long[0], long[1], on=on) as run:
        rows = sum(batch.num_rows for batch in run)
    assert rows > 300_000
    assert run.metrics.candidates < 1.1 * rows


def test_explain_has_their_words() -> None:
    table = pa.table({"p": [1], "s": [0], "e": [2]})
    with wm.local.join(table, table, on=wm.between("p", "s", "e")) as run:
        assert run.read_all().num_rows == 1
        assert "s <= p <= e" in run.explain()


@pytest.mark.parametrize(
    ("on", "error", "said"),
    [
        (wm.between("p", "s", "nope"), SchemaError, "right input has no column 'nope'"),
        (wm.between("k", "s", "text"), SchemaError, "'text' is neither a number nor"),
    ],
    ids=str,
)
def test_errors_come_at_the_call(on: Overlap, error: type[Exception], said: str) -> None:
    table = pa.table({"k": [1], "s": [0], "e": [2], "text": ["a"]})
    points = pa.table({"p": [1], "k": [2]})
    with pytest.raises(error, match=said):
        wm.local.join(points, table, on=on)


def test_an_algorithm_for_equal_keys_is_refused() -> None:
    table = pa.table({"p": [1], "s": [0], "e": [2]})
    with pytest.raises(InvalidArgument, match=r"not intervals.*diner"):
        wm.local.join(table, table, on=wm.between("p", "s", "e"), algorithm="rpj")


def test_more_than_two_inputs_are_refused() -> None:
    table = pa.table({"p": [1], "s": [0], "e": [2]})
    on: Any = ["x.p = y.p", wm.between("y.p", "z.s", "z.e")]
    with pytest.raises(InvalidArgument, match=r"intervals are joined between two inputs"):
        wm.local.join_many({"x": table, "y": table, "z": table}, on)
