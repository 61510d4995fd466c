"""Does the keeper find just the rows that break promises, and promise only what is true?"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import watersmeet as wm
from tests.promises.model import Model, Row
from watersmeet.model import Side
from watersmeet.promises.keeper import PromiseKeeper
from watersmeet.promises.watched import KeyOrder
from watersmeet.rows.promises import Promises
from watersmeet.rows.schema import JoinSchema

NAN, INF = float("nan"), float("inf")
DAY = date(2026, 1, 31)
NOON = datetime(2026, 1, 31, 12)
KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int64": (pa.int64(), [-(2**63), -2, -1, 0, 1, 2, 3, 5, 2**63 - 1]),
    "int8": (pa.int8(), [-128, -1, 0, 1, 127]),
    "uint64": (pa.uint64(), [0, 1, 2, 2**63, 2**64 - 1]),
    "bool": (pa.bool_(), [False, True]),
    "double": (pa.float64(), [NAN, INF, -INF, 0.0, -0.0, 1.5, -2.0, 3.25]),
    "float": (pa.float32(), [NAN, INF, -INF, 0.0, -0.0, 1.5, -2.0]),
    "decimal": (pa.decimal128(9, 2), [Decimal(n).scaleb(-2) for n in (-150, 0, 1, 2, 99999)]),
    "wide decimal": (pa.decimal128(38, 2), [Decimal(n).scaleb(-2) for n in (-(10**30), 0, 7)]),
    "date": (pa.date32(), [DAY + timedelta(days=n) for n in (-9000, -1, 0, 1, 2)]),
    "date64": (pa.date64(), [DAY + timedelta(days=n) for n in (-9000, -1, 0, 1, 2)]),
    "timestamp": (pa.timestamp("us"), [NOON + timedelta(seconds=n) for n in (-9, 0, 1, 2)]),
    "zoned": (
        pa.timestamp("ms", "UTC"),
        [NOON.replace(tzinfo=UTC) + timedelta(seconds=n) for n in (-9, 0, 1, 2)],
    ),
    "text": (
        pa.string(),
        ["", "a", "ab", "abcdefg", "abcdefgh", "abcdefgi", "b", "ä", "zzzzzzzzz"],
    ),
    "large text": (pa.large_string(), ["", "a", "abcdefgh", "abcdefgi"]),
    "bytes": (pa.binary(), [b"", b"\0", b"a", b"a\0", b"abcdefgh\xff"]),
    "fixed bytes": (pa.binary(2), [b"aa", b"ab", b"\0\0"]),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), ["a", "b", "abcdefgh"]),
}
SLACKS: dict[str, Any] = {
    "int64": 2, "int8": 1, "uint64": 1, "double": 1.5, "decimal": Decimal("0.01"),
    "date": timedelta(days=1), "timestamp": timedelta(seconds=1), "zoned": timedelta(seconds=1),
}  # fmt: skip


def schema_of(kind: pa.DataType, on: list[str]) -> JoinSchema:
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    columns = pa.schema(
        {
            "k": kind, "j": pa.int32(), "mark": pa.string(), "low": plain, "high": plain,
            "some": pa.list_(plain), "v": pa.int16(),
        }
    )  # fmt: skip
    return JoinSchema.resolve(columns, columns, on)


def marked(letter: str) -> Callable[[Row], bool]:
    return lambda row: bool(row["mark"] == letter)


WHEN = {letter: marked(letter) for letter in "ersn"}


def promises_of(random: Random, kind: str, on: list[str]) -> list[Any]:
    """Some promises about the left side, in any order."""
    slack = random.choice([None, SLACKS.get(kind)])
    ordered_types = KINDS[kind][0] != pa.bool_()
    found = [
        wm.unique("left", random.choice([None, ["k"]])),
        wm.clustered("left", random.choice([None, "k"])),
        wm.ordered("left", "k", random.choice([True, False]), slack if ordered_types else None),
        wm.punctuated("left", "mark = 'e'", {"k": "equal"}),
        wm.punctuated("left", "mark = 'r'", {"k": ("low", random.choice(["high", None]))}),
        wm.punctuated("left", "mark = 's'", {"k": "some", "j": "equal"}),
        wm.punctuated("left", "mark = 'n'"),
    ]
    random.shuffle(found)
    return found[: random.choice([1, 1, 2, 3])]


def batches_of(random: Random, kind: str) -> list[list[Row]]:
    pool = KINDS[kind][1]
    some = random.sample(pool, random.randint(1, len(pool)))
    numbers = random.choice([[1], [1, 2, 3]])

    def value(share_of_nulls: float) -> Any:
        return None if random.random() < share_of_nulls else random.choice(some)

    def row() -> Row:
        mark = random.choice([None, None, None, None, *"ersn"])
        nulls = 0.3 if mark else 0.05
        listed = [value(0.1) for _ in range(random.randint(0, 3))]
        return {
            "k": value(nulls),
            "j": None if random.random() < nulls else random.choice(numbers),
            "mark": mark,
            "low": value(0.2) if mark else None,
            "high": value(0.2) if mark else None,
            "some": random.choice([None, listed]) if mark in (None, "s") else None,
            "v": None if mark else random.choice(numbers),
        }

    return [[row() for _ in range(random.randint(0, 9))] for _ in range(random.randint(1, 5))]


def model_of(promises: list[Any], on: list[str], *, ordered: bool) -> Model:
    markers = {}
    for place, promise in enumerate(promises):
        if hasattr(promise, "when"):
            letter = promise.when[-2]
            markers[place] = (WHEN[letter], ["k", "j", "low", "high", "v"])
    return Model(promises, on, markers, ordered=ordered)


def batch_of(schema: JoinSchema, rows: list[Row]) -> pa.RecordBatch:
    columns = schema.inputs[Side.LEFT]
    arrays = []
    for field in columns:
        values = [row[field.name] for row in rows]
        if pa.types.is_dictionary(field.type):
            arrays.append(pa.array(values, field.type.value_type).dictionary_encode())
        else:
            arrays.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, names=columns.names)


def texts(batch: pa.RecordBatch) -> list[str]:
    """Rows that can be compared: NaN is not equal to itself."""
    return [str(row) for row in batch.to_pylist()]


def follow(seed: int, kind: str, *, ordered: bool) -> None:
    """Compare the keeper with the model, batch by batch, with a save and a load now and then."""
    random = Random(seed)
    on = random.choice([["k"], ["k", "j"]])
    promises = promises_of(random, kind, on)
    if not ordered:
        # Which of several values that had not ended is taken for the last one is anybody's choice:
        # the least, which is known here for one column only.
        whole = wm.clustered("left")
        promises = [wm.clustered("left", "k") if each == whole else each for each in promises]
        if kind == "wide decimal":  # has no codes of its own either
            promises = [each for each in promises if not str(each).startswith("clustered")]
    schema = schema_of(KINDS[kind][0], on)
    # A default pattern speaks of all columns but `mark`, and lists are not compared.
    if any(getattr(each, "when", "") == "mark = 'n'" for each in promises):
        schema = _without_lists(schema, on)
        promises = [each for each in promises if getattr(each, "when", "") != "mark = 's'"]
    model = model_of(promises, on, ordered=ordered)
    markers = [place for place, each in enumerate(promises) if hasattr(each, "when")]

    def keeper() -> PromiseKeeper:
        return PromiseKeeper(schema, promises, on_broken="drop", ordered_batches=ordered)

    mine = keeper()
    strict = PromiseKeeper(schema, promises, ordered_batches=ordered)
    told = Promises()
    for rows in batches_of(random, kind):
        # A marker of a punctuation that was not promised is a row like others.
        found = model.take(rows)
        data = [n for n, row in enumerate(rows) if not model.is_marker(row)]
        good = [n for n in data if not found[n]]
        batch = batch_of(schema, rows)
        heard = mine.take(Side.LEFT, batch)
        assert texts(heard.rows) == texts(batch.take(pa.array(good, pa.int64())))
        bad = [n for n in data if found[n]]
        causes = [] if heard.broken is None else heard.broken.causes.tolist()
        assert len(causes) == len(bad), (found, causes)
        if heard.broken is not None:
            assert texts(heard.broken.rows) == texts(batch.take(pa.array(bad, pa.int64())))
            assert all(cause in found[n] for n, cause in zip(bad, causes, strict=True))
            with pytest.raises(wm.errors.PromiseBroken) as raised:
                strict.take(Side.LEFT, batch)
            assert str(raised.value.row) == str(batch.slice(bad[0], 1).to_pylist()[0])
        # Without the rows that break them, promises are true.
        kept = [n for n in range(len(rows)) if n not in bad]
        strict.take(Side.LEFT, batch.take(pa.array(kept, pa.int64())))
        check_codes(mine, heard.rows, told)
        for side, promise in heard.promises:
            assert side is Side.LEFT
            told.accept(side, promise)
        check_told(mine, model, kind, told)
        if markers and heard.markers:
            assert all(len(each.rows) == len(each.limits[0].low) for each in heard.markers)
        if random.random() < 0.3:
            saved = json.loads(json.dumps(mine.save()))
            mine = keeper()
            mine.load(saved)


def _without_lists(schema: JoinSchema, on: list[str]) -> JoinSchema:
    columns = schema.inputs[Side.LEFT]
    columns = columns.remove(columns.get_field_index("some"))
    return JoinSchema.resolve(columns, columns, on)


def check_codes(keeper: PromiseKeeper, rows: pa.RecordBatch, told: Promises) -> None:
    """No row came whose code had been promised, under any watched predicate."""
    stored = keeper.schema.accept(Side.LEFT, rows)
    for number, predicate in enumerate(keeper.watched.predicates):
        encoded = predicate.encoder(Side.LEFT)(stored)
        broken = told.broken_by(Side.LEFT, number, encoded.codes)
        if encoded.valid is not None:
            broken &= encoded.valid
        assert not broken.any(), predicate.describe()


def check_told(keeper: PromiseKeeper, model: Model, kind: str, told: Promises) -> None:
    """The codes of a key column have been promised exactly if its values have."""
    pool = KINDS[kind][1]
    everything = told.cover(
        Side.LEFT, 0, np.array([0], np.uint64), np.array([2**64 - 1], np.uint64)
    )
    for number, predicate in enumerate(keeper.watched.predicates):
        if not isinstance(predicate, KeyOrder) or predicate.columns[0] != 0:
            continue
        coded = predicate.axes[0].encode(pa.array(pool, KINDS[kind][0]))
        covered = told.broken_by(Side.LEFT, number, coded.codes)
        for place, value in enumerate(pool):
            promised = model.alone("k", value)
            if coded.known[place]:
                assert bool(covered[place] or everything[0]) == promised, value
            else:
                assert promised or not covered[place], value


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8)
@given(seed=st.integers(0, 2**32))
def test_rows_that_break_promises_are_found_exactly_when_they_come(kind: str, seed: int) -> None:
    follow(seed, kind, ordered=True)


@pytest.mark.parametrize("kind", ["int64", "double", "text"])
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_batches_without_an_order_are_checked_against_those_before(kind: str, seed: int) -> None:
    follow(seed, kind, ordered=False)


@pytest.mark.slow
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=400)
@given(seed=st.integers(0, 2**32))
def test_many_more_streams_are_checked(kind: str, ordered: bool, seed: int) -> None:
    follow(seed, kind, ordered=ordered)
