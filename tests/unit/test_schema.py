"""A join's columns come in Spark's order, and what cannot be joined is refused before any row."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from numpy.typing import NDArray

from watersmeet.errors import InvalidArgument, SchemaError
from watersmeet.model import JoinType, Side
from watersmeet.operators.stage import Stage
from watersmeet.rows.address import Index, KeyBuffers, Matches, Rows, RowSource
from watersmeet.rows.batch import BatchRows
from watersmeet.rows.schema import JoinSchema

ORDERS = pa.schema([("note", pa.string()), ("id", pa.int32()), ("total", pa.int64())])
ITEMS = pa.schema([("total", pa.float64()), ("name", pa.string()), ("id", pa.int64())])

orders = pa.record_batch([["a", "b", None], [1, 2, 3], [10, 20, 30]], schema=ORDERS)
items = pa.record_batch([[0.5, 1.5], ["x", "y"], [2, 4]], schema=ITEMS)


def rows(batch: pa.RecordBatch, *index: int) -> Rows:
    return Rows(BatchRows(batch), np.array(index, np.int64))


def matches(left: Rows | None, right: Rows | None) -> Matches:
    return Matches((left, right), Stage.MM)


def rejected(**arguments: Any) -> str:
    """The message of the error that `resolve` ends in; it must say what to do."""
    settings = {"left": ORDERS, "right": ITEMS, "on": "id", **arguments}
    with pytest.raises((SchemaError, InvalidArgument)) as error:
        JoinSchema.resolve(**settings)
    assert error.value.remedy
    return str(error.value)


# What Spark 4.3 gives for the same tables; tests/spark/test_key_rules.py asks it again.
SPARK_ORDER = {
    "inner": ("id:int32 note:string total:int64 total_right:double name:string"),
    "left": ("id:int32 note:string total:int64 total_right:double name:string"),
    "right": ("id:int64 note:string total:int64 total_right:double name:string"),
    "full": ("id:int64 note:string total:int64 total_right:double name:string"),
    "semi": ("id:int32 note:string total:int64"),
    "anti": ("id:int32 note:string total:int64"),
}


@pytest.mark.parametrize("how", SPARK_ORDER)
def test_a_shared_key_comes_first_and_once(how: str) -> None:
    schema = JoinSchema.resolve(ORDERS, ITEMS, "id", how)
    found = " ".join(f"{f.name}:{f.type}" for f in schema.output)
    assert found == SPARK_ORDER[how]


def test_keys_of_different_names_stay_where_they_are() -> None:
    items_by_order = ITEMS.set(2, pa.field("order", pa.int64()))
    for on in ({"id": "order"}, [("id", "order")]):
        schema = JoinSchema.resolve(ORDERS, items_by_order, on, "full")
        assert schema.output.names == ["note", "id", "total", "total_right", "name", "order"]
        assert schema.output.field("id").type == pa.int32()
        semi = JoinSchema.resolve(ORDERS, items_by_order, on, "semi")
        assert semi.output.names == ORDERS.names


def test_shared_keys_come_in_the_order_of_on() -> None:
    shape = pa.schema({name: pa.int64() for name in "abcd"})
    assert JoinSchema.resolve(shape, shape, ["c", "a"], "semi").output.names == list("cabd")
    mixed = JoinSchema.resolve(shape, shape, ["c", ("a", "b")])
    assert mixed.output.names == ["c", "a", "b", "d", "a_right", "b_right", "d_right"]


NULLABLE = {
    "inner": [False, False, False],
    "left": [False, False, True],
    "right": [False, True, False],
    "full": [True, True, True],
    "semi": [False, False],
    "anti": [False, False],
}


@pytest.mark.parametrize("how", NULLABLE)
def test_a_side_that_can_be_missing_is_nullable(how: str) -> None:
    left = pa.schema([pa.field("k", pa.int32(), False), pa.field("v", pa.int32(), False)])
    right = pa.schema([pa.field("k", pa.int32(), False), pa.field("w", pa.int32(), False)])
    output = JoinSchema.resolve(left, right, "k", how).output
    assert [field.nullable for field in output] == NULLABLE[how]


def test_names_that_clash_get_the_suffix_of_their_side() -> None:
    schema = JoinSchema.resolve(ORDERS, ITEMS, "id", suffixes=("_l", "_r"))
    assert schema.output.names == ["id", "note", "total_l", "total_r", "name"]


def test_errors_before_a_row_is_read() -> None:
    assert "no column 'idd'" in rejected(on="idd")
    assert "note, id, total" in rejected(on="idd")
    assert "right input has no column 'note'" in rejected(on="note")
    assert "names no key" in rejected(on=[])
    assert "names a key twice" in rejected(on=["id", "id"])
    assert "does not name key columns" in rejected(on=7)
    assert "does not name key columns" in rejected(on=[("id", "id", "id")])
    assert "how='sideways'" in rejected(how="sideways")
    assert "'note' (string) and 'id' (int64)" in rejected(on={"note": "id"})
    twice = pa.schema([("id", pa.int64()), ("x", pa.int8()), ("x", pa.int8())])
    assert "left input has several columns named 'x'" in rejected(left=twice)
    assert "right input has several columns named 'x'" in rejected(right=twice)
    clash = ORDERS.append(pa.field("total_right", pa.int8()))
    assert "several columns named 'total_right'" in rejected(left=clash)
    assert "several columns named 'total'" in rejected(suffixes=("", ""))
    runs = pa.list_(pa.run_end_encoded(pa.int32(), pa.int64()), 2)
    assert "'runs' of the left input" in rejected(left=ORDERS.append(pa.field("runs", runs)))


BOTH = matches(rows(orders, 1, 1), rows(items, 0, 0))
ONLY_LEFT = matches(rows(orders, 2, 0), None)
ONLY_RIGHT = matches(None, rows(items, 1))
PAIR: dict[str, Any] = {"id": 2, "note": "b", "total": 20, "total_right": 0.5, "name": "x"}
ALONE: list[dict[str, Any]] = [
    {"id": 3, "note": None, "total": 30, "total_right": None, "name": None},
    {"id": 1, "note": "a", "total": 10, "total_right": None, "name": None},
]
UNASKED = {"id": 4, "note": None, "total": None, "total_right": 1.5, "name": "y"}


@pytest.mark.parametrize(
    ("how", "found", "expected"),
    [
        ("inner", BOTH, [PAIR, PAIR]),
        ("left", BOTH, [PAIR, PAIR]),
        ("left", ONLY_LEFT, ALONE),
        ("right", BOTH, [PAIR, PAIR]),
        ("right", ONLY_RIGHT, [UNASKED]),
        ("full", BOTH, [PAIR, PAIR]),
        ("full", ONLY_LEFT, ALONE),
        ("full", ONLY_RIGHT, [UNASKED]),
        ("anti", ONLY_LEFT, [{n: row[n] for n in ("id", "note", "total")} for row in ALONE]),
        ("semi", ONLY_LEFT, [{n: row[n] for n in ("id", "note", "total")} for row in ALONE]),
    ],
)
def test_matches_become_rows(how: str, found: Matches, expected: list[dict[str, Any]]) -> None:
    schema = JoinSchema.resolve(ORDERS, ITEMS, "id", how)
    batch = schema.materialise(found)
    batch.validate(full=True)
    assert batch.schema == schema.output
    assert batch.to_pylist() == expected


@pytest.mark.parametrize("how", list(JoinType))
def test_no_matches_become_no_rows(how: JoinType) -> None:
    schema = JoinSchema.resolve(ORDERS, ITEMS, "id", how)
    right = rows(items) if how.emits_pairs else None
    batch = schema.materialise(matches(rows(orders), right))
    assert batch.num_rows == 0
    assert batch.schema == schema.output


class _Table:
    """Rows that are not those of a batch which has just come; it says which columns are copied."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._rows = BatchRows(batch)
        self.copied: list[int] = []

    def take(self, column: int, index: Index) -> pa.Array:
        self.copied.append(column)
        return self._rows.take(column, index)

    def widths(self, column: int, index: Index) -> Index:
        return self._rows.widths(column, index)

    def longest(self, columns: Sequence[int]) -> int:
        return self._rows.longest(columns)

    def key_buffers(self, column: int) -> KeyBuffers:
        return self._rows.key_buffers(column)


@pytest.mark.parametrize("how", ["inner", "left", "right"])
@pytest.mark.parametrize("kind", [pa.int64(), pa.date32(), pa.timestamp("us", "UTC")], ids=str)
def test_a_whole_key_is_copied_from_the_batch_that_came(how: str, kind: pa.DataType) -> None:
    schema = pa.schema({"key": kind, "n": pa.int64()})
    keys = pa.array([4, 5], pa.int32() if kind == pa.date32() else pa.int64())
    batch = pa.record_batch([keys.cast(kind), pa.array([7, 8])], schema)
    joined = JoinSchema.resolve(schema, schema, "key", how)
    for stored in Side:
        table, one = _Table(batch), np.array([1])
        sources: list[RowSource] = [BatchRows(batch), BatchRows(batch)]
        sources[stored] = table
        left, right = (Rows(source, one) for source in sources)
        found = joined.materialise(Matches((left, right), Stage.MM))
        assert found.column("key").equals(batch.column("key").slice(1))
        assert table.copied == [1], "its key is not read"


def test_a_key_that_may_be_written_in_several_ways_is_that_of_its_own_side() -> None:
    """-0.0 equals 0.0, and the result has the left one."""
    schema = pa.schema({"key": pa.float64()})
    left, right = (pa.record_batch([[value]], schema) for value in (-0.0, 0.0))
    joined = JoinSchema.resolve(schema, schema, "key", "inner")
    rows = (Rows(_Table(left), np.array([0])), Rows(BatchRows(right), np.array([0])))
    (key,) = joined.materialise(Matches(rows, Stage.MM)).column("key").to_pylist()
    assert np.signbit(key)


def test_a_full_join_says_when_a_key_does_not_fit_the_shared_type() -> None:
    left, right = pa.schema({"k": pa.timestamp("us")}), pa.schema({"k": pa.timestamp("ns")})
    schema = JoinSchema.resolve(left, right, "k", "full")
    late = pa.record_batch([pa.array([253_402_300_799_999_999]).cast("timestamp[us]")], left)
    with pytest.raises(SchemaError, match="'k' does not fit timestamp"):
        schema.materialise(matches(rows(late, 0), None))


class Watched:
    """A source that remembers which columns were copied out."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._rows = BatchRows(batch)
        self.taken: list[str] = []
        self._names = batch.schema.names

    def take(self, column: int, index: Index) -> pa.Array:
        self.taken.append(self._names[column])
        return self._rows.take(column, index)

    def widths(self, column: int, index: Index) -> Index:
        return self._rows.widths(column, index)

    def longest(self, columns: Sequence[int]) -> int:
        return self._rows.longest(columns)

    def key_buffers(self, column: int) -> KeyBuffers:
        return self._rows.key_buffers(column)


ALL_LEFT = np.array([0, 1, 2, 0, 1, 2])
ALL_RIGHT = np.array([0, 0, 0, 1, 1, 1])


def kept(condition: Any, how: str = "inner", **settings: Any) -> list[bool] | None:
    schema = JoinSchema.resolve(ORDERS, ITEMS, "id", how, condition=condition, **settings)
    mask = schema.verify(Rows(BatchRows(orders), ALL_LEFT), Rows(BatchRows(items), ALL_RIGHT))
    return None if mask is None else mask.tolist()


def test_without_a_condition_there_is_nothing_to_verify() -> None:
    assert kept(None) is None


# Totals 10, 20, 30 against 0.5 and 1.5; `note` is null in the third row.
@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (pc.field("total") * pc.field("total_right") >= 15, [0, 0, 1, 1, 1, 1]),
        (pc.field("note") == "a", [1, 0, 0, 1, 0, 0]),
        (pc.field("name") == "y", [0, 0, 0, 1, 1, 1]),
        (pc.scalar(True), [1, 1, 1, 1, 1, 1]),
        (pc.scalar(None).cast(pa.bool_()), [0, 0, 0, 0, 0, 0]),
        (lambda b: pc.greater(b["total"], 15), [0, 1, 1, 0, 1, 1]),
        (lambda b: b["total"].to_numpy() > 15, [0, 1, 1, 0, 1, 1]),
        (lambda b: pa.chunked_array([pc.equal(b["note"], "a")]), [1, 0, 0, 1, 0, 0]),
    ],
    # A function's own name holds its address, and tests must be called the same in each process.
    ids=lambda value: "function" if callable(value) else str(value),
)
def test_a_condition_is_part_of_the_match(how: str, condition: Any, expected: list[int]) -> None:
    assert kept(condition, how) == [bool(e) for e in expected]


def test_a_condition_may_name_columns_by_position() -> None:
    """Position 2 is `total` among the output columns, and would be another among those used."""
    assert kept((pc.field(2) > 15) & (pc.field("name") == "x")) == [0, 1, 1, 0, 0, 0]


def test_only_columns_of_the_condition_are_copied() -> None:
    schema = JoinSchema.resolve(
        ORDERS, ITEMS, "id", condition=(pc.field("total") > 1) | pc.field("name").is_null()
    )
    left, right = Watched(orders), Watched(items)
    schema.verify(Rows(left, ALL_LEFT), Rows(right, ALL_RIGHT))
    assert (left.taken, right.taken) == (["total"], ["name"])


def test_a_condition_sees_only_pairs_whose_keys_are_equal() -> None:
    """Here it fails for the others: Arrow raises on an integer division by zero."""
    shape = pa.schema({"k": pa.int64(), "v": pa.int64()})
    batch = pa.record_batch([[1, 2], [0, 1]], schema=shape)

    def constant(codes: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return np.zeros_like(codes)

    condition = pc.divide(pc.field("v"), pc.field("v_right")) == 1
    schema = JoinSchema.resolve(shape, shape, "k", condition=condition, rehash=constant)
    source = BatchRows(schema.encode(Side.LEFT, batch).rows)
    mask = schema.verify(Rows(source, np.array([1, 1])), Rows(source, np.array([0, 1])))
    assert mask is not None
    assert mask.tolist() == [False, True]


def test_a_condition_that_cannot_be_computed_is_refused() -> None:
    assert "totl" in rejected(condition=pc.field("totl") > 1)
    assert "does not fit" in rejected(condition=pc.field("note") > 1)
    assert "not boolean" in rejected(condition=pc.field("total"))
    assert "is no filter" in rejected(condition="total > 1")
    # A semi join has no right columns, but its condition does.
    assert kept(pc.field("total_right") > 1, "semi") == [False] * 3 + [True] * 3


@pytest.mark.parametrize("answer", [pa.array([True]), pa.array([1] * 6)], ids=str)
def test_a_condition_must_answer_for_every_pair(answer: pa.Array) -> None:
    with pytest.raises(InvalidArgument, match="one boolean for each row"):
        kept(lambda batch: answer)


def test_batches_must_look_as_declared() -> None:
    schema = JoinSchema.resolve(ORDERS, ITEMS, "id")

    def refused(batch: pa.RecordBatch) -> str:
        with pytest.raises(SchemaError) as error:
            schema.encode(Side.LEFT, batch)
        assert "left input" in error.value.cause
        return error.value.cause

    assert "no column 'total'" in refused(orders.select(["note", "id"]))
    assert "unexpected column 'x'" in refused(orders.append_column("x", pa.array([1, 2, 3])))
    assert "ordered id, note, total" in refused(orders.select(["id", "note", "total"]))
    wide = orders.set_column(1, "id", pa.array([1, 2, 3], pa.int64()))
    assert "'id' is int64 instead of int32" in refused(wide)


def test_a_nullable_column_is_accepted_while_it_has_no_null() -> None:
    declared = pa.schema([pa.field("k", pa.int64(), nullable=False)])
    schema = JoinSchema.resolve(declared, declared, "k")
    encoded = schema.encode(Side.LEFT, pa.record_batch({"k": [1, 2]}))
    assert encoded.rows.schema == declared
    with pytest.raises(SchemaError, match="'k' has nulls"):
        schema.encode(Side.LEFT, pa.record_batch({"k": [1, None]}))


def test_metadata_of_a_schema_makes_no_difference() -> None:
    schema = JoinSchema.resolve(ORDERS.with_metadata({"pandas": "{}"}), ITEMS, "id")
    assert len(schema.encode(Side.LEFT, orders).codes) == 3
    described = orders.replace_schema_metadata({"a": "b"})
    assert len(schema.encode(Side.LEFT, described).codes) == 3
    assert schema.output.metadata is None


def test_views_are_kept_as_text() -> None:
    """Arrow cannot copy views out by position, not even inside a list."""
    shape = pa.schema({"k": pa.string_view(), "v": pa.list_(pa.string_view())})
    batch = pa.record_batch(
        [["a", None, "long enough to be out of line"], [["x"], [], None]], shape
    )
    schema = JoinSchema.resolve(shape, shape, "k")
    encoded = schema.encode(Side.LEFT, batch.slice(1))
    assert encoded.rows.schema == pa.schema(
        {"k": pa.large_string(), "v": pa.list_(pa.large_string())}
    )
    found = rows(encoded.rows, 1)
    assert schema.materialise(matches(found, found)).to_pylist() == [
        {"k": "long enough to be out of line", "v": None, "v_right": None}
    ]


def test_a_schema_can_be_sent_to_another_process() -> None:
    condition = pc.field("total") * pc.field("total_right") >= 15
    shape = {"left": ORDERS, "right": ITEMS, "condition": condition}
    for on in ("id", {"note": "name"}, {"note": "name", "id": "id"}):
        schema = JoinSchema.resolve(**shape, on=on)
        again = pickle.loads(pickle.dumps(schema))
        one, two = schema.encode(Side.LEFT, orders), again.encode(Side.LEFT, orders)
        np.testing.assert_array_equal(one.codes, two.codes)
        assert one.rows.equals(two.rows)
        assert again.output == schema.output
        left, right = rows(one.rows, 1), rows(schema.encode(Side.RIGHT, items).rows, 0)
        assert again.verify(left, right) == schema.verify(left, right)


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_binary(), pa.binary(2), pa.int16()], ids=str
)
def test_raw_bytes_of_a_slice_are_those_of_its_rows(kind: pa.DataType) -> None:
    values = [b"aa", b"bb", None, b"cc"]
    if pa.types.is_integer(kind):
        values = [v and int.from_bytes(v, "little") for v in values]  # type: ignore[misc]
    sliced = pa.record_batch({"k": pa.array(values, kind)}).slice(1)
    keys = BatchRows(sliced).key_buffers(0)

    def bytes_at(row: int) -> bytes:
        if len(keys.offsets):
            return keys.data[keys.offsets[row] : keys.offsets[row + 1]].tobytes()
        return keys.data[row * keys.width : (row + 1) * keys.width].tobytes()

    assert (bytes_at(0), bytes_at(2)) == (b"bb", b"cc")


def test_rows_are_copied_by_position_in_a_slice() -> None:
    source = BatchRows(orders.slice(1))
    assert source.take(0, np.array([1, 0, 1])).to_pylist() == [None, "b", None]
