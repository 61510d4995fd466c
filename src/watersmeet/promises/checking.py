"""Promises against the columns of a join: whether they can be meant, and the rule for each."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from watersmeet.errors import InvalidArgument, SchemaError, WatersmeetError
from watersmeet.expressions.expression import Expression
from watersmeet.expressions.scope import Scope
from watersmeet.model import Side
from watersmeet.promises.kinds import (
    Clustered,
    Equality,
    FromTo,
    How,
    OneOf,
    Ordered,
    PromiseOfValues,
    Punctuated,
    Unique,
    Watermark,
)
from watersmeet.promises.marker_rule import MarkerRule
from watersmeet.promises.order_rule import OrderRule
from watersmeet.promises.rules import ClusteredRule, Columns, Rule, UniqueRule
from watersmeet.promises.telling import Telling
from watersmeet.promises.values import Scale, is_comparable
from watersmeet.promises.watched import Watched
from watersmeet.rows.bands import Width
from watersmeet.rows.on import check_name, name_of
from watersmeet.rows.predicates import IntervalsOverlap, ValuesInBand
from watersmeet.rows.schema import JoinSchema
from watersmeet.rows.types import Incomparable, common_type, plain
from watersmeet.rows.values import is_list

_EMPTY = pa.schema([])


def join_columns(schema: JoinSchema, side: Side) -> list[str]:
    """The columns of a side on which it is joined."""
    names = [key.of(side) for key in schema.keys]
    for predicate in schema.predicates:
        if isinstance(predicate, ValuesInBand):
            names.append(schema.inputs[side].field(predicate.columns[side]).name)
        elif isinstance(predicate, IntervalsOverlap):
            names += [schema.inputs[side].field(place).name for place in predicate.columns[side]]
    return list(dict.fromkeys(names))


def check_promises(schema: JoinSchema, promises: Any) -> list[PromiseOfValues]:
    """The promises, if they can be meant for a join of these columns."""
    if isinstance(promises, PromiseOfValues):
        promises = [promises]
    if not isinstance(promises, Sequence) or isinstance(promises, str):
        raise _no_promises(promises)
    for promise in promises:
        if not isinstance(promise, PromiseOfValues):
            raise _no_promises(promise)
    if promises and len(schema.inputs) != 2:
        raise InvalidArgument(
            f"Promises are given for a join of {len(schema.inputs)} inputs.",
            remedy="Promises are for joins of two inputs: join two first, or leave them out.",
        )
    for promise in promises:
        _check(schema, promise)
    _check_contradictions(list(promises))
    return list(promises)


def _no_promises(given: Any) -> InvalidArgument:
    return InvalidArgument(
        f"promises={given!r} is no promise.",
        remedy="Give a list of wm.unique, wm.clustered, wm.ordered, wm.punctuated, wm.watermark.",
    )


def _check(schema: JoinSchema, promise: PromiseOfValues) -> None:
    side = promise.side
    match promise:
        case Unique(_, columns):
            names = [key.of(side) for key in schema.keys] if columns is None else list(columns)
            _check_key(promise, names)
            for name in names:
                _check_join_column(schema, promise, name)
        case Clustered(_, column):
            keys = [key.of(side) for key in schema.keys]
            names = keys if column is None else [column]
            _check_key(promise, names)
            for name in names:
                _check_join_column(schema, promise, name)
        case Ordered(_, column, _, slack):
            _check_join_column(schema, promise, column)
            kind = schema.inputs[side].field(column).type
            scale = Scale.of(kind)
            if scale is None:
                raise SchemaError(
                    f"{promise}: values of {column!r} ({kind}) have no order.",
                    remedy="Name a column of numbers, dates, times or text.",
                )
            _check_slack(promise, scale, slack)
        case Watermark(_, column, delay):
            _check_join_column(schema, promise, column)
            kind = plain(schema.inputs[side].field(column).type)
            scale = Scale.of(kind)
            if scale is None or not (pt.is_timestamp(kind) or pt.is_date(kind)):
                raise SchemaError(
                    f"{promise}: {column!r} is of type {kind}, and a watermark is a time.",
                    remedy="Name a column of timestamps or dates, or use wm.ordered with a slack.",
                )
            _check_slack(promise, scale, delay)
        case Punctuated():
            condition_of(schema, promise)
            pattern_of(schema, promise)


def _check_key(promise: PromiseOfValues, names: Sequence[str]) -> None:
    if not names:
        raise InvalidArgument(
            f"{promise} is about the key, and this join has none: nothing must be equal.",
            remedy="Name a column.",
        )


def _check_join_column(schema: JoinSchema, promise: PromiseOfValues, name: str) -> None:
    side = promise.side
    check_name(name, schema.inputs[side].names, side)
    known = join_columns(schema, side)
    if name not in known:
        other = name in join_columns(schema, side.other)
        hint = f" It is a column on which the {name_of(side.other)} input is joined."
        raise SchemaError(
            f"{promise} is about {name!r}, and the {name_of(side)} input is not joined on it: it "
            f"would bound nothing.{hint if other else ''}",
            remedy=f"The {name_of(side)} input is joined on {', '.join(known)}.",
        )


def _check_slack(promise: PromiseOfValues, scale: Scale, slack: Width | None) -> None:
    if slack is None:
        return
    try:
        scale.check_slack(slack)
    except Incomparable as reason:
        raise SchemaError(
            f"{promise}: its column is of type {scale.kind}, and {reason}.", remedy=reason.remedy
        ) from None


def _check_contradictions(promises: list[PromiseOfValues]) -> None:
    """Refuse promises that cannot be meant together: the second would hide the first."""
    for place, one in enumerate(promises):
        for other in promises[place + 1 :]:
            if one.side is other.side and type(one) is type(other) and _same_subject(one, other):
                what = "is given twice" if one == other else f"and {other} contradict each other"
                raise InvalidArgument(
                    f"Of the {name_of(one.side)} input, {one} {what}.",
                    remedy="Give one of them; the stricter one, if both are true.",
                )


def _same_subject(one: PromiseOfValues, other: PromiseOfValues) -> bool:
    match one, other:
        case Unique(), Unique():
            return set(one.columns or ()) == set(other.columns or ())
        case Punctuated(), Punctuated():
            return bool(str(one.when) == str(other.when))
        case ((Clustered() | Ordered() | Watermark()), (Clustered() | Ordered() | Watermark())):
            return one.column == other.column
    return False


# ---- punctuations -------------------------------------------------------------------------------


def condition_of(schema: JoinSchema, promise: Punctuated) -> Expression:
    """The condition that is true for marker rows."""
    if not isinstance(promise.when, str):
        raise InvalidArgument(
            f"{promise}: when={promise.when!r} is no SQL text.",
            remedy='Write it as text, as in when="is_marker"; Spark takes a Column too.',
        )
    try:
        found = Expression.parse(promise.when, Scope((schema.inputs[promise.side], _EMPTY)))
    except WatersmeetError as error:
        raise type(error)(
            f"{promise}, of the {name_of(promise.side)} input: {error.cause}", remedy=error.remedy
        ) from None
    if not pt.is_boolean(found.kind):
        raise InvalidArgument(
            f"{promise}: the condition is of type {found.kind}, and neither true nor false.",
            remedy="Compare it with something, as in when=\"kind = 'marker'\".",
        )
    return found


def pattern_of(schema: JoinSchema, promise: Punctuated) -> list[tuple[str, How]]:
    """What marker rows say about each column."""
    columns = schema.inputs[promise.side]
    if promise.pattern is None:
        markers = condition_of(schema, promise).columns(Side.LEFT)
        pattern: list[tuple[str, How]] = [
            (name, Equality()) for name in columns.names if name not in markers
        ]
    else:
        pattern = list(promise.pattern)
    for name, how in pattern:
        check_name(name, columns.names, promise.side)
        kind = columns.field(name).type
        if not is_comparable(kind):
            raise SchemaError(
                f"{promise}: values of {name!r} ({kind}) are not compared.",
                remedy="Give a pattern with columns of simple values.",
            )
        match how:
            case FromTo(low, high):
                if Scale.of(kind) is None:
                    raise SchemaError(
                        f"{promise}: values of {name!r} ({kind}) have no order, so there are no "
                        "ranges of them.",
                        remedy='Say "equal", or give a column of lists.',
                    )
                for end in (low, high):
                    if end is not None:
                        check_name(end, columns.names, promise.side)
                        _check_fits(promise, name, kind, end, columns.field(end).type)
            case OneOf(column):
                check_name(column, columns.names, promise.side)
                listed = columns.field(column).type
                if not is_list(listed):
                    raise SchemaError(
                        f"{promise}: {column!r} is of type {listed}, and has no lists of values "
                        f"of {name!r}.",
                        remedy='Name a column of lists, a pair of columns for a range, or "equal".',
                    )
                _check_fits(promise, name, kind, column, listed.value_type)
    return pattern


def _check_fits(
    promise: Punctuated, name: str, kind: pa.DataType, column: str, values: pa.DataType
) -> None:
    """Refuse values of which some may not be values of the column that they speak of."""
    try:
        fits = common_type(kind, values) == plain(kind)
    except Incomparable:
        fits = False
    if not fits:
        raise SchemaError(
            f"{promise}: {column!r} has values of type {values}, and {name!r} is of type {kind}.",
            remedy="Give both the same type.",
        )


# ---- rules --------------------------------------------------------------------------------------


def rules_of(
    watched: Watched, promises: Sequence[PromiseOfValues], *, ordered: bool, most: int
) -> list[Rule]:
    """A rule for each promise; `ordered`: whether rows of a batch have an order."""
    schema = watched.schema
    rules: list[Rule] = []
    for place, promise in enumerate(promises):
        side, words = promise.side, str(promise)
        keys = [key.of(side) for key in schema.keys]
        match promise:
            case Unique(_, columns):
                names = keys if columns is None else list(columns)
                # Rows with an equal key are partners, unless something else must hold: then those
                # of the other side go when they have met, and no key need be named.
                more = schema.condition is not None or len(schema.predicates) > 1
                more = more or len(names) < len(keys)
                telling = Telling(watched, side, names, may_name_keys=more)
                seen = Columns(schema, side, names)
                rules.append(UniqueRule(place, words, seen, telling, side, most))
            case Clustered(_, column):
                names = keys if column is None else [column]
                telling = Telling(watched, side, names)
                seen = Columns(schema, side, names)
                rules.append(
                    ClusteredRule(place, words, seen, telling, side, most, ordered=ordered)
                )
            case Ordered() | Watermark():
                rules.append(_order_rule(place, promise, watched, ordered=ordered))
            case Punctuated():
                when, pattern = condition_of(schema, promise), pattern_of(schema, promise)
                rules.append(MarkerRule(place, words, when, pattern, watched, side, most))
    return rules


def _order_rule(
    place: int, promise: Ordered | Watermark, watched: Watched, *, ordered: bool
) -> OrderRule:
    side, column = promise.side, promise.column
    kind = watched.schema.inputs[side].field(column).type
    slack = promise.slack if isinstance(promise, Ordered) else promise.delay
    if pt.is_date(plain(kind)) and slack is not None and not isinstance(slack, timedelta):
        slack = timedelta(days=1) * float(slack)  # the other input may have timestamps
    scale = Columns(watched.schema, side, [column]).order
    assert scale is not None, "checked when the promise was given"
    return OrderRule(
        place,
        str(promise),
        column,
        scale,
        watched,
        side,
        ascending=not isinstance(promise, Ordered) or promise.ascending,
        slack=slack,
        in_batches=ordered and isinstance(promise, Ordered),
    )
