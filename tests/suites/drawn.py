"""Joins drawn at random: schemas, keys, rows, and the pieces in which they come."""

from __future__ import annotations

import datetime
import random
import string
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tests.suites.examples import Example
from watersmeet.model import JoinType

Random = random.Random
Maker = Callable[[Random], Any]

NAN, INF = float("nan"), float("inf")
DAY_ONE = datetime.date(1970, 1, 1)
MIDNIGHT = datetime.datetime(1970, 1, 1)
LETTERS = string.ascii_letters + "äß\u0308\x00 "


def _integer(bits: int, *, signed: bool = True) -> Maker:
    lowest, highest = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return lambda rng: rng.choice([lowest, highest, 0, 1, rng.randint(lowest, highest)])


def _float(rng: Random) -> float:
    return rng.choice([0.0, -0.0, NAN, INF, -INF, 1.5, -2.25, rng.randint(-9, 9) / 4])


def _text(rng: Random) -> str:
    return "".join(rng.choices(LETTERS, k=rng.choice([0, 1, 2, 7, 8, 9, 12, 13, 40])))


def _decimal(digits: int, scale: int) -> Maker:
    most = 10**digits - 1

    def make(rng: Random) -> Decimal:
        number = rng.choice([0, 1, most, -most, rng.randint(-most, most)])
        return Decimal(f"{number}E-{scale}")  # From text, which no context rounds.

    return make


def _after(unit: str) -> Maker:
    step = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}[unit]
    return lambda rng: (
        MIDNIGHT + datetime.timedelta(microseconds=step * rng.randint(-(10**9), 10**9))
    )


def _list_of(maker: Maker) -> Maker:
    return lambda rng: [
        None if rng.random() < 0.2 else maker(rng) for _ in range(rng.choice([0, 1, 2, 5]))
    ]


KEYS: dict[pa.DataType, Maker] = {
    pa.int8(): _integer(8),
    pa.int16(): _integer(16),
    pa.int32(): _integer(32),
    pa.int64(): _integer(64),
    pa.uint8(): _integer(8, signed=False),
    pa.uint16(): _integer(16, signed=False),
    pa.uint32(): _integer(32, signed=False),
    pa.uint64(): _integer(64, signed=False),
    pa.float32(): _float,
    pa.float64(): _float,
    pa.bool_(): lambda rng: rng.random() < 0.5,
    pa.string(): _text,
    pa.large_string(): _text,
    pa.string_view(): _text,
    pa.binary(): lambda rng: _text(rng).encode(),
    pa.large_binary(): lambda rng: _text(rng).encode(),
    pa.binary(5): lambda rng: rng.randbytes(1) * 5,
    pa.decimal128(5, 2): _decimal(5, 2),
    pa.decimal128(18, 0): _decimal(18, 0),
    pa.decimal128(38, 6): _decimal(38, 6),
    pa.date32(): lambda rng: DAY_ONE + datetime.timedelta(days=rng.randint(-40_000, 40_000)),
    pa.timestamp("s"): _after("s"),
    pa.timestamp("ms"): _after("ms"),
    pa.timestamp("us"): _after("us"),
    pa.timestamp("us", "Europe/Berlin"): _after("us"),
    pa.time32("s"): lambda rng: datetime.time(rng.randrange(24), rng.randrange(60)),
    pa.time64("us"): lambda rng: datetime.time(rng.randrange(24), 0, 0, rng.randrange(10**6)),
    pa.duration("us"): lambda rng: datetime.timedelta(microseconds=rng.randint(-(10**12), 10**12)),
    pa.dictionary(pa.int8(), pa.string()): _text,
    pa.dictionary(pa.int32(), pa.int64()): _integer(64),
    pa.struct({"x": pa.int32(), "y": pa.string()}): lambda rng: {
        "x": rng.choice([None, 1, 2]),
        "y": rng.choice([None, "", "a"]),
    },
}
# Keys of two types, and values that both of them have.
MIXED: list[tuple[pa.DataType, pa.DataType, Maker]] = [
    (pa.int8(), pa.int64(), _integer(8)),
    (pa.int32(), pa.float64(), _integer(32)),
    (pa.float32(), pa.float64(), _float),
    (pa.int16(), pa.decimal128(9, 2), _integer(16)),
    (pa.decimal128(9, 2), pa.decimal128(12, 4), _decimal(9, 2)),
    (pa.string(), pa.large_string(), _text),
    (pa.string(), pa.dictionary(pa.int16(), pa.string()), _text),
    (pa.timestamp("s"), pa.timestamp("us"), _after("s")),
    (pa.uint8(), pa.int32(), _integer(8, signed=False)),
]
CARRIED: dict[pa.DataType, Maker] = {
    **KEYS,
    pa.null(): lambda rng: None,
    pa.decimal256(60, 3): _decimal(60, 3),
    pa.timestamp("ns"): _after("ns"),
    pa.date64(): lambda rng: DAY_ONE + datetime.timedelta(days=rng.randint(0, 40_000)),
    pa.binary_view(): lambda rng: _text(rng).encode(),
    pa.month_day_nano_interval(): lambda rng: pa.MonthDayNano([rng.randint(-9, 9), 1, 10**9]),
    pa.list_(pa.int32()): _list_of(_integer(32)),
    pa.large_list(pa.string()): _list_of(_text),
    pa.list_(pa.list_(pa.float64())): _list_of(_list_of(_float)),
    pa.list_(pa.int8(), 2): lambda rng: [rng.randint(-9, 9), None],
    pa.map_(pa.string(), pa.int64()): lambda rng: [("a", 1)] * rng.randrange(2),
    pa.struct({"l": pa.list_(pa.bool_()), "t": pa.string()}): lambda rng: {
        "l": [True, None][: rng.randrange(3)],
        "t": _text(rng),
    },
}


@dataclass(frozen=True)
class Drawn:
    """A join, the pieces in which its inputs come, and who is to compute it."""

    seed: int
    example: Example
    how: JoinType
    memory: str
    pieces: tuple[list[int], list[int]]
    """How many rows each batch has."""

    def batches(self, side: int) -> Iterator[pa.RecordBatch]:
        """Slices of larger arrays, some of them empty."""
        table = (self.example.left, self.example.right)[side].combine_chunks()
        whole = (table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)])[0]
        start = 0
        for rows in self.pieces[side]:
            yield whole.slice(start, rows)
            start += rows


def draw(seed: int) -> Drawn:
    rng = Random(seed)
    keys = [_key(rng) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
    # Few values: rows have many partners. Many values: few have any.
    pools = [[maker(rng) for _ in range(rng.choice([1, 2, 5, 5, 60]))] for _, _, maker in keys]
    names = [(f"k{n}", f"k{n}" if rng.random() < 0.7 else f"j{n}") for n in range(len(keys))]
    nulls = rng.choice([0.0, 0.05, 0.9])
    tables = []
    for side in (0, 1):
        rows = rng.choice([0, 1, 3, 20, 20, 90, 90, 250])
        columns = {
            names[n][side]: _column(kinds[side], pools[n], rows, nulls, rng)
            for n, kinds in enumerate(keys)
        }
        for number in range(rng.choice([0, 1, 1, 3])):
            kind = rng.choice(list(CARRIED))
            values = [CARRIED[kind](rng) for _ in range(8)]
            # Names that both sides have, and names of one side.
            name = f"p{number}" if rng.random() < 0.5 else f"{'ab'[side]}{number}"
            columns[name] = _column(kind, values, rows, 0.2, rng)
        tables.append(pa.table(columns))
    example = Example("seed", str(seed), tables[0], tables[1], names)
    pieces = tuple(_pieces(len(table), rng) for table in tables)
    return Drawn(
        seed,
        example,
        how=rng.choice(list(JoinType)),
        memory=rng.choice(["1MB", "2MB", "64MB"]),
        pieces=(pieces[0], pieces[1]),
    )


def _key(rng: Random) -> tuple[pa.DataType, pa.DataType, Maker]:
    if rng.random() < 0.2:
        left, right, maker = rng.choice(MIXED)
        return (left, right, maker) if rng.random() < 0.5 else (right, left, maker)
    kind = rng.choice(list(KEYS))
    return kind, kind, KEYS[kind]


def _column(kind: pa.DataType, pool: list[Any], rows: int, nulls: float, rng: Random) -> pa.Array:
    values = [None if rng.random() < nulls else rng.choice(pool) for _ in range(rows)]
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, kind)


def _pieces(rows: int, rng: Random) -> list[int]:
    most = rng.choice([1, 7, 50, 1_000])
    pieces: list[int] = []
    while sum(pieces) < rows:
        pieces.append(min(rng.choice([0, most, rng.randint(0, most)]), rows - sum(pieces)))
        if len(pieces) > 400:
            pieces.append(rows - sum(pieces))
    # An input without any batch tells no columns, so there is always one.
    return pieces or [0]
