"""`watersmeet join-many`: joins several files or directories at once."""

from __future__ import annotations

import argparse
from typing import Any

from watersmeet import local
from watersmeet.cli.join import add_running, add_threads, deliver, parse_band
from watersmeet.errors import InvalidArgument


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "join-many",
        help="join several files or directories at once while reading them",
        description="Join up to eight inputs of Parquet, Arrow or CSV files. Without --output the "
        "first rows are shown as soon as they are found.",
    )
    parser.add_argument(
        "inputs",
        metavar="NAME=FILE",
        nargs="+",
        help="an input and the name by which --on and --within call it: a file, a directory of "
        "files, or a quoted pattern",
    )
    parser.add_argument(
        "--on",
        action="append",
        default=[],
        metavar="'A.X = B.Y'",
        help="columns of two inputs that must be equal; a single name is a column that all have; "
        "may be repeated",
    )
    parser.add_argument(
        "--within",
        action="append",
        default=[],
        metavar="A.X,B.Y=WIDTH",
        help="columns of two inputs that may differ by no more than a number, or a time such as "
        "'5 seconds'; may be repeated",
    )
    parser.add_argument(
        "--algorithm", default="auto", help="auto (default), miner, miner-plain or mjoin"
    )
    add_threads(parser)
    add_running(parser)


def run(arguments: argparse.Namespace) -> int:
    inputs = [_named(text) for text in arguments.inputs]
    on = [*arguments.on, *map(parse_band, arguments.within)]
    if not on:
        raise InvalidArgument(
            "Neither --on nor --within says which rows belong together.",
            remedy="Name columns of two inputs, as in --on 'orders.id = items.order'.",
        )
    return deliver(
        lambda: local.join_many(
            inputs,
            on=on,
            algorithm=arguments.algorithm,
            memory=arguments.memory,
            spill_dir=arguments.spill_dir,
            threads=arguments.threads,
        ),
        arguments,
        inputs=[path for _, path in inputs],
    )


def _named(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise InvalidArgument(
            f"{text!r} is no input with a name.",
            remedy="Write for example orders=orders.parquet.",
        )
    return name, path
