"""Two tables on a local Spark that lasts as long as a command, and leaves quietly."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import watersmeet as wm
from watersmeet.errors import InvalidArgument
from watersmeet.local.files import find_files


@contextmanager
def spark_tables(*paths: str) -> Iterator[list[Any]]:
    """A DataFrame for each file or directory of Parquet."""
    for path, side in zip(paths, ("left", "right"), strict=True):
        other = [file for file in find_files(Path(path), side) if file.format.name != "parquet"]
        if other:
            raise InvalidArgument(
                f"--spark reads Parquet, and {str(other[0].path)!r} is {other[0].format.name}.",
                remedy="Leave --spark out, or write the table as Parquet first.",
            )
    spark = wm.session()
    # Not earlier, for Spark puts its own answer to Ctrl-C in place.
    before = signal.signal(signal.SIGINT, leave)
    try:
        with closing_session(spark):
            yield [spark.read.parquet(str(Path(path).absolute())) for path in paths]
    except Exception as error:
        if was_interrupted(error):
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def closing_session(spark: Any) -> Iterator[None]:
    try:
        yield
    except BaseException:
        # What the JVM was saying at that moment is lost, and `stop` may stumble over it.
        with suppress(Exception):
            spark.stop()
        raise
    spark.stop()


def was_interrupted(error: BaseException) -> bool:
    """Whether an error came while a Ctrl-C was being answered: tidying up asks the JVM, too."""
    context = error.__context__
    return context is not None and (
        isinstance(context, KeyboardInterrupt) or was_interrupted(context)
    )


def leave(number: int, frame: object) -> None:
    """On Ctrl-C, a closed window or a `kill`: go, and leave nothing behind.

    Spark's own answer to Ctrl-C calls the JVM in the middle of another call, and both complain at
    length.
    """
    logging.disable()
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)
