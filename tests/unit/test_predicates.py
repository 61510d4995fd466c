"""Any number of inputs: names, codes for each predicate, candidates decided on values."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.errors import InvalidArgument, SchemaError
from watersmeet.model import Side
from watersmeet.operators.stage import Stage
from watersmeet.rows.address import Matches, Rows
from watersmeet.rows.bands import Band
from watersmeet.rows.batch import BatchRows
from watersmeet.rows.on import Equal
from watersmeet.rows.predicates import EqualKeys, ValuesInBand
from watersmeet.rows.schema import JoinSchema

TRADES = pa.schema({"symbol": pa.string(), "time": pa.timestamp("us"), "price": pa.float64()})
QUOTES = pa.schema({"symbol": pa.string(), "time": pa.timestamp("us"), "bid": pa.float64()})
NAMES = pa.schema({"symbol": pa.string(), "name": pa.string()})
NEAR = Band("time", "time", low=timedelta(seconds=-5), high=timedelta(seconds=5))


def test_equality_and_band_have_a_code_each() -> None:
    schema = JoinSchema.resolve(TRADES, QUOTES, ["symbol", NEAR])
    equal, band = schema.predicates
    assert isinstance(equal, EqualKeys)
    assert isinstance(band, ValuesInBand)
    assert not equal.codes_decide
    assert band.codes_decide
    batch = pa.RecordBatch.from_pylist(
        [{"symbol": "a", "time": 5, "price": 1.0}, {"symbol": "b", "time": None, "price": 2.0}],
        TRADES,
    )
    encoded = schema.encode(Side.LEFT, batch)
    assert len(encoded.codes_of) == 2
    assert encoded.valid is not None
    assert encoded.valid.tolist() == [True, False]
    assert len(encoded.with_keys().rows) == 1
    assert [len(codes) for codes in encoded.with_keys().codes_of] == [1, 1]


def test_columns_of_a_band_are_both_in_the_result() -> None:
    schema = JoinSchema.resolve(TRADES, QUOTES, ["symbol", NEAR])
    assert schema.output.names == ["symbol", "time", "price", "time_right", "bid"]
    assert JoinSchema.resolve(TRADES, QUOTES, NEAR).output.names == [
        "symbol", "time", "price", "symbol_right", "time_right", "bid",
    ]  # fmt: skip


def test_a_key_that_all_inputs_share_is_one_column() -> None:
    star = [Equal.of("symbol", (0, 1)), Equal.of("symbol", (0, 2))]
    schema = JoinSchema.resolve_many([TRADES, QUOTES, NAMES], star)
    assert schema.output.names == ["symbol", "time", "price", "time_2", "bid", "name"]
    assert schema.at(0) == [0, 1]
    assert schema.at(2) == [1]
    assert [len(schema.stored(n)) for n in range(3)] == [3, 3, 2]


def test_keys_that_are_hidden_have_a_column_for_each_predicate() -> None:
    one, two = (pa.schema({"a": pa.string(), "b": pa.int64(), "c": pa.string()}) for _ in range(2))
    three = pa.schema({"b": pa.int64(), "c": pa.string()})
    schema = JoinSchema.resolve_many(
        [one, two, three], [Equal.of(["a", "b"], (0, 1)), Equal.of(["b", "c"], (0, 2))]
    )
    assert schema.stored(0).names == ["a", "b", "c", "__key", "___key"]
    assert schema.stored(1).names == ["a", "b", "c", "__key"]
    rows = [
        pa.RecordBatch.from_pylist([{"a": "x", "b": 1, "c": "y"}], one),
        pa.RecordBatch.from_pylist([{"a": "x", "b": 1, "c": "z"}], two),
        pa.RecordBatch.from_pylist([{"b": 1, "c": "y"}, {"b": 1, "c": "n"}], three),
    ]
    encoded = [schema.encode(n, batch) for n, batch in enumerate(rows)]
    sources = [BatchRows(each.rows) for each in encoded]
    zero = np.zeros(2, np.int64)
    first, second = Rows(sources[0], zero), Rows(sources[1], zero)
    third = Rows(sources[2], np.arange(2))
    mask = schema.verify(first, second, third)
    assert mask is not None
    assert mask.tolist() == [True, False]
    half = schema.verify(first, second, None)
    assert half is not None
    assert half.all()
    matched = tuple(Rows(rows.source, rows.index[mask]) for rows in (first, second, third))
    result = schema.materialise(Matches(matched, Stage.MM))
    assert result.to_pylist() == [{"a": "x", "b": 1, "c": "y", "c_2": "z"}]


def test_an_input_that_nothing_connects_is_named() -> None:
    with pytest.raises(InvalidArgument, match="the third input"):
        JoinSchema.resolve_many([TRADES, QUOTES, NAMES], [Equal.of("symbol", (0, 1))])


@pytest.mark.parametrize("inputs", [1, 9])
def test_the_number_of_inputs_is_bounded(inputs: int) -> None:
    chain = [Equal.of("symbol", (n, n + 1)) for n in range(inputs - 1)]
    with pytest.raises(InvalidArgument, match="from 2 to 8"):
        JoinSchema.resolve_many([NAMES] * inputs, chain)


def test_a_column_that_is_not_there_is_named_with_its_input() -> None:
    with pytest.raises(SchemaError, match="The third input has no column 'time'"):
        JoinSchema.resolve_many(
            [TRADES, QUOTES, NAMES], [Equal.of("symbol"), Band("time", "time", 0, ends=(1, 2))]
        )


def test_a_band_of_texts_is_refused() -> None:
    with pytest.raises(SchemaError, match="There is no band of 'symbol'"):
        JoinSchema.resolve(TRADES, QUOTES, Band("symbol", "symbol", low=0))
