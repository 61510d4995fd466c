"""Local joins with bands against DuckDB: every join type and type, small memory, stalls."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from tests.local.inputs import SPILLING, Gate, batches
from watersmeet.errors import InvalidArgument, SchemaError
from watersmeet.local import LocalJoin
from watersmeet.operators.stage import Stage
from watersmeet.rows.bands import Band

Rows = Counter[tuple[int | None, int | None]]
ROWS = 9_000
MANY = 16_000
SQL_TYPES = {"inner", "left", "right", "full", "semi", "anti"}


def numbers(rows: int = ROWS, *, seed: int = 1) -> np.ndarray:
    """Numbers of which some are close, both sides of zero."""
    return np.random.default_rng(seed).integers(-4 * rows, 4 * rows, rows)


def side(name: str, values: pa.Array, *, seed: int = 1) -> pa.Table:
    """Rows with a key, a value, a number and a text; some keys and values are null.

    Without the text one side would fit the smallest memory: if it is read first, nothing spills.
    """
    rng = np.random.default_rng(seed)
    count = len(values)
    null = pa.array(rng.random(count) < 0.01)
    return pa.table(
        {
            "k": pa.array(rng.integers(0, 40, count), mask=rng.random(count) < 0.01),
            "t": pa.compute.if_else(null, pa.scalar(None, values.type), values),
            name: np.arange(count),
            f"{name}_text": pa.array(["x" * 90] * count),
        }
    )


def sides(make: Any, rows: int = ROWS) -> tuple[pa.Table, pa.Table]:
    left, right = (make(numbers(rows, seed=seed)) for seed in (3, 4))
    return side("a", left, seed=5), side("b", right, seed=6)


def expected(left: pa.Table, right: pa.Table, condition: str, how: str) -> Rows:
    """Row numbers of DuckDB's join; None for a side without a partner."""
    right_row = "NULL" if how in ("semi", "anti") else "r.b"
    with duckdb.connect() as connection:
        connection.register("l", left)
        connection.register("r", right)
        found = connection.execute(
            f"SELECT l.a, {right_row} FROM l {how} JOIN r ON {condition}"
        ).fetchall()
    return Counter((row[0], row[1]) for row in found)


def found(run: LocalJoin) -> Rows:
    rows: Rows = Counter()
    for batch in run:
        left = batch.column("a").to_pylist()
        right = batch.column("b").to_pylist() if "b" in batch.schema.names else [None] * len(left)
        rows.update(zip(left, right, strict=True))
    return rows


@dataclass(frozen=True)
class Kind:
    """Values of a type from whole numbers, a band, and DuckDB's condition for it."""

    make: Any
    band: Band
    sql: str


def moments(values: np.ndarray) -> pa.Array:
    return pa.array(values * 1000, pa.int64()).view(pa.timestamp("us"))


def days(values: np.ndarray) -> pa.Array:
    return pa.array(values, pa.int32()).view(pa.date32())


def cents(values: np.ndarray) -> pa.Array:
    return pa.array([Decimal(int(value)).scaleb(-2) for value in values], pa.decimal128(9, 2))


KINDS = {
    "int64": Kind(pa.array, wm.within("t", 3), "abs(l.t - r.t) <= 3"),
    "int32, one-sided": Kind(
        lambda values: pa.array(values, pa.int32()),
        wm.band("t", low=2, high=6, low_open=True),
        "l.t - r.t > 2 AND l.t - r.t <= 6",
    ),
    "double": Kind(
        lambda values: pa.array(values / 8), wm.within("t", 0.25), "abs(l.t - r.t) <= 0.25"
    ),
    "decimal": Kind(cents, wm.within("t", Decimal("0.03")), "abs(l.t - r.t) <= 0.03"),
    "date": Kind(days, wm.within("t", 3), "abs(l.t - r.t) <= 3"),
    "timestamp": Kind(
        moments,
        wm.band("t", "-2 ms", "5 ms", high_open=True),
        "epoch_us(l.t) - epoch_us(r.t) >= -2000 AND epoch_us(l.t) - epoch_us(r.t) < 5000",
    ),
}


@pytest.mark.parametrize("how", sorted(SQL_TYPES))
@pytest.mark.parametrize("keyed", [False, True], ids=["band", "key and band"])
def test_every_join_type(how: str, keyed: bool) -> None:
    """In a memory in which it fits, and in one in which it does not."""
    kind = KINDS["int64"]
    left, right = sides(kind.make)
    wide = wm.within("t", 30) if keyed else kind.band
    condition = "l.k = r.k AND abs(l.t - r.t) <= 30" if keyed else kind.sql
    wanted = expected(left, right, condition, how)
    for memory in ("64MB", SPILLING):
        on: Any = ["k", wide] if keyed else wide
        with wm.local.join(left, right, on=on, how=how, memory=memory) as run:
            assert found(run) == wanted
        assert run.metrics.rows_spilled == 0 or memory == SPILLING


# As whole numbers, which tests/unit/test_edges.py has of every type.
ALIKE = ("date", "timestamp")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in ALIKE else ()) for name in KINDS],
)
def test_every_type_of_column(name: str) -> None:
    kind = KINDS[name]
    left, right = sides(kind.make, ROWS)
    wanted = expected(left, right, kind.sql, "full")
    assert wanted.total() > ROWS
    for algorithm in ("auto", "diner-plain"):
        with wm.local.join(
            left, right, on=kind.band, how="full", memory=SPILLING, algorithm=algorithm
        ) as run:
            assert found(run) == wanted
        assert run.metrics.rows_spilled > 0


@pytest.mark.parametrize(
    "algorithm", ["diner", pytest.param("diner-plain", marks=pytest.mark.slow)]
)
def test_numbers_that_are_none_and_infinities(algorithm: str) -> None:
    """NaN is above all, as Spark has it: a band with an upper end has none, others have it."""
    drawn = numbers(MANY) / 16
    special = np.array([math.nan, math.inf, -math.inf, -0.0])
    drawn[::9] = special[np.arange(len(drawn[::9])) % 4]
    left, right = side("a", pa.array(drawn), seed=5), side("b", pa.array(drawn[::-1]), seed=6)
    plain = "NOT isnan(l.t - r.t) AND "
    asked: list[tuple[Any, str]] = [
        (wm.within("t", 0.125), f"{plain} abs(l.t - r.t) <= 0.125"),
        (["k", wm.within("t", 5)], f"l.k = r.k AND {plain} abs(l.t - r.t) <= 5"),
    ]
    for on, condition in asked:
        # DuckDB has no rule for inf - inf that is Spark's; it is NaN there and here.
        finite = "isfinite(l.t) AND isfinite(r.t) AND "
        wanted = expected(left, right, finite + condition, "inner")
        with wm.local.join(left, right, on=on, algorithm=algorithm, memory=SPILLING) as run:
            assert found(run) == wanted
        assert run.metrics.rows_spilled > 0


def test_a_band_without_an_upper_end_has_nan() -> None:
    values = pa.array([math.nan, 1.0, math.inf, -math.inf, None])
    table = pa.table({"t": values, "a": range(5)})
    others = pa.table({"t": values, "b": range(5)})
    with wm.local.join(table, others, on=wm.band("t", low=0)) as run:
        got = found(run)
    # The difference is NaN with NaN on either side, and between infinities of one sign.
    nan = {(0, n) for n in range(4)} | {(n, 0) for n in range(4)} | {(2, 2), (3, 3)}
    assert got == Counter(nan | {(1, 1), (1, 3), (2, 1), (2, 3)})


def test_rows_come_while_the_inputs_stall() -> None:
    left, right = sides(KINDS["int64"].make, MANY)
    half = MANY // 2
    gate = Gate(batches(right.slice(0, half), 500), batches(right.slice(half), 500))
    run = wm.local.join(iter(batches(left, 500)), gate, on=wm.within("t", 3), memory=SPILLING)
    rows: Rows = Counter()
    with run:
        while not run.metrics.results[Stage.DD]:
            batch = next(run)
            pairs = (batch.column(name).to_pylist() for name in ("a", "b"))
            rows.update(zip(*pairs, strict=True))
        assert not gate.is_open
        gate.open()
        rows += found(run)
    assert rows == expected(left, right, KINDS["int64"].sql, "inner")


def test_columns_of_two_names_and_two_bands() -> None:
    left, right = sides(KINDS["int64"].make)
    right = right.rename_columns(["k", "u", "b", "b_text"])
    on = [wm.band(("t", "u"), low=-40, high=40), wm.within(("k", "k"), 1)]
    condition = "abs(l.t - r.u) <= 40 AND abs(l.k - r.k) <= 1"
    with wm.local.join(left, right, on=on, memory=SPILLING) as run:
        assert found(run) == expected(left, right, condition, "inner")


def test_it_says_what_it_joins_on() -> None:
    left, right = sides(KINDS["timestamp"].make)
    with wm.local.join(left, right, on=["k", wm.within("t", "90 seconds")]) as run:
        for _ in run:
            pass
        assert "t within 1 minute 30 seconds" in run.explain()
        assert "diner" in run.explain()


# ---- what is refused at the call ----------------------------------------------------------------

PLAIN = pa.table({"k": [1], "t": [1], "text": ["x"], "pair": [{"x": 1}], "at": [timedelta(1)]})

REFUSED: list[tuple[Any, dict[str, str], type[Exception], str]] = [
    (wm.within("text", 1), {}, SchemaError, "no band of 'text'"),
    (wm.within("pair", 1), {}, SchemaError, "no band of 'pair'"),
    (wm.within("nope", 1), {}, SchemaError, "no column 'nope'"),
    (wm.within(("t", "nope"), 1), {}, SchemaError, "right input has no column 'nope'|'nope'"),
    (wm.within("t", "5 seconds"), {}, SchemaError, "Give a number"),
    (wm.within("at", 5), {}, SchemaError, "Give a span of time"),
    (wm.within(("t", "at"), 5), {}, SchemaError, "no band of 't'"),
    (wm.within("t", 1), {"algorithm": "rpj"}, InvalidArgument, "not a band of values.*diner"),
    (["k", wm.within("t", 1)], {"algorithm": "pr-join"}, InvalidArgument, "not a band.*diner"),
]


@pytest.mark.parametrize(
    ("on", "options", "error", "said"),
    REFUSED,
    ids=[str(each[0]) + str(each[1]) for each in REFUSED],
)
def test_what_cannot_be_joined_is_refused_at_the_call(
    on: Any, options: dict[str, str], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        wm.local.join(PLAIN, PLAIN, on=on, **options)  # type: ignore[arg-type]


def test_an_unknown_column_is_named_although_one_side_is_not_known_yet() -> None:
    def later() -> Iterator[pa.RecordBatch]:
        yield from PLAIN.to_batches()

    with pytest.raises(SchemaError, match="'nope'"):
        wm.local.join(PLAIN, later(), on=wm.within(("nope", "t"), 1))
