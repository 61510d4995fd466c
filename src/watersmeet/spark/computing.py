"""A DataFrame that Spark cannot compute: what it says about it, without its stack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from watersmeet.errors import SourceFailed

_LONGEST = 400


@contextmanager
def computing(what: str) -> Iterator[None]:
    """What Spark cannot do in here is an input's own doing. `what` is "staging the left side".

    Spark's error stays as the new one's context. Shown in full it would be a hundred lines of Java.
    """
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise SourceFailed(
            f"Spark could not compute an input ({what}): {_words(error)}",
            remedy="Mend the DataFrame: its own collect() meets the same error.",
            side=next((side for side in ("left", "right") if side in what), ""),
            rows_read=(0, 0),
            rows_out=0,
        ) from None


def _words(error: Exception) -> str:
    """Its first sentences, on one line."""
    text = _root(error.java_exception) if isinstance(error, Py4JJavaError) else str(error)
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if "Traceback (most recent call last):" in lines:
        # Of a function of the user's: Python says last what it was, before the JVM adds its own.
        begun = lines.index("Traceback (most recent call last):")
        said = [line for line in lines[begun + 1 :] if not line.startswith(('File "', "at "))]
        lines = said[-1:] or lines[:1]
    words = lines[0] if lines else type(error).__name__
    if len(words) > _LONGEST:
        words = words[:_LONGEST].rstrip() + " ..."
    return words if words.endswith(".") else words + "."


def _root(exception: object) -> str:
    """What the innermost of Java's exceptions says: those around it tell of tasks and stages."""
    deepest = exception
    while (cause := deepest.getCause()) is not None:  # type: ignore[attr-defined]
        deepest = cause
    return str(deepest.getMessage() or deepest.toString())  # type: ignore[attr-defined]
