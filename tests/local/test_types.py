"""Columns of every type that Arrow has come through a local join as they were, or are refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import watersmeet as wm

KEYS = pa.table({"k": [4, 2, 1, 3]})


class Money(pa.ExtensionType):  # type: ignore[misc]
    """As packages define them: in Python, not hashable, and not registered with Arrow."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "test.money")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Money:
        return cls(storage)


def as_money(values: pa.Array) -> pa.Array:
    return pa.ExtensionArray.from_storage(Money(values.type), values)


def categories(values: list[Any]) -> pa.Array:
    """What a Polars frame gives for Categorical and Enum."""
    encoded = pa.array(values, pa.string()).dictionary_encode()
    views = encoded.dictionary.cast(pa.string_view())
    return pa.DictionaryArray.from_arrays(encoded.indices.cast(pa.uint32()), views)


UNION = pa.UnionArray.from_dense(
    pa.array([0, 1, 0, 1], pa.int8()),
    pa.array([0, 0, 1, 1], pa.int32()),
    [pa.array([1, 2]), pa.array(["x", "y"])],
)
PAYLOADS = {
    "extension": as_money(pa.array([1, None, 3, 4])),
    "extension of text": as_money(pa.array(["a", None, "ccc", ""])),
    "extension of structs": as_money(pa.array([{"x": 1}, None, {"x": None}, {"x": 4}])),
    "list of an extension": pa.ListArray.from_arrays(
        pa.array([0, 1, 1, 3, 3], pa.int32()), as_money(pa.array([1, 2, 3]))
    ),
    "categories": categories(["x", "y", None, "x"]),
    "list of categories": pa.ListArray.from_arrays(
        pa.array([0, 1, None, 3, 3], pa.int32()), categories(["x", "y", "x"])
    ),
    "struct of categories": pa.StructArray.from_arrays(
        [categories(["x", "y", None, "x"])], names=["c"]
    ),
    "map to categories": pa.MapArray.from_arrays(
        [0, 1, 2, 3, 4], pa.array(["a", "b", "c", "d"]), categories(["x", "y", None, "x"])
    ),
    "list of runs": pa.ListArray.from_arrays(
        pa.array([0, 1, 2, 3, 5], pa.int32()), pc.run_end_encode(pa.array([1, 1, 2, 2, 2]))
    ),
    "union": UNION,
    "moments of a day": pa.array([3_600_000, 0, None, 1]).view(pa.date64()),
}


@pytest.mark.parametrize("values", PAYLOADS.values(), ids=PAYLOADS.keys())
@pytest.mark.parametrize("given", ["table", "batches"])
def test_a_payload_comes_back_as_it_was(values: pa.Array, given: str) -> None:
    table = pa.table({"k": [1, 2, 3, 4], "x": values})
    left: Any = table if given == "table" else iter(table.slice(1).to_batches())
    joined = wm.local.join(left, KEYS, on="k", how="right").read_all().sort_by("k")
    wanted = values.to_pylist() if given == "table" else [None, *values.to_pylist()[1:]]
    assert joined["x"].to_pylist() == wanted
    if isinstance(values.type, Money):
        assert joined["x"].type == values.type


def test_a_payload_of_extensions_and_unions_can_be_spilled() -> None:
    rows = 20_000
    numbers = pa.array(range(rows))
    tags = pa.array([n % 2 for n in range(rows)], pa.int8())
    union = pa.UnionArray.from_sparse(tags, [numbers, numbers.cast(pa.string())])
    left = pa.table({"k": numbers, "x": as_money(numbers), "u": union})
    run = wm.local.join(left, pa.table({"k": numbers}), on="k", memory="1MB")
    joined = run.read_all()
    assert run.metrics.rows_spilled > 0
    assert joined["x"].type == Money(pa.int64())
    in_order = joined.take(pc.sort_indices(joined["k"]))
    assert in_order["x"].combine_chunks().storage.to_pylist() == list(range(rows))
    assert in_order["u"].to_pylist() == [str(n) if n % 2 else n for n in range(rows)]


@pytest.mark.parametrize("values", [as_money(pa.array(["a", "b"])), categories(["a", "b"])])
def test_what_lies_in_a_wrapped_key_is_compared(values: pa.Array) -> None:
    left = pa.table({"k": values, "x": [1, 2]})
    right = pa.table({"k": ["b", "c"], "y": [20, 30]})
    joined = wm.local.join(left, right, on="k").read_all()
    assert [(row["x"], row["y"]) for row in joined.to_pylist()] == [(2, 20)]


def test_a_day_with_a_time_equals_itself_and_no_day() -> None:
    moments = pa.table({"k": pa.array([3_600_000, 86_400_000]).view(pa.date64())})
    days = pa.table({"k": pa.array([0, 1], pa.date32())})
    instants = pa.table({"k": pa.array([3600, 7], pa.timestamp("s"))})
    assert wm.local.join(moments, days, on="k").read_all()["k"].cast(pa.int64()).to_pylist() == [
        86_400_000
    ]
    assert wm.local.join(moments, moments, on="k").read_all().num_rows == 2
    assert wm.local.join(moments, instants, on="k").read_all().num_rows == 1
    full = wm.local.join(moments, days, on="k", how="full").read_all()
    assert sorted(full["k"].cast(pa.int64()).to_pylist()) == [0, 3_600_000, 86_400_000]


def test_a_key_that_no_rule_compares_is_refused_for_what_it_is() -> None:
    table = pa.table({"u": UNION})
    with pytest.raises(wm.errors.SchemaError, match="is not supported as a key"):
        wm.local.join(table, table, on="u")
