"""Turns Spark's error about a DataFrame that it cannot compute into one of ours, without stack."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from watersmeet.errors import SourceFailed

_LONGEST = 400
# The texts that Spark, Java and Python put before the message of an error.
_TASK = re.compile(r"Job aborted due to stage failure: .*?\(TID \d+\) \([^)]*\): ")
_PACKAGE = re.compile(r"(?:\w+\.)+(?=[\w$]+(?:: |$))")


@contextmanager
def computing(what: str) -> Iterator[None]:
    """Raise an error of Spark as an error of an input. `what` says what was done, such as "staging
    the left side".

    The new error has only the message of Spark's, which has a hundred lines of Java below it.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise SourceFailed(
            f"Spark could not compute an input ({what}): {words(error)}",
            remedy="Mend the DataFrame: its own collect() meets the same error.",
            side=next((side for side in ("left", "right") if side in what), ""),
            rows_read=(0, 0),
            rows_out=0,
        ) from None


def words(error: Exception) -> str:
    """The message of Spark's error on one line, without its Java stack."""
    text = _root(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if "Traceback (most recent call last):" in lines:
        # An error in a function of the user: its message comes last in Python's traceback, before
        # the stack of the JVM.
        begun = lines.index("Traceback (most recent call last):")
        said = [line for line in lines[begun + 1 :] if not line.startswith(('File "', "at "))]
        lines = said[-1:] or lines[:1]
    said_first = lines[0] if lines else type(error).__name__
    said_first = _PACKAGE.sub("", _TASK.sub("", said_first), count=1)
    if len(said_first) > _LONGEST:
        said_first = said_first[:_LONGEST].rstrip() + " ..."
    return said_first if said_first.endswith(".") else said_first + "."


def _root(exception: object) -> str:
    """The message of the innermost Java exception; the outer ones are about tasks and stages."""
    deepest = exception
    while (cause := deepest.getCause()) is not None:  # type: ignore[attr-defined]
        deepest = cause
    return str(deepest.getMessage() or deepest.toString())  # type: ignore[attr-defined]
