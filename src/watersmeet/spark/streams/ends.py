"""How a stream says that it has ended: a condition that is true for its last row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import BooleanType, NullType

from watersmeet.errors import InvalidArgument
from watersmeet.model import JoinType, Side
from watersmeet.promises.bounds import missing_bound
from watersmeet.promises.kinds import PromiseOfValues
from watersmeet.rows.on import name_of
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.keys import first_line
from watersmeet.spark.streams.batch_promises import in_our_words

EndCondition: TypeAlias = "Column | str | None"
Ends = tuple[EndCondition, EndCondition]
Marks = tuple[EndCondition, ...]


def check_ends(ends: Any, streams: tuple[DataFrame, DataFrame]) -> Marks:
    """A condition for each of two streams, or None; Spark has read each against its stream."""
    marks: tuple[Any, ...] = (None, None) if ends is None else ends
    if not (isinstance(marks, tuple | list) and len(marks) == 2) or not all(
        mark is None or isinstance(mark, str | Column) for mark in marks
    ):
        raise InvalidArgument(
            f"ends={ends!r} is no pair of conditions.",
            remedy='Give one for each stream, as in ends=("is_last", "id < 0"), or None for one '
            "that does not end.",
        )
    for side in Side:
        what = f"ends[{int(side)}]={str(marks[side])!r}"
        check_condition(marks[side], streams[side], what=what, name=name_of(side))
    return tuple(marks)


def check_bounded(marks: Marks, join: JoinSchema, promises: Sequence[PromiseOfValues]) -> None:
    """Refuse a join that would wait for the last row of a stream without end."""
    if join.how is JoinType.INNER or not any(mark is None for mark in marks):
        return
    lacking = missing_bound(join, join.how, in_our_words(promises))
    if lacking is not None:
        raise InvalidArgument(
            f"how={str(join.how)!r} asks for rows that never find a partner, or counts partners up "
            f"to the last, and nobody knows the last row of a stream without end. {lacking.cause}",
            remedy='Use how="inner", say with `ends` how each of the two streams ends, or promise '
            f"what will not come any more. {lacking.remedy}",
        )


def check_named_ends(ends: Any, names: Sequence[str], streams: Sequence[DataFrame]) -> Marks:
    """The same for streams that have names: conditions by name."""
    marks: Any = {} if ends is None else ends
    if not isinstance(marks, Mapping) or not all(
        mark is None or isinstance(mark, str | Column) for mark in marks.values()
    ):
        raise InvalidArgument(
            f"ends={ends!r} is no dict of conditions.",
            remedy='Give them by the names of streams, as in ends={"orders": "id < 0"}; a stream '
            "that is left out does not end.",
        )
    for name in marks:
        if name not in names:
            raise InvalidArgument(
                f"ends= has {name!r}, which is no stream of the join.",
                remedy=f"The streams are {', '.join(names)}.",
            )
    for name, stream in zip(names, streams, strict=True):
        mark = marks.get(name)
        check_condition(mark, stream, what=f"ends[{name!r}]={str(mark)!r}", name=name)
    return tuple(marks.get(name) for name in names)


def check_condition(mark: EndCondition, stream: DataFrame, *, what: str, name: str) -> None:
    if mark is None:
        return
    columns = f"The columns of the {name} stream are {', '.join(stream.columns)}."
    try:
        kind = stream.select(sf.expr(mark) if isinstance(mark, str) else mark).schema[0].dataType
    except PySparkException as error:
        raise InvalidArgument(
            f"Spark does not understand {what}: {first_line(error)}", remedy=columns
        ) from None
    if not isinstance(kind, BooleanType | NullType):
        raise InvalidArgument(
            f"{what} is of type {kind.simpleString()}, and so is no condition.",
            remedy=f'Give one that is true or false, as in "id < 0". {columns}',
        )
