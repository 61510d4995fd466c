"""`watersmeet demo`: a join that shows rows early, on Spark or in this process, and is checked."""

from __future__ import annotations

import argparse
from typing import Any

from watersmeet.errors import InvalidArgument


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "demo",
        help="watch a join of two tables answer early, beside Spark's own",
        description="Make two tables of the TPC-H benchmark, join them on a local Spark, show the "
        "first rows when they come, and let Spark's own join do the same; then estimate an "
        "aggregate of both, until it is exact. Takes about a minute on two cores; leaves nothing "
        "behind.",
    )
    parser.add_argument(
        "--local",
        action="store_true",
        help="without Spark: one of two inputs stalls, and rows come all the same (ten seconds)",
    )
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        metavar="S",
        help="size of the tables; 1 is 1.5 and 6 million rows (default: 1)",
    )


def run(arguments: argparse.Namespace) -> int:
    # Imported here, so that the local demo does not load Spark.
    if arguments.local:
        from watersmeet.cli.demo import local_stall

        return local_stall.run()
    if not 0.001 <= arguments.scale <= 100:
        raise InvalidArgument(
            f"--scale {arguments.scale:g} is no size for a demonstration.",
            remedy="Use a number from 0.001 to 100.",
        )
    from watersmeet.cli.demo import spark_join

    return spark_join.run(scale=arguments.scale)
