"""Watched predicates: those of whose codes promises speak, in codes that keep the order of values.

The codes of equal keys are hashes: a year of promises about them would never merge. So each key
column that a promise names is watched on its own, under codes that rise with its values; partners
have equal codes there, too. A band of the join is watched as it is. Only a promise about several
key columns together, or about values whose order 64 bits cannot show, is one about hashes; if two
keys may have the same hash, it names the keys. If it is about some columns of the key and not all,
the equality of these is watched.

A row can find no partner any more as soon as, under ANY watched predicate, all codes within its
reach have been promised by the other side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from watersmeet.model import Side
from watersmeet.promises.axes import Axis
from watersmeet.promises.kinds import Clustered, FromTo, PromiseOfValues, Punctuated, Unique
from watersmeet.rows.band_codecs import FloatBand, IntegerBand
from watersmeet.rows.encoded import Codes, Encoded
from watersmeet.rows.keys import KeyColumn, codec_for
from watersmeet.rows.output import KeyPair
from watersmeet.rows.predicates import Columns, Encode, EqualKeys, Predicate, ValuesInBand, Verify
from watersmeet.rows.promises import LAST_CODE, Promise, Ranges
from watersmeet.rows.schema import JoinSchema
from watersmeet.rows.types import is_bytes


@dataclass(frozen=True, slots=True)
class KeyOrder:
    """One pair of key columns, under codes that rise with their values. The join's predicate of
    equal keys implies it, so nothing is verified by it."""

    ends: tuple[int, int]
    columns: tuple[int, int]
    axes: tuple[Axis, Axis]
    words: str
    hidden: None = None
    reach_decides: bool = False

    @property
    def codes_decide(self) -> bool:
        """False where several values may have one code; promises are about codes of which every
        value was promised, so they can be used nevertheless."""
        return not any(axis.is_text or axis.rounds for axis in self.axes)

    def describe(self) -> list[str]:
        return [self.words]

    def encoder(self, end: Side) -> Encode:
        return partial(self._encode, end)

    def _encode(self, end: Side, batch: Columns) -> Encoded:
        coded = self.axes[end].encode(batch.column(self.columns[end]))
        return Encoded(coded.codes, coded.valid)

    def reach(self, end: Side, codes: Codes) -> tuple[Codes, Codes]:
        return codes, codes

    def verifier(self, hidden: tuple[int, int]) -> Verify | None:
        return None


@dataclass(frozen=True, slots=True)
class Watched:
    """Number k of a `Promise` is `predicates[k]`; number 0 is the join's first predicate."""

    predicates: tuple[Predicate, ...]
    schema: JoinSchema

    @classmethod
    def of(cls, schema: JoinSchema, promises: Sequence[PromiseOfValues]) -> Watched:
        """The predicates that these promises can say something about."""
        first = schema.predicates[0]
        named = [_named(schema, side, promises) for side in Side]
        more: list[Predicate] = []
        for predicate in schema.predicates:
            if isinstance(predicate, EqualKeys):
                for each in _orders(schema, predicate):
                    if any(_name(schema, side, each.columns[side]) in named[side] for side in Side):
                        more.append(each)
                more += _parts(schema, predicate, promises)
            elif isinstance(predicate, ValuesInBand) and predicate is not first:
                columns = predicate.columns
                if any(_name(schema, side, columns[side]) in named[side] for side in Side):
                    more.append(predicate)
        return cls((first, *more), schema)

    def codes(self, side: Side, rows: pa.RecordBatch) -> list[Codes]:
        """The codes of stored rows under each predicate from number 1 on."""
        return [each.encoder(side)(rows).codes for each in self.predicates[1:]]

    def about(self, side: Side, column: str) -> list[tuple[int, Axis]]:
        """The numbers of the watched predicates that a column of a side takes part in alone, and
        how its values become their codes."""
        found: list[tuple[int, Axis]] = []
        for number, predicate in enumerate(self.predicates):
            axis = _axis(self.schema, predicate, side)
            if axis is not None and self._column(predicate, side) == column:
                found.append((number, axis))
        return found

    def _column(self, predicate: Predicate, side: Side) -> str | None:
        if isinstance(predicate, KeyOrder | ValuesInBand):
            return _name(self.schema, side, predicate.columns[side])
        return None

    @property
    def whole_key(self) -> EqualKeys | None:
        """The predicate of equal keys: it has number 0."""
        first = self.predicates[0]
        return first if isinstance(first, EqualKeys) else None

    def equal(self, side: Side, names: Sequence[str]) -> tuple[int, EqualKeys] | None:
        """The equality of just these columns of a side, which are the key or a part of it, and its
        number."""
        for number, predicate in enumerate(self.predicates):
            if isinstance(predicate, EqualKeys) and {k.of(side) for k in predicate.keys} == {
                *names
            }:
                return number, predicate
        return None

    def promise(self, number: int, side: Side, ranges: Ranges) -> Promise:
        """What is promised if no value of a side comes any more whose code, in the order that has
        NaN last, lies in these ranges."""
        predicate = self.predicates[number]
        if (
            side is Side.RIGHT
            and isinstance(predicate, ValuesInBand)
            and isinstance(predicate.codec, FloatBand)
        ):
            # In a band, NaN has the first code on the right.
            has_nan = bool((ranges[:, 1] == LAST_CODE).any())
            last = np.minimum(ranges[:, 1], np.uint64(LAST_CODE - 1))
            first = np.maximum(ranges[:, 0], np.uint64(1))
            ranges = np.column_stack([first, last])[first <= last]
            if has_nan:
                ranges = np.concatenate([np.zeros((1, 2), np.uint64), ranges])
        return Promise(number, ranges)


def _name(schema: JoinSchema, side: Side, column: int) -> str:
    name: str = schema.inputs[side].field(column).name
    return name


def _orders(
    schema: JoinSchema, equal: EqualKeys, pairs: Sequence[KeyPair] | None = None
) -> list[KeyOrder]:
    """Each pair of key columns, or of these, whose values have an order that codes can show."""
    orders: list[KeyOrder] = []
    for key in equal.keys if pairs is None else pairs:
        places = [schema.inputs[side].get_field_index(key.of(side)) for side in Side]
        axes = [
            Axis.of(key.kind, schema.inputs[side].field(places[side]).type, key.padding[side])
            for side in Side
        ]
        left, right = axes
        if left is not None and right is not None:
            columns = (places[Side.LEFT], places[Side.RIGHT])
            words = f"{key.left} = {key.right}, in order"
            orders.append(KeyOrder(equal.ends, columns, (left, right), words))
    return orders


def _parts(
    schema: JoinSchema, equal: EqualKeys, promises: Sequence[PromiseOfValues]
) -> list[EqualKeys]:
    """The equality of some of the key columns, for each promise that gives values of these and no
    others: several columns together, or one whose values have no codes of their own."""
    found: dict[tuple[KeyPair, ...], EqualKeys] = {}
    for promise in promises:
        for names in _given_together(schema, promise):
            pairs = tuple(key for key in equal.keys if key.of(promise.side) in names)
            alone = (
                len(names) == 1 and not _has_texts(pairs) and bool(_orders(schema, equal, pairs))
            )
            if len(pairs) == len(names) < len(equal.keys) and not alone:
                columns = [schema.stored(side) for side in Side]
                positions = [
                    KeyColumn(
                        columns[0].get_field_index(key.left),
                        columns[1].get_field_index(key.right),
                        key.kind,
                        key.padding,
                    )
                    for key in pairs
                ]
                rehash = getattr(equal.codec, "rehash", None)
                codec = codec_for(positions, (columns[0], columns[1]), rehash=rehash)
                found[pairs] = EqualKeys(equal.ends, pairs, codec)
    return list(found.values())


def _has_texts(pairs: Sequence[KeyPair]) -> bool:
    return any(is_bytes(key.kind) for key in pairs)


def _given_together(schema: JoinSchema, promise: PromiseOfValues) -> list[set[str]]:
    """The sets of columns of which a promise may give values, one of each. A marker row may leave
    out all but one."""
    keys = {key.of(promise.side) for key in schema.keys}
    match promise:
        case Unique(columns=columns):
            return [set(columns or keys)]
        case Clustered(column=column):
            return [keys if column is None else {column}]
        case Punctuated(pattern=None):
            return [{name} for name in sorted(keys)]
        case Punctuated(pattern=pattern):
            assert pattern is not None
            values = {name for name, how in pattern if not isinstance(how, FromTo)}
            return [{name} for name in sorted(values)] + [values] * (len(values) == len(pattern))
    return []


def _axis(schema: JoinSchema, predicate: Predicate, side: Side) -> Axis | None:
    if isinstance(predicate, KeyOrder):
        return predicate.axes[side]
    if isinstance(predicate, ValuesInBand):
        source = schema.inputs[side].field(predicate.columns[side]).type
        codec = predicate.codec
        return Axis.of(codec.kind if isinstance(codec, IntegerBand) else pa.float64(), source)
    return None


def _named(schema: JoinSchema, side: Side, promises: Sequence[PromiseOfValues]) -> set[str]:
    """The columns of a side about which promises say something on their own."""
    keys = [key.of(side) for key in schema.keys]
    named: set[str] = set()
    for promise in promises:
        if promise.side is not side:
            continue
        if isinstance(promise, Punctuated):
            pattern = promise.pattern
            columns = (
                schema.inputs[side].names if pattern is None else [name for name, _ in pattern]
            )
            named.update(columns)
        elif isinstance(promise, Unique):
            columns = keys if promise.columns is None else list(promise.columns)
            named.update(columns if len(columns) == 1 else [])
        elif isinstance(promise, Clustered) and promise.column is None:
            named.update(keys if len(keys) == 1 else [])
        elif promise.column is not None:
            named.add(promise.column)
    return named


def axis_of(watched: Watched, number: int, side: Side) -> Axis:
    """How values of a side become codes of a watched predicate that is about one column."""
    axis = _axis(watched.schema, watched.predicates[number], side)
    assert axis is not None, "the keys of several columns have no order"
    return axis
