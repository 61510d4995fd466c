"""Of which columns of the result marker rows can speak, and in what form.

A *subject* is one watched predicate together with the columns of the result that show its values.
What form its markers have follows from the kinds of promises about it, so that it is known before a
row has come, and the next join can be told how to read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pyarrow.types as pt

from watersmeet.model import Side
from watersmeet.promises.decoding import Decoded, OneColumn, WholeKey, can_decode
from watersmeet.promises.kinds import (
    Clustered,
    FromTo,
    Ordered,
    PromiseOfValues,
    Punctuated,
    Unique,
)
from watersmeet.promises.telling import Telling
from watersmeet.promises.watched import KeyOrder, Watched, axis_of
from watersmeet.rows.band_codecs import FloatBand
from watersmeet.rows.keys import CodeKeys
from watersmeet.rows.predicates import ValuesInBand
from watersmeet.rows.promises import LAST_CODE, Ranges, subtract, unite
from watersmeet.rows.schema import JoinSchema

FIRST: Ranges = np.zeros((1, 2), np.uint64)
"""The first code alone."""


class Form(StrEnum):
    """What a marker row says of a column."""

    EQUAL = "equal"
    """Rows with its own value do not come any more."""
    UP_TO = "up to"
    """Those with its own value or a smaller one."""
    FROM = "from"
    """Those with its own value or a larger one."""
    RANGE = "range"
    """Those with a value from that in one more column to that in another."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What marker rows of a result can speak of."""

    number: int
    """That of the watched predicate whose codes tell the values."""
    columns: tuple[int, ...]
    """The columns of the result that show them."""
    form: Form
    sides: tuple[Side, ...]
    """Whose rows are in every result that has such a value: of one side, or of both."""
    alone: tuple[Side, ...]
    """The sides whose rows can be such a result without a partner."""
    decoded: Decoded
    turns_nan: bool = False
    """Whether NaN, the largest of values, has the first code."""

    def by_value(self, ranges: Ranges) -> Ranges:
        """The same in codes that rise with values."""
        if not self.turns_nan or not len(ranges) or ranges[0, 0] > 0:
            return ranges
        last = np.full((1, 2), LAST_CODE, np.uint64)
        return unite(np.concatenate([subtract(ranges, FIRST), last]))


def subjects_of(
    watched: Watched, promises: Sequence[PromiseOfValues]
) -> tuple[list[Subject], list[str]]:
    """What can be passed on of these promises, and of what it cannot, with the reason."""
    schema = watched.schema
    forms: dict[int, set[Form]] = {}
    for promise in promises:
        for number, form in _said(watched, promise):
            forms.setdefault(number, set()).add(form)
    found: list[Subject] = []
    missing: list[str] = []
    chosen: dict[int, Form] = {}
    # The whole key comes last: its marker rows have several values, and single ones say more.
    for number, said in sorted(forms.items(), key=lambda each: each[0] or len(watched.predicates)):
        form = _common(said)
        for columns, sides, alone in _shown(watched, number):
            names = " and ".join(schema.output.field(column).name for column in columns)
            decoded = _decoded(watched, number, form, columns)
            # One pattern reads all marker rows, so a column has one form.
            if any(chosen.setdefault(column, form) is not form for column in columns):
                decoded = "what is passed on of single columns has another form"
            if isinstance(decoded, str):
                missing.append(f"{names}: {decoded}")
                continue
            turns = sides == (Side.RIGHT,) and _has_float_band(watched, number)
            found.append(Subject(number, columns, form, sides, alone, decoded, turns))
    return found, missing


def _common(forms: set[Form]) -> Form:
    """The one form that can say all that promises of these forms say, some of it later."""
    ranges = forms - {Form.EQUAL}
    if len(ranges) > 1:
        return Form.RANGE
    return next(iter(ranges), Form.EQUAL)


def _said(watched: Watched, promise: PromiseOfValues) -> Iterator[tuple[int, Form]]:
    """The numbers of the predicates that a promise speaks of, and how."""
    side, schema = promise.side, watched.schema
    keys = [key.of(side) for key in schema.keys]
    match promise:
        case Unique(_, columns):
            names = keys if columns is None else list(columns)
            yield from _points(watched, side, names)
        case Clustered(_, column):
            yield from _points(watched, side, keys if column is None else [column])
        case Punctuated(_, _, pattern):
            hows: dict[str, Any] = dict.fromkeys(schema.inputs[side].names)
            if pattern is not None:
                hows = dict(pattern)
            for name, how in hows.items():
                form = _form(how) if isinstance(how, FromTo) else Form.EQUAL
                yield from ((number, form) for number, _ in watched.about(side, name))
            if len(keys) > 1 and not any(isinstance(hows.get(k, FromTo), FromTo) for k in keys):
                yield from _points(watched, side, keys)
        case _:
            rises = not isinstance(promise, Ordered) or promise.ascending
            form = Form.UP_TO if rises else Form.FROM
            yield from ((number, form) for number, _ in watched.about(side, promise.column))


def _form(how: FromTo) -> Form:
    if how.low is None:
        return Form.UP_TO
    return Form.FROM if how.high is None else Form.RANGE


def _points(watched: Watched, side: Side, names: Sequence[str]) -> Iterator[tuple[int, Form]]:
    telling = Telling(watched, side, names)
    # What is said of some columns of a key that has more is not passed on.
    whole = telling.speaks and len(names) == len(watched.schema.keys)
    numbers = [number for number, _ in telling.axes] or ([0] if whole else [])
    yield from ((number, Form.EQUAL) for number in numbers)


Shown = tuple[tuple[int, ...], tuple[Side, ...], tuple[Side, ...]]


def _shown(watched: Watched, number: int) -> Iterator[Shown]:
    """Columns of the result that show the values of a predicate; whose rows every result with such
    a value has; and which sides' rows can be such a result alone."""
    schema, predicate = watched.schema, watched.predicates[number]
    alone = tuple(side for side in Side if schema.how.keeps_unmatched(side))
    if isinstance(predicate, ValuesInBand):
        for side in Side:
            column = _place(schema, side, predicate.columns[side])
            if column is not None:
                yield (column,), (side,), tuple(each for each in alone if each is side)
        return
    if isinstance(predicate, KeyOrder):
        pairs = [predicate.columns]
    else:
        inputs = schema.inputs
        pairs = [
            (inputs[0].get_field_index(key.left), inputs[1].get_field_index(key.right))
            for key in schema.keys
        ]
    places = [[_place(schema, side, pair[side]) for pair in pairs] for side in Side]
    both = (Side.LEFT, Side.RIGHT)
    shared = [key for key in schema.keys if key.shared]
    if len(shared) == len(schema.keys) or (len(pairs) == 1 and places[0] == places[1]):
        mine = places[Side.LEFT] if None not in places[Side.LEFT] else places[Side.RIGHT]
        yield tuple(each for each in mine if each is not None), both, alone
        return
    for side in Side:
        shown = tuple(each for each in places[side] if each is not None)
        if len(shown) == len(pairs):
            yield shown, both, tuple(each for each in alone if each is side)


def _place(schema: JoinSchema, side: Side, column: int) -> int | None:
    """The column of the result that shows a column of an input."""
    for place, each in enumerate(schema.columns):
        if (int(side), column) in each.suppliers:
            return place
    for key in schema.keys:
        names = [schema.inputs[end].get_field_index(key.of(end)) for end in Side]
        if key.shared and names[side] == column:
            other = (int(side.other), names[side.other])
            return next(n for n, each in enumerate(schema.columns) if other in each.suppliers)
    return None


def _decoded(watched: Watched, number: int, form: Form, columns: tuple[int, ...]) -> Decoded | str:
    """How codes become values of these columns; or why they cannot."""
    wanted = [watched.schema.output.field(column).type for column in columns]
    if number == 0:
        codec = getattr(watched.whole_key, "codec", None)
        if not isinstance(codec, CodeKeys) or len(codec.bits) != len(codec.columns):
            return "keys of several columns are passed on only if they fit 64 bits"
        kinds = [column.kind for column in codec.columns]
        if not all(map(can_decode, kinds, wanted)):
            return "its type cannot be written"
        return WholeKey(codec, tuple(wanted))
    axes = [axis_of(watched, number, side) for side in Side]
    kind = axes[0].kind
    if any(axis.rounds for axis in axes):
        return "whole numbers that are compared as doubles are not passed on"
    if not can_decode(kind, wanted[0]):
        return f"values of type {wanted[0]} are not passed on"
    if form is Form.EQUAL:
        return OneColumn(kind, wanted[0])
    if axes[0].is_text:
        return "texts are passed on one by one, and not in order"
    if kind != wanted[0] and not (pt.is_floating(kind) and pt.is_floating(wanted[0])):
        return "the two inputs have columns of different types"
    return OneColumn(kind, wanted[0], None if form is Form.RANGE else _towards(form))


def _towards(form: Form) -> float:
    return -np.inf if form is Form.UP_TO else np.inf


def _has_float_band(watched: Watched, number: int) -> bool:
    predicate = watched.predicates[number]
    return isinstance(predicate, ValuesInBand) and isinstance(predicate.codec, FloatBand)
