"""How a stream says that it has ended: a condition that is true for its last row."""

from __future__ import annotations

from typing import Any, TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import BooleanType, NullType

from watersmeet.errors import InvalidArgument
from watersmeet.model import JoinType, Side
from watersmeet.spark.keys import first_line

EndCondition: TypeAlias = "Column | str | None"
Ends = tuple[EndCondition, EndCondition]


def check_ends(ends: Any, how: JoinType, streams: tuple[DataFrame, DataFrame]) -> Ends:
    """A condition for each stream, or None; Spark has read each against its stream."""
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
        if marks[side] is not None:
            _check_condition(marks[side], streams[side], side)
    if how is not JoinType.INNER and any(mark is None for mark in marks):
        raise InvalidArgument(
            f"how={str(how)!r} asks for rows that never find a partner, or counts partners up to "
            "the last, and nobody knows the last row of a stream without end.",
            remedy='Use how="inner", or say with `ends` how each of the two streams ends.',
        )
    return (marks[0], marks[1])


def _check_condition(mark: Column | str, stream: DataFrame, side: Side) -> None:
    what = f"ends[{int(side)}]={str(mark)!r}"
    columns = f"The columns of the {side.name.lower()} stream are {', '.join(stream.columns)}."
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
