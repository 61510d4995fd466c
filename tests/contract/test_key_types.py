"""Every algorithm, join type and key type gives what DuckDB gives."""

from __future__ import annotations

import datetime
import random
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.contract.running import run, spilling
from tests.crossing import crossed
from watersmeet.model import JoinType
from watersmeet.rows.schema import JoinSchema
from watersmeet.testing.oracle import (
    assert_same,
    counted,
    expected_rows,
    pairs_by_duckdb,
    pairs_by_loop,
)

NAN = float("nan")
NOON = datetime.datetime(2024, 2, 29, 12, 0, 0, 123456)
MIDNIGHT = datetime.datetime(2024, 2, 29)
DAY = datetime.timedelta(days=1)
POINT = pa.struct([("x", pa.int32()), ("name", pa.string())])


@dataclass(frozen=True)
class Keys:
    """Key columns by name and type, left and right, and the values they take on both sides."""

    left: dict[str, pa.DataType]
    right: dict[str, pa.DataType]
    values: dict[str, list[Any]]
    duckdb_knows: bool = True

    @property
    def on(self) -> list[tuple[str, str]]:
        return list(zip(self.left, self.right, strict=True))


def same(kind: pa.DataType, values: list[Any], *, duckdb_knows: bool = True) -> Keys:
    return Keys({"k": kind}, {"k": kind}, {"k": values}, duckdb_knows)


def different(left: pa.DataType, right: pa.DataType, values: list[Any]) -> Keys:
    return Keys({"k": left}, {"k": right}, {"k": values})


KEYS = {
    "int8": same(pa.int8(), [-128, -1, 0, 1, 127]),
    "int16": same(pa.int16(), [-(2**15), -1, 0, 1, 2**15 - 1]),
    "int32": same(pa.int32(), [-(2**31), -1, 0, 1, 2**31 - 1]),
    "int64": same(pa.int64(), [-(2**63), -1, 0, 1, 2**63 - 1]),
    "uint64": same(pa.uint64(), [0, 1, 2**63, 2**64 - 1]),
    "float32": same(pa.float32(), [0.0, -0.0, NAN, 1.5, -1.5, float("inf")]),
    "float64": same(pa.float64(), [0.0, -0.0, NAN, -NAN, 1.5, 1e300, float("-inf")]),
    "bool": same(pa.bool_(), [True, False]),
    "decimal of 7 digits": same(pa.decimal128(7, 2), [Decimal("1.50"), Decimal("-1.50"), 0]),
    "decimal of 18 digits": same(pa.decimal128(18, 4), [Decimal("99999999999999.1"), Decimal(-1)]),
    "decimal of 38 digits": same(
        pa.decimal128(38, 10), [Decimal(10) ** 27, Decimal(10) ** 27 + 1, Decimal(-1), 0]
    ),
    "decimal of 60 digits": same(
        pa.decimal256(60, 2), [Decimal(10) ** 50, Decimal(10) ** 50 + 1], duckdb_knows=False
    ),
    "string": same(pa.string(), ["", "a", "A", "a ", "ä", "longer than eight bytes"]),
    "large_string": same(pa.large_string(), ["", "a", "\x00", "longer than eight bytes"]),
    "binary": same(pa.binary(), [b"", b"\x00", b"\x00\x00", b"a", bytes(range(20))]),
    "binary of 16 bytes": same(pa.binary(16), [bytes(16), bytes(range(16)), bytes(range(1, 17))]),
    "date": same(pa.date32(), [NOON.date(), NOON.date() + DAY, datetime.date(1969, 12, 31)]),
    "timestamp": same(pa.timestamp("us"), [NOON, NOON + DAY, datetime.datetime(1969, 12, 31)]),
    "timestamp with zone": same(pa.timestamp("us", "UTC"), [NOON, NOON + DAY]),
    "dictionary": same(pa.dictionary(pa.int8(), pa.string()), ["a", "b", "c"]),
    "struct": same(
        POINT,
        [
            {"x": 1, "name": "a"},
            {"x": None, "name": "a"},
            {"x": None, "name": None},
            {"x": 1, "name": ""},
        ],
    ),
    "int32 and int64": different(pa.int32(), pa.int64(), [-(2**31), -1, 0, 1]),
    "int8 and float64": different(pa.int8(), pa.float64(), [-1, 0, 1]),
    "float32 and float64": different(pa.float32(), pa.float64(), [0.0, -0.0, NAN, 0.1, 0.5]),
    "int32 and decimal": different(pa.int32(), pa.decimal128(12, 2), [-1, 0, 1]),
    "decimals": different(pa.decimal128(9, 1), pa.decimal128(20, 3), [Decimal("0.5"), Decimal(7)]),
    "date and timestamp": different(
        pa.date32(), pa.timestamp("us"), [MIDNIGHT, MIDNIGHT - 9999 * DAY]
    ),
    "seconds and microseconds": different(
        pa.timestamp("s"), pa.timestamp("us"), [MIDNIGHT, MIDNIGHT + DAY / 2]
    ),
    "different names": Keys({"a": pa.int64()}, {"b": pa.int64()}, {"a": [1, 2], "b": [1, 2]}),
    "string and int": Keys(
        {"s": pa.string(), "i": pa.int32()},
        {"s": pa.string(), "i": pa.int32()},
        {"s": ["", "a", "b"], "i": [1, 2]},
    ),
    "two strings": Keys(
        {"s": pa.string(), "t": pa.string()},
        {"s": pa.string(), "u": pa.string()},
        {"s": ["", "a", "ab"], "t": ["", "b", "bc"], "u": ["", "b", "c"]},
    ),
    "two ints of different widths": Keys(
        {"i": pa.int16(), "j": pa.int64()},
        {"i": pa.int32(), "j": pa.int64()},
        {"i": [0, -1, 1], "j": [0, -1, 2**40]},
    ),
}

LEFT_ROWS, RIGHT_ROWS = 66, 50


def table(columns: dict[str, pa.DataType], keys: Keys, *, rows: int, payload: str) -> pa.Table:
    """Random keys, every sixth of them null, some of which the other side does not have."""
    rng = random.Random(f"{payload} {rows}")
    drawn = {
        name: pa.array(
            [
                None if rng.random() < 1 / 6 else rng.choice(keys.values[name][rows % 2 :])
                for _ in range(rows)
            ],
            kind,
        )
        for name, kind in columns.items()
    }
    return pa.table({**drawn, payload: pa.array(range(rows), pa.int64())})


@pytest.mark.parametrize(("kind", "how"), crossed(KEYS, JoinType, times=2))
def test_every_algorithm_agrees_with_duckdb(kind: str, how: JoinType, tmp_path: Path) -> None:
    keys = KEYS[kind]
    left = table(keys.left, keys, rows=LEFT_ROWS, payload="l")
    right = table(keys.right, keys, rows=RIGHT_ROWS + 1, payload="r")
    schema = JoinSchema.resolve(left.schema, right.schema, keys.on, how)
    pairs = pairs_by_loop(schema, (left, right))
    if keys.duckdb_knows:
        assert pairs == pairs_by_duckdb(schema, (left, right))
    expected = expected_rows(schema, (left, right), pairs)
    assert how is JoinType.ANTI or len(expected) > 10  # the case is worth running
    # The rectangle joins share what they do with keys, and one of them stands for all.
    for name in ("shj", "xjoin", "hmj", "pmj", "rpj", "pr-join", "diner"):
        got = run(spilling(name), schema, (left, right), directory=tmp_path)
        assert all(batch.schema.equals(schema.output) for batch in got)
        assert_same(counted(got), expected)
