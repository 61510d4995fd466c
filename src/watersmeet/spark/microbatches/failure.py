"""Errors on their way from a task to whoever asks the query what went wrong."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Any

from pyspark import TaskContext

from watersmeet import errors
from watersmeet.errors import InvalidArgument, MalformedInput, WatersmeetError

_OURS = re.compile(r"watersmeet\.errors\.(\w+): (.*)")
_PLACE = re.compile(r"at line ([\d,]+), column ([\d,]+)\.")


@contextlib.contextmanager
def in_one_sentence() -> Iterator[None]:
    """Let an error of ours reach Spark as its sentence, without the frames it came through.

    Whatever else is raised keeps them: they are what is known about it. The worker of a task that
    failed ends, so the setting goes with it.
    """
    try:
        yield
    except WatersmeetError:
        if TaskContext.get() is not None:
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def stream_error(query: Any) -> WatersmeetError | None:
    """Why a query with a stream join ended, in our words; None if that was not our doing.

    `query` is a StreamingQuery, or the StreamingQueryException that awaiting it has raised. Spark
    puts the number of the task and stage before the sentence, and a Java stack trace behind it.
    """
    if isinstance(query, BaseException):
        raised: BaseException | None = query
    elif callable(getattr(query, "exception", None)):
        raised = query.exception()
    else:
        raise InvalidArgument(
            f"query={query!r} is no query.",
            remedy="Give what start() returned, or the StreamingQueryException.",
        )
    if isinstance(raised, WatersmeetError):
        return raised
    found = None if raised is None else _OURS.search(str(raised))
    if found is None:
        return None
    kind = getattr(errors, found[1], None)
    if not (isinstance(kind, type) and issubclass(kind, WatersmeetError)):
        return None
    error = kind.__new__(kind)
    sentence = " ".join(found[2].split())
    Exception.__init__(error, sentence)
    error.cause, error.remedy = sentence, ""
    if isinstance(error, MalformedInput):
        place = _PLACE.search(sentence)
        numbers = place.groups() if place else ("1", "1")
        error.line, error.column = (int(number.replace(",", "")) for number in numbers)
    return error
