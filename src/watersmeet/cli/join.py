"""`watersmeet join`: joins two files or directories, writes a file or shows the first rows."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from watersmeet import local
from watersmeet.cli.output import check_columns, check_output, open_output
from watersmeet.cli.preview import Preview
from watersmeet.cli.progress import ProgressLine
from watersmeet.errors import InvalidArgument
from watersmeet.rows.bands import Band
from watersmeet.rows.intervals import Overlap, between, overlaps
from watersmeet.rows.on import Near
from watersmeet.rows.spans import within


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "join",
        help="join two files or directories while reading them",
        description="Join two inputs of Parquet, Arrow or CSV files. Without --output the first "
        "rows are shown as soon as they are found.",
    )
    what = "a file, a directory of files, or a quoted pattern such as 'part-*.parquet'"
    parser.add_argument("left", metavar="LEFT", help=what)
    parser.add_argument("right", metavar="RIGHT", help=what)
    add_on(parser, sides=("LEFT", "RIGHT"))
    parser.add_argument(
        "--within",
        action="append",
        default=[],
        metavar="COLUMN=WIDTH",
        help="the column whose values may differ by no more than a number, or a time such as "
        "'5 seconds'; LEFT,RIGHT=WIDTH when the names differ; may be repeated, and --on left out",
    )
    parser.add_argument(
        "--between",
        action="append",
        default=[],
        metavar="COLUMN=LOW..HIGH",
        help="the column of LEFT that lies between two columns of RIGHT; LOW..HIGH=COLUMN when "
        "LEFT has the interval; may be repeated",
    )
    parser.add_argument(
        "--overlaps",
        action="append",
        default=[],
        metavar="START..END=FROM..TO",
        help="the intervals of LEFT and of RIGHT that overlap; may be repeated",
    )
    parser.add_argument(
        "--how", default="inner", help="inner (default), left, right, full, semi or anti"
    )
    parser.add_argument("--algorithm", default="auto", help="auto (default), rpj, shj, diner, ...")
    add_threads(parser)
    add_running(parser)


def add_on(parser: argparse.ArgumentParser, *, sides: tuple[str, str]) -> None:
    """Add the option that names columns that must be equal."""
    parser.add_argument(
        "--on",
        action="append",
        default=[],
        metavar="COLUMN",
        help=f"the column that must be equal; {'='.join(sides)} when the names differ; may be "
        "repeated",
    )


def add_threads(parser: argparse.ArgumentParser) -> None:
    """Add the option that says in how many threads a join runs."""
    parser.add_argument(
        "--threads", type=int, help="how many threads join, each its part of the keys (default 1)"
    )


def add_running(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how any join runs and what becomes of its rows."""
    parser.add_argument("--memory", default="256MB", help="the most it may hold (default 256MB)")
    parser.add_argument("--spill-dir", metavar="DIR", help="where rows go that do not fit")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write all rows to FILE.parquet, .arrow, .csv(.gz); - for CSV on standard output",
    )
    parser.add_argument(
        "--force", action="store_true", help="overwrite FILE if it exists; never an input"
    )
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("--explain", action="store_true", help="say afterwards what it did and why")


def run(arguments: argparse.Namespace) -> int:
    on = _on(arguments)
    inputs = [arguments.left, arguments.right]
    return deliver(
        lambda: local.join(
            arguments.left,
            arguments.right,
            on=on,
            how=arguments.how,
            algorithm=arguments.algorithm,
            memory=arguments.memory,
            spill_dir=arguments.spill_dir,
            threads=arguments.threads,
        ),
        arguments,
        inputs=inputs,
    )


def deliver(
    begin: Callable[[], local.LocalJoin], arguments: argparse.Namespace, *, inputs: list[str]
) -> int:
    """Begin a join, and write its rows where the options say; `inputs` are never written to."""
    if arguments.output is not None:
        check_output(arguments.output, inputs=inputs, force=arguments.force)
    progress = ProgressLine()
    with contextlib.ExitStack() as stack:
        join = stack.enter_context(begin())
        if arguments.output is not None:
            check_columns(arguments.output, join.schema)
            write = stack.enter_context(open_output(arguments.output, join.schema)).write
        elif arguments.json:
            write = None
        else:
            write = stack.enter_context(Preview(join.schema)).write
        for batch in progress.watch(join):
            if write is not None:
                write(batch)
    if arguments.explain:
        print(join.explain(), file=sys.stderr)
    if arguments.json:
        print(json.dumps(progress.summary(join)))
    else:
        print(progress.sentence(join), file=sys.stderr)
    return 0


def _on(arguments: argparse.Namespace) -> list[str | tuple[str, str] | Near]:
    on = [
        *map(columns_of, arguments.on),
        *map(parse_band, arguments.within),
        *map(_between, arguments.between),
        *map(_overlaps, arguments.overlaps),
    ]
    if not on:
        raise InvalidArgument(
            "Neither --on nor --within, --between or --overlaps says which rows belong together.",
            remedy="Name a column that must be equal, as in --on id, or one whose values must be "
            "close, as in --within 'time=5 seconds'.",
        )
    return on


def _between(text: str) -> Overlap:
    left, right = _sides(text)
    if len(left) + len(right) != 3:
        raise InvalidArgument(
            f"--between {text!r} does not name the column of a value and the two of an interval.",
            remedy="Write for example --between price=low..high, or --between low..high=price if "
            "the left input has the interval.",
        )
    if len(left) == 1:
        return between(left[0], (right[0], right[1]))
    return between((left[0], left[1]), right[0])


def _overlaps(text: str) -> Overlap:
    left, right = _sides(text)
    if (len(left), len(right)) != (2, 2):
        raise InvalidArgument(
            f"--overlaps {text!r} does not name the columns of two intervals.",
            remedy="Write for example --overlaps start..end=from..to.",
        )
    return overlaps((left[0], left[1]), (right[0], right[1]))


def _sides(text: str) -> tuple[list[str], list[str]]:
    """The columns of both sides of an equals sign; none if a name is missing."""
    left, _, right = text.partition("=")
    names = [[name.strip() for name in side.split("..")] for side in (left, right)]
    return (names[0], names[1]) if all(map(all, names)) else ([], [])


def parse_band(text: str) -> Band:
    """The band of an option such as --within 'time=5 seconds'."""
    names, equals, width = text.rpartition("=")
    left, comma, right = names.partition(",")
    if not (equals and left.strip() and (right.strip() or not comma)):
        raise InvalidArgument(
            f"--within {text!r} names no column and width.",
            remedy="Write for example --within 'time=5 seconds', --within price=0.05, or "
            "--within 'sent,read=5 minutes'.",
        )
    return within((left.strip(), right.strip() if comma else left.strip()), _width(width))


def _width(text: str) -> Decimal | str:
    """A plain number as it is written, and not as the nearest binary fraction."""
    try:
        return Decimal(text.strip())
    except InvalidOperation:
        return text


def columns_of(on: str) -> str | tuple[str, str]:
    """The column, or the two columns, of an option such as --on id or --on id=user."""
    left, equals, right = on.partition("=")
    return (left, right) if equals else on
