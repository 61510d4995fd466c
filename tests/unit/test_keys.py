"""Encoded keys match exactly when Spark would call the keys equal, whatever their types."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.crossing import crossed as choose
from tests.keyed import Pairs, matching, valid
from watersmeet.model import Side
from watersmeet.rows.keys import CodeKeys, PackedKeys, PayloadKeys
from watersmeet.rows.leaves import Leaves
from watersmeet.rows.schema import JoinSchema

Value = Any


def constant(hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    return np.zeros_like(hashes)


def spark_equal(a: Value, b: Value) -> bool:
    """Spark's `=` on two key columns: null is equal to nothing."""
    return a is not None and b is not None and same(a, b)


def same(a: Value, b: Value) -> bool:
    """Equality below the top of a key, where nulls are equal to each other."""
    if a is None or b is None:
        return a is b
    if isinstance(a, dict):
        return all(same(a[name], b[name]) for name in a)
    if isinstance(a, float) or isinstance(b, float):
        a, b = float(a), float(b)
        return a == b or (math.isnan(a) and math.isnan(b))
    if isinstance(a, bytes) != isinstance(b, bytes):
        a, b = (x.encode() if isinstance(x, str) else x for x in (a, b))
    return bool(a == b)


def crossed(left: list[Value], right: list[Value]) -> Pairs:
    return {(i, j) for i, a in enumerate(left) for j, b in enumerate(right) if spark_equal(a, b)}


@dataclass(frozen=True)
class Kind:
    """A column type, values for it, and what a stored value stands for."""

    type: pa.DataType
    values: st.SearchStrategy[Value]
    build: Callable[[list[Value], pa.DataType], pa.Array] = lambda v, t: pa.array(v, t)
    meaning: Callable[[Value], Value] = lambda v: v

    def array(self, values: list[Value]) -> pa.Array:
        return self.build(values, self.type)


def from_ticks(values: list[Value], kind: pa.DataType) -> pa.Array:
    return pa.array(values, pa.int64() if kind.bit_width == 64 else pa.int32()).cast(kind)


def encoded_in_a_dictionary(values: list[Value], kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind.value_type).dictionary_encode()


def nanoseconds(per_second: int) -> Callable[[Value], Value]:
    return lambda ticks: None if ticks is None else ticks * (10**9 // per_second)


# Few values and many ends of ranges, so that equal keys are common and odd ones are met.
def integers(bits: int) -> st.SearchStrategy[int]:
    return st.sampled_from([0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))])


LARGE = [2**53, 2**53 + 1, 2**53 + 2]
OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000123))[0]
FLOATS = [0.0, -0.0, 1.0, 0.1, math.nan, OTHER_NAN, math.inf, float(2**53)]
TEXTS = ["", "a", "b", "aa", "ab" * 4, "ab" * 4 + "c", "é", "z" * 40, "\0"]
TICKS = [0, 1, -1, 1000, 1_000_000, 86_400_000, 86_400_000_000, 2**62]

int32s = Kind(pa.int32(), integers(32))
int64s = Kind(pa.int64(), integers(64) | st.sampled_from(LARGE))
floats = Kind(
    pa.float32(), st.sampled_from([float(np.float32(v)) for v in FLOATS if v == v] + [math.nan])
)
doubles = Kind(pa.float64(), st.sampled_from(FLOATS))
texts = Kind(pa.string(), st.sampled_from(TEXTS))
large_texts = Kind(pa.large_string(), st.sampled_from(TEXTS))
views = Kind(pa.string_view(), st.sampled_from(TEXTS))
dictionaries = Kind(
    pa.dictionary(pa.int32(), pa.string()), st.sampled_from(TEXTS), encoded_in_a_dictionary
)
blobs = Kind(pa.binary(), st.sampled_from([t.encode() for t in TEXTS] + [b"\xff"]))
words = Kind(pa.binary(2), st.sampled_from([b"aa", b"ab", b"\0\0"]))
booleans = Kind(pa.bool_(), st.booleans())
days = Kind(pa.date32(), st.sampled_from([date(1970, 1, 1) + timedelta(n) for n in (-1, 0, 9)]))
small_decimals = Kind(pa.decimal128(9, 2), st.sampled_from([Decimal("1.00"), Decimal("-0.10")]))
decimals = Kind(
    pa.decimal128(18, 2), st.sampled_from([Decimal("1.00"), Decimal("0.10"), Decimal(2**53)])
)
wide_decimals = Kind(
    pa.decimal128(38, 4), st.sampled_from([Decimal(1), Decimal("0.1"), Decimal(-(10**30))])
)
stamps = Kind(pa.timestamp("us"), st.sampled_from(TICKS), from_ticks, nanoseconds(10**6))
fine_stamps = Kind(pa.timestamp("ns"), st.sampled_from(TICKS), from_ticks, nanoseconds(10**9))
zoned = Kind(pa.timestamp("ms", "UTC"), st.sampled_from(TICKS), from_ticks, nanoseconds(10**3))
zoned_elsewhere = Kind(
    pa.timestamp("us", "Asia/Tokyo"), st.sampled_from(TICKS), from_ticks, nanoseconds(10**6)
)
spans = Kind(pa.duration("s"), st.sampled_from(TICKS), from_ticks, nanoseconds(1))
fine_spans = Kind(pa.duration("us"), st.sampled_from(TICKS), from_ticks, nanoseconds(10**6))
clocks = Kind(pa.time32("s"), st.sampled_from([0, 1, 1000]), from_ticks, nanoseconds(1))
fine_clocks = Kind(
    pa.time64("us"), st.sampled_from([0, 1, 10**6, 10**9]), from_ticks, nanoseconds(10**6)
)
pairs_of = st.fixed_dictionaries(
    {"a": st.none() | st.sampled_from([0, 1]), "b": st.none() | st.sampled_from(["", "x"])}
)
structs = Kind(pa.struct({"a": pa.int32(), "b": pa.string()}), pairs_of)
small_structs = Kind(
    pa.struct({"a": pa.int32(), "b": pa.struct({"c": pa.bool_()})}),
    st.fixed_dictionaries(
        {
            "a": st.none() | st.sampled_from([0, 1]),
            "b": st.none() | st.fixed_dictionaries({"c": st.none() | st.booleans()}),
        }
    ),
)
nothing = Kind(pa.null(), st.none())

COMPARABLE = {
    "int32 int32": (int32s, int32s),
    "int32 int64": (int32s, int64s),
    "int64 int64": (int64s, int64s),
    "int64 double": (int64s, doubles),
    "double double": (doubles, doubles),
    "float float": (floats, floats),
    "float double": (floats, doubles),
    "float int32": (floats, int32s),
    "text text": (texts, texts),
    "text large text": (texts, large_texts),
    "text view": (texts, views),
    "text dictionary": (texts, dictionaries),
    "dictionary dictionary": (dictionaries, dictionaries),
    "text binary": (texts, blobs),
    "binary binary": (blobs, blobs),
    "fixed binary": (words, words),
    "binary fixed": (blobs, words),
    "boolean": (booleans, booleans),
    "date": (days, days),
    "small decimal": (small_decimals, small_decimals),
    "decimal": (decimals, decimals),
    "decimal wide": (decimals, wide_decimals),
    "decimal int": (decimals, int32s),
    "int64 decimal": (int64s, decimals),
    "decimal double": (decimals, doubles),
    "double wide decimal": (doubles, wide_decimals),
    "timestamp": (stamps, stamps),
    "timestamp units": (stamps, fine_stamps),
    "timestamp zones": (zoned, zoned_elsewhere),
    "duration": (spans, fine_spans),
    "time": (clocks, fine_clocks),
    "struct": (structs, structs),
    "small struct": (small_structs, small_structs),
    "null int": (nothing, int64s),
    "null null": (nothing, nothing),
    "null struct": (nothing, structs),
}


@pytest.mark.parametrize(("name", "rehash"), choose(COMPARABLE, [None, constant]))
@given(data=st.data())
def test_one_column_matches_as_in_spark(name: str, rehash: Any, data: st.DataObject) -> None:
    left, right = COMPARABLE[name]
    rows = [data.draw(st.lists(st.none() | kind.values, max_size=6)) for kind in (left, right)]
    schema = JoinSchema.resolve(
        pa.schema({"k": left.type}), pa.schema({"k": right.type}), "k", rehash=rehash
    )
    found = matching(
        schema,
        pa.record_batch({"k": left.array(rows[0])}),
        pa.record_batch({"k": right.array(rows[1])}),
    )
    meant = [[kind.meaning(v) for v in r] for kind, r in zip((left, right), rows, strict=True)]
    assert found == crossed(*meant)


composite = st.lists(
    st.sampled_from(
        [int32s, int64s, texts, doubles, booleans, small_decimals, structs, words, dictionaries]
    ),
    min_size=2,
    max_size=4,
)


@pytest.mark.parametrize("rehash", [None, constant], ids=["hashed", "all hashes equal"])
@given(data=st.data(), kinds=composite)
def test_several_columns_match_when_all_do(
    rehash: Any, data: st.DataObject, kinds: list[Kind]
) -> None:
    names = [f"k{n}" for n in range(len(kinds))]
    shape = pa.schema({name: kind.type for name, kind in zip(names, kinds, strict=True)})
    schema = JoinSchema.resolve(shape, shape, names, rehash=rehash)
    row = st.tuples(*(st.none() | kind.values for kind in kinds))
    sides = [data.draw(st.lists(row, max_size=6)) for _ in Side]
    batches = [
        pa.RecordBatch.from_arrays(
            [kind.array([r[n] for r in rows]) for n, kind in enumerate(kinds)], schema=shape
        )
        for rows in sides
    ]
    expected = {
        (i, j)
        for i, a in enumerate(sides[0])
        for j, b in enumerate(sides[1])
        if all(spark_equal(x, y) for x, y in zip(a, b, strict=True))
    }
    assert matching(schema, *batches) == expected


@given(data=st.data(), name=st.sampled_from(list(COMPARABLE)), start=st.integers(0, 3))
def test_a_slice_is_encoded_like_its_copy(data: st.DataObject, name: str, start: int) -> None:
    kind, _ = COMPARABLE[name]
    values = data.draw(st.lists(st.none() | kind.values, min_size=3, max_size=12))
    shape = pa.schema({"k": kind.type, "v": pa.int32()})
    schema = JoinSchema.resolve(shape, shape, ["k", "v"])
    whole = pa.record_batch([kind.array(values), [1] * len(values)], schema=shape)
    sliced = whole.slice(start, 5)
    copied = pa.record_batch(
        [kind.array(values[start : start + 5]), [1] * sliced.num_rows], schema=shape
    )
    one, two = schema.encode(Side.LEFT, sliced), schema.encode(Side.LEFT, copied)
    keyed = valid(one)
    np.testing.assert_array_equal(keyed, valid(two))
    np.testing.assert_array_equal(one.codes[keyed], two.codes[keyed])


def codec(left: dict[str, pa.DataType], right: dict[str, pa.DataType] | None = None) -> Any:
    right = left if right is None else right
    return JoinSchema.resolve(pa.schema(left), pa.schema(right), list(left)).equal.codec


@pytest.mark.parametrize(
    "key",
    [
        {"a": pa.int64()},
        {"a": pa.float64()},
        {"a": pa.timestamp("us")},
        {"a": pa.decimal128(18, 4)},
        {"a": pa.bool_()},
        {"a": pa.int32(), "b": pa.date32()},
        {"a": pa.int32(), "b": pa.int16(), "c": pa.int8(), "d": pa.bool_()},
        {"a": pa.struct({"x": pa.int32(), "y": pa.bool_()})},
    ],
    ids=str,
)
def test_keys_of_64_bits_need_no_second_look(key: dict[str, pa.DataType]) -> None:
    assert isinstance(codec(key), CodeKeys)


def test_text_is_compared_where_it_is_stored() -> None:
    text, large = {"k": pa.string()}, {"k": pa.large_string()}
    for left, right in ((text, text), (text, large), ({"k": pa.string_view()}, text)):
        found = codec(left, right)
        assert isinstance(found, PayloadKeys)
        assert found.hidden is None
    schema = JoinSchema.resolve(pa.schema(text), pa.schema(large), "k")
    assert schema.stored(Side.LEFT) == pa.schema(text)


@pytest.mark.parametrize(
    ("key", "hidden"),
    [
        ({"a": pa.int64(), "b": pa.int8()}, pa.binary(9)),
        ({"a": pa.decimal128(38, 0)}, pa.binary(16)),
        ({"a": pa.string(), "b": pa.int64()}, pa.large_binary()),
        ({"a": pa.struct({"x": pa.int64()})}, pa.binary(9)),
    ],
    ids=str,
)
def test_other_keys_are_packed_beside_the_row(
    key: dict[str, pa.DataType], hidden: pa.DataType
) -> None:
    assert isinstance(codec(key), PackedKeys)
    schema = JoinSchema.resolve(pa.schema(key), pa.schema(key), list(key))
    assert schema.stored(Side.LEFT) == pa.schema(key).append(
        pa.field("__key", hidden, nullable=False)
    )


def test_the_hidden_column_yields_to_a_column_of_its_name() -> None:
    shape = pa.schema({"__key": pa.string(), "k": pa.int64()})
    schema = JoinSchema.resolve(shape, shape, ["__key", "k"])
    assert schema.stored(Side.LEFT).names == ["__key", "k", "___key"]


def test_texts_that_touch_are_not_confused() -> None:
    shape = pa.schema({"a": pa.string(), "b": pa.string(), "c": pa.string()})
    schema = JoinSchema.resolve(shape, shape, ["a", "b", "c"], rehash=constant)
    rows = [["ab", "c", ""], ["a", "bc", ""], ["a", "b", "c"], ["", "", "abc"]]
    batch = pa.RecordBatch.from_arrays([pa.array(c) for c in zip(*rows, strict=True)], schema=shape)
    assert matching(schema, batch, batch) == {(n, n) for n in range(len(rows))}


def test_a_moment_beyond_the_finer_unit_matches_nothing() -> None:
    """Year 9999 in microseconds has no nanosecond count; wrapped around it would match one."""
    end = 253_402_300_799_999_999
    wrapped = (end * 1000 + 2**63) % 2**64 - 2**63
    left, right = pa.schema({"k": pa.timestamp("us")}), pa.schema({"k": pa.timestamp("ns")})
    schema = JoinSchema.resolve(left, right, "k")
    coarse = pa.record_batch([pa.array([end, 5]).cast(pa.timestamp("us"))], schema=left)
    fine = pa.record_batch([pa.array([wrapped, 5000]).cast(pa.timestamp("ns"))], schema=right)
    assert matching(schema, coarse, fine) == {(1, 1)}


def test_dates_meet_timestamps_at_midnight() -> None:
    left, right = pa.schema({"k": pa.date32()}), pa.schema({"k": pa.timestamp("s")})
    schema = JoinSchema.resolve(left, right, "k")
    dates = pa.record_batch([pa.array([0, 1, None], pa.int32()).cast(pa.date32())], schema=left)
    stamps = pa.record_batch([pa.array([86_400, 1, 0]).cast(pa.timestamp("s"))], schema=right)
    assert matching(schema, dates, stamps) == {(0, 2), (1, 0)}


def test_what_lies_under_a_null_inside_a_struct_is_not_seen() -> None:
    kind = pa.struct({"a": pa.int64(), "b": pa.string()})
    hidden_values = [pa.array([7, 8]), pa.array(["seven", "eight"])]
    mask = pa.py_buffer(b"\0")
    children = [pa.Array.from_buffers(c.type, 2, [mask, *c.buffers()[1:]]) for c in hidden_values]
    batch = pa.record_batch({"k": pa.StructArray.from_arrays(children, fields=list(kind))})
    schema = JoinSchema.resolve(batch.schema, batch.schema, "k")
    assert matching(schema, batch, batch) == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_nulls_in_a_dictionary_are_nulls() -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["x", None]))
    batch = pa.record_batch({"k": values})
    schema = JoinSchema.resolve(batch.schema, batch.schema, "k")
    assert matching(schema, batch, batch) == {(0, 0)}


def test_run_ends_are_decoded() -> None:
    batch = pa.record_batch({"k": pc.run_end_encode(pa.array([5, 5, 6, None]))})
    plain = pa.record_batch({"k": pa.array([6, 5])})
    schema = JoinSchema.resolve(batch.schema, plain.schema, "k")
    assert schema.stored(Side.LEFT) == plain.schema
    assert matching(schema, batch, plain) == {(0, 1), (1, 1), (2, 0)}


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.decimal128(18, 0)], ids=str)
def test_buffers_at_odd_addresses_are_read(kind: pa.DataType) -> None:
    array = pa.array([str(n) for n in range(9)]).cast(kind)

    def shifted(buffer: pa.Buffer | None) -> pa.Buffer | None:
        return buffer and pa.py_buffer(b"?" + buffer.to_pybytes()).slice(1)

    moved = pa.Array.from_buffers(kind, len(array), [shifted(b) for b in array.buffers()])
    batch, odd = pa.record_batch({"k": array}), pa.record_batch({"k": moved})
    schema = JoinSchema.resolve(batch.schema, batch.schema, "k")
    assert matching(schema, batch, odd) == {(n, n) for n in range(9)}


@pytest.mark.parametrize("name", COMPARABLE)
def test_no_rows_and_only_nulls(name: str) -> None:
    left, right = COMPARABLE[name]
    shapes = pa.schema({"k": left.type}), pa.schema({"k": right.type})
    schema = JoinSchema.resolve(*shapes, "k")
    empty = schema.encode(Side.LEFT, left_batch(left, 0))
    assert len(empty.codes) == 0
    nulls = schema.encode(Side.LEFT, left_batch(left, 3))
    assert len(nulls.codes) == 3
    assert nulls.valid is not None
    assert not nulls.valid.any()


def left_batch(kind: Kind, rows: int) -> pa.RecordBatch:
    return pa.record_batch({"k": pa.nulls(rows, kind.type)})


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.uint64(), pa.int64(), pa.date32(), pa.timestamp("us", "UTC")], ids=str
)
def test_whole_numbers_are_read_as_they_are_in_every_other_way(kind: pa.DataType) -> None:
    steps = pa.array([3, None, 0, 7, None, 5], pa.int32())
    values = steps.cast(pa.int64()).cast(kind) if kind.bit_width == 64 else steps.cast(kind)
    for array in (values, values.slice(1, 3), values.slice(2, 2), values.slice(0, 0)):
        short, long = Leaves(), Leaves()
        short.add(array, kind)
        long.add(array.dictionary_encode(), kind)
        there = array.is_valid().to_numpy(zero_copy_only=False)
        for leaves in (short, long):
            assert (leaves.valid is None) == there.all()
            assert leaves.valid is None or leaves.valid.tolist() == there.tolist()
        assert short.fixed[0].dtype == long.fixed[0].dtype
        assert short.fixed[0][there].tolist() == long.fixed[0][there].tolist()
