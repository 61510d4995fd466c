"""`watersmeet aggregate`: estimates with intervals that shrink on the screen, then the answer."""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import math
import re
import sys
from collections.abc import Iterator
from typing import Any

import watersmeet as wm
from watersmeet.aggregates.answer.estimate import Estimate
from watersmeet.aggregates.answer.layout import in_order
from watersmeet.aggregates.ask.specification import Aggregate
from watersmeet.aggregates.run import AggregateRun
from watersmeet.aggregates.view.plot import check_path
from watersmeet.cli.livetable import LiveTable
from watersmeet.cli.target import check_target
from watersmeet.drawing import require_matplotlib
from watersmeet.errors import InvalidArgument
from watersmeet.local import aggregate

_KINDS = ("count", "sum", "avg", "stddev", "stddev_pop", "variance", "var_pop")
_NAMED = re.compile(r"\s*(\w+)\s*=(?!=)\s*(.*)", re.DOTALL)
_EXAMPLE = (
    "watersmeet aggregate lineitem orders --on l_orderkey=o_orderkey --group-by o_orderpriority "
    "--sum 'revenue=l_extendedprice * (1 - l_discount)' --count n --until 1%"
)


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "aggregate",
        help="estimate an aggregate over a join, better and better, then exactly",
        description="Aggregate the join of two inputs. Estimates with intervals come at once and "
        "get better until they are narrow enough or exact. Without a limit all is read.",
        epilog=f"For example: {_EXAMPLE}",
    )
    what = "a file, a directory of files, or a quoted pattern such as 'part-*.parquet'"
    parser.add_argument("left", metavar="LEFT", help=what)
    parser.add_argument("right", metavar="RIGHT", help=what)
    parser.add_argument(
        "--on",
        required=True,
        action="append",
        metavar="COLUMN",
        help="the column that must be equal; LEFT=RIGHT when the names differ; may be repeated",
    )
    parser.add_argument("--how", default="inner", help="inner (default), left, right, semi or anti")
    parser.add_argument(
        "--group-by",
        action="append",
        metavar="COLUMN",
        help="a row of the answer for each of its values; may be repeated",
    )
    parser.add_argument("--where", metavar="SQL", help="a condition over columns of both inputs")
    _add_aggregates(parser)
    _add_limits(parser)
    parser.add_argument("--memory", default="1GB", help="the most that one side may take (1GB)")
    parser.add_argument("--spill-dir", metavar="DIR", help="where rows go that do not fit")
    parser.add_argument("--seed", type=int, default=0, help="of the order of reading (0)")
    parser.add_argument("--spark", action="store_true", help="on a local Spark; Parquet only")
    parser.add_argument(
        "--groups", type=int, default=20, metavar="N", help="show so many at most (20)"
    )
    parser.add_argument("--plot", metavar="FILE", help="draw the looks: FILE.png, .svg or .pdf")
    parser.add_argument(
        "--force", action="store_true", help="overwrite that FILE if it exists; never an input"
    )
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    parser.add_argument("--explain", action="store_true", help="say afterwards how it was read")


def _add_aggregates(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("aggregates, one or more, each as often as you like")
    for kind in _KINDS:
        group.add_argument(
            f"--{kind.replace('_', '-')}",
            dest="aggregates",
            action=_Named,
            default=[],
            metavar="NAME" if kind == "count" else "[NAME=]SQL",
            help="how many rows; NAME=SQL: for how many of them it is not null"
            if kind == "count"
            else None,
        )


def _add_limits(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("how sure, and how far")
    group.add_argument(
        "--confidence",
        type=float,
        default=0.95,
        help="how often an interval is to hold the exact value (0.95)",
    )
    group.add_argument(
        "--simultaneous", action="store_true", help="of all cells of a look together"
    )
    group.add_argument("--every-look", action="store_true", help="of all looks together")
    group.add_argument(
        "--heavy-tails",
        choices=["flag", "take-all"],
        default="flag",
        help="flag intervals of extreme values (default), or read all such rows once more",
    )
    group.add_argument(
        "--until", metavar="ERROR", help="stop when every interval is trusted and within, say, 1%%"
    )
    group.add_argument("--seconds", type=float, help="read no longer than this")
    group.add_argument("--fraction", help="read no larger a part than, say, 10%%")
    group.add_argument("--exact", action="store_true", help="after that limit, read all the same")


class _Named(argparse.Action):
    """Keeps the options of all kinds in the order in which they were given."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        kind = (option_string or "").lstrip("-").replace("-", "_")
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), (kind, values)])


def run(arguments: argparse.Namespace) -> int:
    if arguments.plot is not None:
        require_matplotlib()
        check_path(arguments.plot)
        inputs = [arguments.left, arguments.right]
        check_target(arguments.plot, "--plot", inputs=inputs, force=arguments.force)
    with (
        _started(arguments) as run,
        LiveTable(groups=arguments.groups, quiet=arguments.json) as table,
    ):
        try:
            for estimate in _estimates(run, arguments):
                table.look(estimate, str(run.outlook(arguments.until or 0.01)))
        finally:
            # After Ctrl-C, too: the last estimate stays on the screen and is written.
            if run.history:
                table.finish(run.history[-1])
    _report(run, arguments)
    return 0


def _report(run: AggregateRun, arguments: argparse.Namespace) -> None:
    if arguments.json:
        print(json.dumps(_summary(run)))
    elif run.complete and len(run.history) > 1:
        print(f"\n{run.score()}")
    if arguments.explain:
        print(run.explain(), file=sys.stderr)
    if arguments.plot is not None:
        run.plot(arguments.plot)


def _estimates(run: AggregateRun, arguments: argparse.Namespace) -> Iterator[Estimate]:
    limits = arguments.until, arguments.seconds, arguments.fraction
    if limits == (None, None, None):
        yield from run
        return
    yield from run.until(
        relative_error=arguments.until, seconds=arguments.seconds, fraction=arguments.fraction
    )
    if arguments.exact and not run.complete:
        yield run.exact()


@contextlib.contextmanager
def _started(arguments: argparse.Namespace) -> Iterator[AggregateRun]:
    settings: dict[str, Any] = {
        "on": [_columns(on) for on in arguments.on],
        "how": arguments.how,
        "group_by": arguments.group_by,
        "where": arguments.where,
        "confidence": arguments.confidence,
        "simultaneous": arguments.simultaneous,
        "every_look": arguments.every_look,
        "heavy_tails": arguments.heavy_tails,
        "memory": arguments.memory,
        "seed": arguments.seed,
        **_aggregates(arguments.aggregates),
    }
    if arguments.spark:
        # Imported only here, because it imports Spark.
        from watersmeet.cli.spark_tables import spark_tables

        with spark_tables(arguments.left, arguments.right) as (left, right):
            settings["storage"] = arguments.spill_dir
            with wm.aggregate(left, right, **settings) as run:
                yield run
        return
    with aggregate(
        arguments.left, arguments.right, spill_dir=arguments.spill_dir, **settings
    ) as run:
        yield run


def _columns(on: str) -> str | tuple[str, str]:
    left, equals, right = on.partition("=")
    return (left, right) if equals else on


def _aggregates(given: list[tuple[str, str]]) -> dict[str, Aggregate]:
    taken = set(inspect.signature(aggregate).parameters) | {"storage"}
    found: dict[str, Aggregate] = {}
    for kind, text in given:
        named = _NAMED.fullmatch(text)
        name, expression = named.groups() if named else (f"{kind}({text})", text)
        if kind == "count" and not named:
            name, expression = text, "*"
        if name in found or name in taken:
            raise InvalidArgument(
                f"--{kind} {text}: the name {name!r} is taken.", remedy="Give it another name."
            )
        found[name] = getattr(wm, kind)(expression)
    if not found:
        raise InvalidArgument(
            "There is no aggregate.", remedy="Add one, as in --count n or --sum 'total=price'."
        )
    return found


def _summary(run: AggregateRun) -> dict[str, Any]:
    """For machines: the answer, and the progress of every look."""
    latest = run.latest
    summary = {
        "exact": latest.exact,
        "confidence": latest.confidence,
        "rows": [
            {name: _plain(value) for name, value in row.items()}
            for row in latest.answer.take(in_order(latest)).to_pylist()
        ],
        "looks": [
            {
                "seconds": look.seconds,
                "fraction": look.fraction,
                "bytes_read": look.progress.bytes_read,
                "relative_error": _plain(look.relative_error),
                "trusted": look.trusted,
                "reasons": look.reasons,
            }
            for look in run.history
        ],
    }
    if run.complete:
        score = run.score()
        summary["score"] = {"shown": score.shown, "held": score.held}
    return summary


def _plain(value: Any) -> Any:
    """A value for JSON: None for infinity and NaN, text for decimals, dates and the like."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)
