"""`watersmeet <command>`: which commands there are, and how their errors reach a person."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from importlib import import_module
from types import ModuleType

from watersmeet import __version__
from watersmeet.errors import WatersmeetError

_TRACE = "WATERSMEET_TRACE"

# Each is a module beside this one. Only the one that is asked for is imported, since kernels
# take a moment to load.
_COMMANDS = {
    "join": "join two files or directories while reading them",
    "join-many": "join several files or directories at once while reading them",
    "enrich": "join a stream with a large table that changes slowly",
    "aggregate": "estimate an aggregate over a join, better and better, then exactly",
    "demo": "watch a join of two tables answer early, beside Spark's own",
    "reproduce": "run a paper's experiments again and check its claims",
}


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        parsed = _parser(arguments).parse_args(arguments)
        with _heeding_sigterm():
            status: int = _module(parsed.command).run(parsed)
    except WatersmeetError as error:
        print(f"watersmeet: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # Whoever read our output (`head`, say) has closed it. Python would write to it at exit
        # once more, and print a second error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print("\nwatersmeet: interrupted; spilled files are removed.", file=sys.stderr)
        return 130
    except _Terminated:
        print("watersmeet: terminated; spilled files are removed.", file=sys.stderr)
        return 143
    except Exception as error:
        if _TRACE in os.environ:
            raise
        first = str(error).strip().partition("\n")[0]
        print(
            f"watersmeet: unexpected {type(error).__name__}: {first} "
            f"(set {_TRACE}=1 to see where.)",
            file=sys.stderr,
        )
        return 1
    return status


class _Terminated(BaseException):
    """Raised on SIGTERM, so that half-written files are removed; Python would just end."""


def _terminate(number: int, frame: object) -> None:
    raise _Terminated


@contextlib.contextmanager
def _heeding_sigterm() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _module(command: str) -> ModuleType:
    return import_module(f"watersmeet.cli.{command.replace('-', '_')}")


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="watersmeet",
        description="Joins that answer while the data is still arriving, inside the memory they "
        "are given, and exact in the end.",
    )
    parser.add_argument("--version", action="version", version=f"watersmeet {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, title="commands")
    asked = next((word for word in arguments if word in _COMMANDS), None)
    for name, what in _COMMANDS.items():
        if name == asked:
            _module(name).add_parser(commands)
        else:
            commands.add_parser(name, help=what)
    return parser


if __name__ == "__main__":
    sys.exit(main())
