"""`watersmeet reproduce`: a paper's experiments, run again on this machine."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # `argparse` has no public name for what `add_subparsers` returns.
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

DEFAULT_SEED = 2005


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "reproduce",
        help="run a paper's experiments again: curves, claims, figures, one page",
        description="Run a paper's experiments again in virtual time and write curves.csv, "
        "claims.csv, a plot per figure (SVG and PNG) and index.html.",
    )
    parser.add_argument("paper", choices=["rpj"], help="rpj: figures 8 to 12 of SIGMOD 2005")
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        metavar="S",
        help="share of the paper's rows and memory; 1 is 2 million rows (default: 1)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="where to write (default: reproduction/<paper>)",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=DEFAULT_SEED,
        metavar="N",
        help=f"the same seed gives the same curves (default: {DEFAULT_SEED})",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="runs at the same time, each on a core of its own (default: all cores)",
    )


def run(args: argparse.Namespace) -> int:
    # The operators' kernels take a moment to load, which `--help` should not.
    from watersmeet.reproduce.rpj.report import reproduce
    from watersmeet.reproduce.rpj.settings import Parameters

    out = args.out if args.out is not None else Path("reproduction") / args.paper
    began = time.perf_counter()
    found = reproduce(
        Parameters(scale=args.scale, seed=args.seed),
        out=out,
        jobs=max(args.jobs, 1),
        say=lambda line: print(line, flush=True),
    )
    held = sum(claim.holds for claim in found)
    print(
        f"{held} of {len(found)} claims hold; {out / 'index.html'} shows them "
        f"({time.perf_counter() - began:.0f} s)"
    )
    return 0
