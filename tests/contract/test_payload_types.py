"""Columns of every type come out as they went in, by way of memory and of disk."""

from __future__ import annotations

import datetime
import random
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.contract.running import run, spilling
from watersmeet.model import JoinType
from watersmeet.rows.schema import JoinSchema
from watersmeet.testing.oracle import assert_same, counted, expected_rows, pairs_by_loop

ROWS = 60
NOON = datetime.datetime(2024, 2, 29, 12, 0, 0, 123456)

PAYLOADS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True, False]),
    "uint8": (pa.uint8(), [0, 255]),
    "float16": (pa.float16(), [0.5, -2.0]),
    "float64": (pa.float64(), [float("nan"), -0.0, 0.1]),
    "decimal32": (pa.decimal32(5, 2), [Decimal("1.25"), Decimal("-999.99")]),
    "decimal128": (pa.decimal128(38, 3), [Decimal("1.250"), Decimal(10) ** 30]),
    "decimal256": (pa.decimal256(70, 3), [Decimal("1.250"), Decimal(10) ** 60]),
    "null": (pa.null(), [None]),
    "string": (pa.string(), ["", "a", "ä" * 30]),
    "large_binary": (pa.large_binary(), [b"", b"\x00", bytes(50)]),
    "binary of 3 bytes": (pa.binary(3), [b"abc", b"\x00\x00\x00"]),
    "binary of 16 bytes": (pa.binary(16), [bytes(16), bytes(range(16))]),
    "date64": (pa.date64(), [NOON.date()]),
    "time32": (pa.time32("ms"), [datetime.time(1, 2, 3, 4000)]),
    "timestamp with zone": (pa.timestamp("ms", "Europe/Berlin"), [NOON.replace(microsecond=0)]),
    "duration": (pa.duration("us"), [datetime.timedelta(days=-3, microseconds=7)]),
    "interval": (pa.month_day_nano_interval(), [(1, 2, 3), (-1, 0, 10**15)]),
    "list": (pa.list_(pa.int32()), [[], [1, None, 3], [None]]),
    "list of lists": (pa.list_(pa.list_(pa.string())), [[], [["a", None], [], None]]),
    "large list": (pa.large_list(pa.float32()), [[], [1.5]]),
    "list of two": (pa.list_(pa.int8(), 2), [[1, 2], [None, 3]]),
    "map": (pa.map_(pa.string(), pa.int64()), [[], [("a", 1), ("b", None)]]),
    "struct": (pa.struct({"x": pa.int8(), "y": pa.list_(pa.bool_())}), [{"x": 1, "y": [True]}]),
    "struct of null": (pa.struct({"x": pa.null()}), [{"x": None}]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["a", "b"]),
    "list of dictionary": (pa.list_(pa.dictionary(pa.int8(), pa.string())), [["a", "b"], []]),
    "string view": (pa.string_view(), ["", "short", "longer than twelve bytes"]),
    "binary view": (pa.binary_view(), [b"", b"longer than twelve bytes"]),
    "run-end encoded": (pa.run_end_encoded(pa.int32(), pa.int64()), [1, 2]),
    "uuid": (pa.uuid(), [uuid.UUID(int=1).bytes, uuid.UUID(int=2**100).bytes]),
    "json": (pa.json_(), ["{}", "[1, 2]"]),
}


def payload(kind: pa.DataType, values: list[Any], rng: random.Random) -> pa.Array:
    drawn = [rng.choice([*values, None]) for _ in range(ROWS)]
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(drawn, kind.storage_type))
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(pa.array(drawn, kind.value_type))
    if pa.types.is_float16(kind):
        return pa.array(drawn, pa.float32()).cast(kind)
    return pa.array(drawn, kind)


def side(name: str, kind: pa.DataType, values: list[Any]) -> pa.Table:
    rng = random.Random(name)
    keys = pa.array([rng.randrange(12) for _ in range(ROWS)], pa.int32())
    return pa.table(
        {
            "k": keys,
            name: pa.array(range(ROWS), pa.int64()),
            f"{name}_value": payload(kind, values, rng),
        }
    )


@pytest.mark.parametrize("kind", PAYLOADS)
def test_a_payload_comes_out_as_it_went_in(kind: str, tmp_path: Path) -> None:
    left, right = (side(name, *PAYLOADS[kind]) for name in ("a", "b"))
    schema = JoinSchema.resolve(left.schema, right.schema, "k", JoinType.FULL)
    expected = expected_rows(schema, (left, right), pairs_by_loop(schema, (left, right)))
    for name in ("shj", "xjoin", "hmj", "pmj", "rpj", "diner"):
        got = run(spilling(name), schema, (left, right), directory=tmp_path)
        assert all(batch.schema.equals(schema.output) for batch in got)
        for batch in got:
            batch.validate(full=True)
        assert_same(counted(got), expected)
