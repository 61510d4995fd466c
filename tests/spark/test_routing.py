"""A row goes to the same instance whether Spark or a kernel sends it, and so does its partner."""

from __future__ import annotations

import math
import pickle
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from tests.keyed import matching
from watersmeet.errors import InvalidArgument
from watersmeet.model import Side
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.routing import HashRouter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 80
# Not a power of two, and large: nearly half of a hash's bits show.
MANY = 2**31 - 1
ODD = "a `name.with` dots"

Draw = Callable[[Random], Any]


def integers(bits: int) -> tuple[list[Any], Draw]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return [low, high, -1, 0, 1], lambda random: random.randint(low, high)


def floats(form: str, number: str) -> tuple[list[Any], Draw]:
    def drawn(random: Random) -> float:
        bits = random.getrandbits(8 * struct.calcsize(form))
        return float(struct.unpack(form, struct.pack(number, bits))[0])

    return [0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 1.0, 0.5], drawn


def decimals(digits: int, scale: int) -> tuple[list[Any], Draw]:
    top = 10**digits - 1

    def scaled(unscaled: int) -> Decimal:
        return Decimal(f"{unscaled}e-{scale}")

    # Around each power of 256 Java's form of the number grows by a byte.
    edges = [256**n // 2 + off for n in range(1, 16) for off in (-1, 0)]
    known = [0, 1, -1, top, -top] + [s * e for e in edges for s in (1, -1) if e <= top]
    return [scaled(value) for value in known], lambda random: scaled(random.randint(-top, top))


def texts(random: Random) -> str:
    length = random.choice([0, 1, 3, 4, 7, 8, 9, 31, 32, 33, 70])
    return "".join(random.choice("aé漢🙂 ") for _ in range(length))


def moments(zone: Any) -> tuple[list[Any], Draw]:
    first, last = datetime(1, 1, 1, tzinfo=zone), datetime(9999, 12, 31, 23, 59, 59, 999999, zone)
    epoch = datetime(1970, 1, 1, tzinfo=zone)
    spread = 10**15
    return [
        first,
        last,
        epoch,
    ], lambda random: epoch + timedelta(microseconds=random.randint(-spread, spread))


def structs(random: Random) -> Any:
    number = random.choice([None, random.randint(-(2**31), 2**31 - 1)])
    inner = random.choice([None, {"z": None}, {"z": math.nan}, {"z": -0.0}, {"z": random.random()}])
    return {"x": number, "y": inner, "w": random.choice([None, "", texts(random)])}


INNER = {"y": pa.struct({"z": pa.float64()}), "w": pa.string()}
STRUCT = pa.struct({"x": pa.int32(), **INNER})
WIDER = pa.struct({"x": pa.int64(), **INNER})

KINDS: dict[str, tuple[pa.DataType, tuple[list[Any], Draw]]] = {
    "boolean": (pa.bool_(), ([True, False], lambda random: random.random() < 0.5)),
    "byte": (pa.int8(), integers(8)),
    "short": (pa.int16(), integers(16)),
    "int": (pa.int32(), integers(32)),
    "long": (pa.int64(), integers(64)),
    "float": (pa.float32(), floats("<f", "<I")),
    "double": (pa.float64(), floats("<d", "<Q")),
    "decimal(5,2)": (pa.decimal128(5, 2), decimals(5, 2)),
    "decimal(9,0)": (pa.decimal128(9, 0), decimals(9, 0)),
    "decimal(10,4)": (pa.decimal128(10, 4), decimals(10, 4)),
    "decimal(18,3)": (pa.decimal128(18, 3), decimals(18, 3)),
    "decimal(19,3)": (pa.decimal128(19, 3), decimals(19, 3)),
    "decimal(28,4)": (pa.decimal128(28, 4), decimals(28, 4)),
    "decimal(38,10)": (pa.decimal128(38, 10), decimals(38, 10)),
    "string": (pa.string(), (["", "a", "a ", "x" * 32, "x" * 33, "y" * 1000], texts)),
    "binary": (
        pa.binary(),
        ([b"", b"\0", b"\xff" * 31, b"\xff" * 64], lambda r: r.randbytes(r.randint(0, 80))),
    ),
    "date": (
        pa.date32(),
        ([date.min, date.max, date(1970, 1, 1)], lambda r: date.fromordinal(r.randint(1, 3000000))),
    ),
    "timestamp": (pa.timestamp("us", "UTC"), moments(UTC)),
    "timestamp_ntz": (pa.timestamp("us"), moments(None)),
    "interval": (
        pa.duration("us"),
        (
            [timedelta(0), timedelta(microseconds=-1), timedelta(days=100_000_000)],
            lambda r: timedelta(microseconds=r.randint(-(10**17), 10**17)),
        ),
    ),
    "struct": (STRUCT, ([{"x": None, "y": None, "w": None}], structs)),
    "wider": (WIDER, ([{"x": None, "y": None, "w": None}], structs)),
    "null": (pa.null(), ([], lambda random: None)),
}

# Each side of a key, as Spark would compare them.
SAME = [((name,), (name,)) for name in KINDS]
MIXED = [
    (("byte",), ("long",)),
    (("int",), ("long",)),
    (("short",), ("float",)),
    (("long",), ("double",)),
    (("float",), ("double",)),
    (("int",), ("decimal(5,2)",)),
    (("long",), ("decimal(38,10)",)),
    (("decimal(5,2)",), ("decimal(10,4)",)),
    (("decimal(9,0)",), ("decimal(18,3)",)),
    (("decimal(18,3)",), ("decimal(28,4)",)),
    (("decimal(38,10)",), ("double",)),
    (("decimal(10,4)",), ("float",)),
    (("string",), ("binary",)),
    (("date",), ("timestamp_ntz",)),
    (("struct",), ("wider",)),
    (("null",), ("string",)),
]
COMPOSITE = [
    (("int", "string", "double"), ("long", "string", "float")),
    (("struct", "decimal(28,4)", "boolean"), ("wider", "decimal(28,4)", "boolean")),
    (("date", "timestamp", "binary"), ("date", "timestamp", "string")),
]
KEYS = [*SAME, *MIXED, *COMPOSITE]


def column(name: str, random: Random) -> pa.Array:
    kind, (known, draw) = KINDS[name]
    values = [*known, *(draw(random) for _ in range(ROWS))]
    # Nulls first, so that the known values that do not fit are few.
    values = [None, None, *values][:ROWS]
    random.shuffle(values)
    return pa.array(values, kind)


@pytest.fixture(scope="module")
def table() -> pa.RecordBatch:
    """Two columns of each type, to be the sides of joins of the table with itself."""
    random = Random(7)
    columns = {f"{name} {side}": column(name, random) for name in KINDS for side in ("l", "r")}
    columns[ODD] = pa.array(range(ROWS))
    columns["list"] = pa.array([[row] for row in range(ROWS)])
    return pa.record_batch(columns)


def routers(table: pa.RecordBatch) -> list[HashRouter]:
    found = []
    for names in KEYS:
        on = [(f"{a} l", f"{b} r") for a, b in zip(*names, strict=True)]
        left, right = (table.select([*side, ODD]).schema for side in zip(*on, strict=True))
        found.append(HashRouter.of(JoinSchema.resolve(left, right, on), instances=MANY))
    # Here every column of the table has a part in spreading rows without a key.
    for key, instances in (("null l", MANY), ("int l", 1), ("int l", 7), (ODD, 8)):
        schema = JoinSchema.resolve(table.schema, table.schema, key)
        found.append(HashRouter.of(schema, instances=instances))
    return found


@pytest.mark.spark
def test_spark_and_the_kernels_agree_on_every_type(
    spark: SparkSession, table: pa.RecordBatch
) -> None:
    frame = spark.createDataFrame(pa.Table.from_batches([table]))
    wanted = {
        f"{number} {side.name}": (router, side)
        for number, router in enumerate(routers(table))
        for side in Side
    }
    columns = [router.column(side, frame).alias(name) for name, (router, side) in wanted.items()]
    # One job for all of them, and the table beside them: rows may come in another order.
    answered = frame.select("*", *columns).toArrow().combine_chunks().to_batches()[0]
    assert answered.num_rows == ROWS
    for name, (router, side) in wanted.items():
        spark_says = answered.column(name)
        assert spark_says.type == pa.int32()
        ours = router.assign(side, answered)
        assert ours.dtype == np.int32
        assert ours.tolist() == spark_says.to_pylist(), (router.keys[side], router.instances)


@pytest.mark.spark
def test_spark_and_the_kernels_agree_where_nothing_can_spread_nulls(spark: SparkSession) -> None:
    rows = pa.record_batch({"k": pa.array([{"x": 1}, None, None], pa.struct({"x": pa.int32()}))})
    router = HashRouter.of(JoinSchema.resolve(rows.schema, rows.schema, "k"), instances=MANY)
    frame = spark.createDataFrame(pa.Table.from_batches([rows]))
    answered = frame.select("k", router.column(Side.LEFT, frame).alias("instance")).toArrow()
    rows = answered.combine_chunks().to_batches()[0]
    assert router.assign(Side.LEFT, rows).tolist() == rows.column("instance").to_pylist()


@pytest.mark.parametrize(("left", "right"), KEYS, ids=str)
def test_partners_meet(left: tuple[str, ...], right: tuple[str, ...]) -> None:
    """The values of one side, given to the other too wherever they fit its type."""
    sides = []
    for number, names in enumerate((left, right)):
        columns: dict[str, pa.Array] = {}
        for mine, other in zip(names, (left, right)[1 - number], strict=True):
            known = [*KINDS[mine][1][0], *KINDS[other][1][0]]
            columns[f"{len(columns)}"] = fitting(known, KINDS[mine][0])
        rows = min(len(array) for array in columns.values())
        columns = {name: array[:rows] for name, array in columns.items()}
        sides.append(pa.record_batch({**columns, "row": pa.array(range(rows))}))
    a, b = sides
    schema = JoinSchema.resolve(a.schema, b.schema, [str(n) for n in range(len(left))])
    router = HashRouter.of(schema, instances=MANY)
    pairs = matching(schema, a, b)
    instances = router.assign(Side.LEFT, a), router.assign(Side.RIGHT, b)
    assert pairs or "null" in left
    assert all(instances[0][i] == instances[1][j] for i, j in pairs)


def fitting(values: list[Any], kind: pa.DataType) -> pa.Array:
    found = []
    for value in values:
        try:
            found.append(pa.scalar(value, kind).as_py())
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError):
            continue
    return pa.array(found, kind)


def test_rows_without_a_key_spread() -> None:
    rows = pa.record_batch({"k": pa.nulls(1000, pa.int64()), "v": range(1000), "s": ["x"] * 1000})
    router = HashRouter.of(JoinSchema.resolve(rows.schema, rows.schema, "k"), instances=4)
    _, offsets = router.group(Side.RIGHT, rows)
    # Binomial(1000, 1/4) leaves [175, 325] less than once in ten million draws.
    assert (np.diff(offsets) > 175).all()


def test_a_router_survives_the_way_to_a_task(table: pa.RecordBatch) -> None:
    for router in routers(table):
        sent = pickle.loads(pickle.dumps(router))
        np.testing.assert_array_equal(
            sent.assign(Side.LEFT, table), router.assign(Side.LEFT, table)
        )


def test_a_slice_of_a_batch_is_routed_as_in_the_whole(table: pa.RecordBatch) -> None:
    for router in routers(table):
        whole = router.assign(Side.LEFT, table)
        np.testing.assert_array_equal(router.assign(Side.LEFT, table.slice(13, 29)), whole[13:42])
        assert router.assign(Side.LEFT, table.slice(0, 0)).size == 0


def test_a_join_needs_an_instance() -> None:
    schema = pa.schema({"k": pa.int64()})
    with pytest.raises(InvalidArgument, match="in 0 instances"):
        HashRouter.of(JoinSchema.resolve(schema, schema, "k"), instances=0)
