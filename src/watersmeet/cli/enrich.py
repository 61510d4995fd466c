"""`watersmeet enrich`: joins a stream of rows with a large table that changes slowly."""

from __future__ import annotations

import argparse
import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

from watersmeet import local
from watersmeet.cli.join import add_on, add_running, add_threads, columns_of, deliver
from watersmeet.errors import InvalidArgument
from watersmeet.local.arriving import Arriving
from watersmeet.local.postgres import postgres

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_DATABASE = ("postgresql://", "postgres://")


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "enrich",
        help="join a stream with a large table that changes slowly",
        description="Join the rows of a stream with a master table that need not fit in memory. "
        "Without --output the first rows are shown as soon as they are found.",
    )
    parser.add_argument(
        "stream",
        metavar="STREAM",
        help="a file, a directory of files, a quoted pattern such as 'part-*.parquet', or - for "
        "lines of JSON on standard input",
    )
    parser.add_argument(
        "master",
        metavar="MASTER",
        help="the same, but for -; or postgresql://user@host/database, with --query",
    )
    add_on(parser, sides=("STREAM", "MASTER"))
    parser.add_argument("--how", default="inner", help="inner (default), left, semi or anti")
    parser.add_argument(
        "--algorithm", default="auto", help="auto (default), ssbj, cmeshjoin or meshjoin"
    )
    parser.add_argument("--query", metavar="SQL", help="which rows of a database are the master")
    parser.add_argument(
        "--watch",
        action="store_true",
        help="go on with files that appear in the directory STREAM, until interrupted",
    )
    parser.add_argument(
        "--refresh",
        metavar="TIME",
        help="look at MASTER again so often, as in '10 seconds', and go on with a new version",
    )
    parser.add_argument(
        "--deadline",
        metavar="TIME",
        help="how long a row without a partner waits for newer versions, as in '1 minute'",
    )
    parser.add_argument(
        "--version-column",
        metavar="NAME",
        help="a further column of the result: when the version that a row met was read",
    )
    add_threads(parser)
    add_running(parser)


def run(arguments: argparse.Namespace) -> int:
    stream, master = _stream(arguments), _master(arguments)
    inputs = [each for each in (arguments.stream, arguments.master) if _is_path(each)]
    with _ended_by_signals(stream):
        return deliver(
            lambda: local.enrich(
                stream,
                master,
                on=[columns_of(each) for each in arguments.on],
                how=arguments.how,
                algorithm=arguments.algorithm,
                memory=arguments.memory,
                refresh=arguments.refresh,
                deadline=arguments.deadline,
                version_column=arguments.version_column,
                spill_dir=arguments.spill_dir,
                threads=arguments.threads,
            ),
            arguments,
            inputs=inputs,
        )


def _is_path(given: str) -> bool:
    return given != "-" and not given.startswith(_DATABASE)


def _stream(arguments: argparse.Namespace) -> Any:
    if not arguments.on:
        raise InvalidArgument(
            "--on does not say which rows belong together.",
            remedy="Name a column that must be equal, as in --on id.",
        )
    if arguments.stream == "-":
        if arguments.watch:
            raise InvalidArgument(
                "--watch is for a directory, and STREAM is standard input.",
                remedy="Leave --watch out: standard input is read until it ends anyway.",
            )
        return local.json_lines(sys.stdin.buffer)
    return local.watch(arguments.stream) if arguments.watch else arguments.stream


def _master(arguments: argparse.Namespace) -> Any:
    is_database = arguments.master.startswith(_DATABASE)
    if is_database != (arguments.query is not None):
        raise InvalidArgument(
            "MASTER is a database, and --query does not say which rows."
            if is_database
            else "--query is for databases, and MASTER is none.",
            remedy="Write for example postgresql://user@host/database --query 'SELECT * FROM "
            "items'.",
        )
    if arguments.master == "-":
        raise InvalidArgument(
            "MASTER cannot be standard input.", remedy="Give a file, or a database with --query."
        )
    return postgres(arguments.master, arguments.query) if is_database else arguments.master


@contextlib.contextmanager
def _ended_by_signals(stream: Any) -> Iterator[None]:
    """For streams without an end: the first interrupt, or request to terminate, ends the stream,
    and all rows that have come are answered. The second is what it always is."""
    if not isinstance(stream, Arriving) or not _in_main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}

    def back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def end(number: int, frame: object) -> None:
        back()
        stream.stop()

    for number in _SIGNALS:
        signal.signal(number, end)
    try:
        yield
    finally:
        back()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
