"""Promises as `wm.join_streams` takes them: spelled and checked by Spark, at the call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from watersmeet.errors import InvalidArgument
from watersmeet.model import Side
from watersmeet.operators.family import find_mechanism
from watersmeet.operators.promised.join import purged_after
from watersmeet.operators.question import Question
from watersmeet.promises.checking import check_promises
from watersmeet.promises.keeper import ON_BROKEN
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
from watersmeet.promises.marked import check_punctuations
from watersmeet.rows.on import name_of
from watersmeet.rows.predicates import ValuesInBand
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.keys import Frames, column_name
from watersmeet.spark.scans.streams import DELAY
from watersmeet.spark.streams.batch_promises import in_our_words
from watersmeet.spark.streams.ends import check_condition
from watersmeet.spark.streams.promised import Promised

_FORGETFUL = "rpj"


@dataclass(frozen=True)
class Marker:
    """A promise with marker rows, and how Spark tells them from data."""

    promise: Punctuated
    condition: Column


@dataclass(frozen=True)
class AskedPromises:
    """What the user promises, with the names of columns as Spark has them."""

    promises: tuple[PromiseOfValues, ...] = ()
    """Conditions are text in them, and patterns name every column they are about."""
    markers: tuple[Marker, ...] = ()
    """Those of them that have marker rows, in the same order."""

    def __bool__(self) -> bool:
        return bool(self.promises)


def ask_promises(promises: Any, streams: Frames) -> AskedPromises:
    """Read the argument `promises`; watermarks that the streams have are not among these."""
    given = () if promises is None else promises
    if isinstance(given, PromiseOfValues):
        given = (given,)
    if not isinstance(given, list | tuple) or not all(
        isinstance(each, PromiseOfValues) for each in given
    ):
        raise InvalidArgument(
            f"promises={promises!r} is no list of promises.",
            remedy='Give a list, as in promises=[wm.watermark("left", "time", "10 minutes")].',
        )
    found: list[PromiseOfValues] = []
    markers: list[Marker] = []
    for each in given:
        if isinstance(each, Punctuated):
            markers.append(_marker(each, streams[each.side]))
            found.append(markers[-1].promise)
        else:
            found.append(_spelled(each, streams[each.side]))
    return AskedPromises(tuple(found), tuple(markers))


def with_watermarks(asked: AskedPromises, streams: Frames, join: JoinSchema) -> AskedPromises:
    """The same, and the watermarks that columns of the join have from Spark's `withWatermark`,
    unless something is promised about the order of such a column already."""
    promised = {
        (each.side, each.column) for each in asked.promises if isinstance(each, Ordered | Watermark)
    }
    implied = [
        Watermark(side, field.name, timedelta(milliseconds=int(field.metadata[DELAY])))
        for side in Side
        for field in streams[side].schema.fields
        if DELAY in field.metadata
        and field.name in _columns_of(join, side)
        and (side, field.name) not in promised
    ]
    return replace(asked, promises=(*asked.promises, *implied))


def promised_of(
    asked: AskedPromises, *, on_broken: Any, purge: Any, punctuations: Any
) -> Promised | None:
    """What tasks know of the promises; None if there are none."""
    if on_broken not in ON_BROKEN:
        raise InvalidArgument(
            f"on_broken={on_broken!r} is not known.",
            remedy='Use "fail", "drop", or "quarantine", which writes such rows aside.',
        )
    purged_after(purge)
    name = check_punctuations(punctuations, promised=bool(asked))
    return Promised(asked.promises, str(on_broken), purge, name) if asked else None


def with_promises(question: Question) -> Question:
    """The same question, with the algorithm that forgets rows where the user left the choice."""
    return replace(question, algorithm=_FORGETFUL) if question.auto else question


def check_promised(
    join: JoinSchema, question: Question, promised: Promised | None, instances: int | None
) -> None:
    """Refuse promises that do not fit the join, or that instances cannot check."""
    if promised is None:
        return
    if not join.keys:
        raise InvalidArgument(
            "Streams that are joined on bands alone take no promises.",
            remedy="Add a pair of equal columns, or leave `promises` and watermarks out.",
        )
    if not find_mechanism(question.algorithm).watches:
        raise InvalidArgument(
            f"algorithm={question.algorithm!r} cannot use promises.",
            remedy="Use auto, or one of rpj, xjoin, hmj.",
        )
    check_promises(join, in_our_words(promised.promises))
    for each in promised.promises:
        if isinstance(each, Unique) and each.columns is not None and instances != 1:
            missing = {key.of(each.side) for key in join.keys} - set(each.columns)
            if missing:
                raise InvalidArgument(
                    f"{each} of the {name_of(each.side)} stream cannot be checked by several "
                    f"instances: rows with equal values there may differ in {min(missing)!r}, and "
                    "then go to different ones.",
                    remedy="Name all columns of the key, or give instances=1.",
                )


def _columns_of(join: JoinSchema, side: Side) -> set[str]:
    """The columns of a side that the join is about."""
    names = join.inputs[side].names
    near = [each for each in join.predicates if isinstance(each, ValuesInBand)]
    return {key.of(side) for key in join.keys} | {names[each.columns[side]] for each in near}


def _marker(promise: Punctuated, stream: DataFrame) -> Marker:
    """The promise with all that Spark knows about it written out."""
    side, when = promise.side, promise.when
    if not isinstance(when, str | Column):
        raise InvalidArgument(
            f"punctuated(when={when!r}) is no condition.",
            remedy='Give SQL text or a Column that is true for marker rows, as in "is_marker".',
        )
    what = f"punctuated(when={str(when)!r})"
    check_condition(when, stream, what=what, name=name_of(side))
    condition = sf.expr(when) if isinstance(when, str) else when
    if promise.pattern is None:
        named = _names_in(condition, stream)
        others = [name for name in stream.columns if name not in named]
        pattern: Sequence[tuple[str, How]] = [(name, Equality()) for name in others]
    else:
        pattern = [
            (_spelling(name, stream, side), _spelled_how(how, stream, side))
            for name, how in promise.pattern
        ]
    # A Column is shown as Column<'a > b'>.
    text = str(when) if isinstance(when, str) else str(when)[len("Column<'") : -len("'>")]
    known = replace(promise, when=text, pattern=tuple(pattern))
    return Marker(known, sf.coalesce(condition, sf.lit(False)))


def _names_in(condition: Column, stream: DataFrame) -> set[str]:
    """The columns that a condition is computed from."""
    references = stream.where(condition)._jdf.queryExecution().analyzed().condition().references()
    found = references.toSeq()
    return {found.apply(n).name() for n in range(found.size())}


def _spelled(promise: PromiseOfValues, stream: DataFrame) -> PromiseOfValues:
    side = promise.side
    match promise:
        case Unique(columns=None) | Clustered(column=None):
            return promise
        case Unique(columns=columns):
            assert columns is not None
            return replace(promise, columns=tuple(_spelling(n, stream, side) for n in columns))
        case Clustered(column=column) | Ordered(column=column) | Watermark(column=column):
            assert column is not None
            return replace(promise, column=_spelling(column, stream, side))
    return promise


def _spelled_how(how: How, stream: DataFrame, side: Side) -> How:
    match how:
        case FromTo(low=low, high=high):
            ends = [None if n is None else _spelling(n, stream, side) for n in (low, high)]
            return FromTo(*ends)
        case OneOf(column=column):
            return OneOf(_spelling(column, stream, side))
    return how


def _spelling(name: str, stream: DataFrame, side: Side) -> str:
    return column_name(stream, name, word=name_of(side))
