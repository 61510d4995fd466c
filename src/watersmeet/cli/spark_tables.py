"""Opens two tables on a local Spark for one command, and ends Spark without noise."""

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
    # After the session has started, since Spark installs its own handler for Ctrl-C.
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
        # A call to the JVM may have been interrupted half-way, and then `stop` may fail.
        with suppress(Exception):
            spark.stop()
        raise
    spark.stop()


def was_interrupted(error: BaseException) -> bool:
    """Whether an error was raised while a Ctrl-C was handled: clean-up code calls the JVM, too."""
    context = error.__context__
    return context is not None and (
        isinstance(context, KeyboardInterrupt) or was_interrupted(context)
    )


def leave(number: int, frame: object) -> None:
    """Handle Ctrl-C, a closed window or a `kill`: end, so that clean-up code runs.

    Spark's own handler for Ctrl-C calls the JVM in the middle of another call, and both print long
    errors.
    """
    logging.disable()
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)
