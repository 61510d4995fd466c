"""`watersmeet reproduce`: a paper's experiments, run again on this machine."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from watersmeet.reproduce.claim import Claim

    # `argparse` has no public name for what `add_subparsers` returns.
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

SEEDS = {"rpj": 2005, "pr-join": 2010, "ssbj": 2018, "diner": 2010, "miner": 2010, "mjoin": 2003}
"""The years of the papers: any number would do."""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "reproduce",
        help="run a paper's experiments again: curves, claims, figures, one page",
        description="Run a paper's experiments again and write curves.csv, claims.csv, a plot "
        "per figure (SVG and PNG) and index.html. rpj, diner and miner run in virtual time; "
        "pr-join and ssbj read real files and count what they read; mjoin is timed.",
    )
    parser.add_argument(
        "paper",
        choices=list(SEEDS),
        help="rpj: figures 8 to 12 of SIGMOD 2005; pr-join: figures 2 and 8 to 15 of SIGMOD 2010; "
        "ssbj: figures 4 to 6 of the semi-stream balanced join; "
        "diner: figures 7 to 19 of TKDE 2010; miner: figures 20 to 22 of the same paper; "
        "mjoin: figures 8 to 11 of the metadata-aware join (DEBS 2003)",
    )
    parser.add_argument(
        "--scale",
        type=float,
        default=1.0,
        metavar="S",
        help="1 is 2 million rows for rpj and 100,000 rows a relation for diner and miner, as in "
        "the papers, 1 million rows a relation for pr-join, a hundredth of the paper's, and "
        "master tables of 4 to 20 million rows for ssbj, a fifth of the paper's, and 8,000 to "
        "1 million accesses for mjoin (default: 1)",
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
        metavar="N",
        help="the same seed gives the same curves (default: the paper's year)",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="runs at the same time, each on a core of its own (default: all cores)",
    )


def run(args: argparse.Namespace) -> int:
    out = args.out if args.out is not None else Path("reproduction") / args.paper
    seed = SEEDS[args.paper] if args.seed is None else args.seed
    began = time.perf_counter()
    found = _reproduce(args.paper, args.scale, seed, out=out, jobs=max(args.jobs, 1))
    held = sum(claim.holds for claim in found)
    print(
        f"{held} of {len(found)} claims hold; {out / 'index.html'} shows them "
        f"({time.perf_counter() - began:.0f} s)"
    )
    return 0


def _reproduce(paper: str, scale: float, seed: int, *, out: Path, jobs: int) -> list[Claim]:
    # The operators' kernels take a moment to load, which `--help` should not.
    from watersmeet.reproduce.diner import report as diner_report
    from watersmeet.reproduce.diner.settings import Parameters as DinerParameters
    from watersmeet.reproduce.miner import report as miner_report
    from watersmeet.reproduce.mjoin import report as mjoin_report
    from watersmeet.reproduce.mjoin.settings import Parameters as MjoinParameters
    from watersmeet.reproduce.prjoin import report as prjoin_report
    from watersmeet.reproduce.prjoin.settings import Parameters as PrJoinParameters
    from watersmeet.reproduce.rpj import report as rpj_report
    from watersmeet.reproduce.rpj.settings import Parameters as RpjParameters
    from watersmeet.reproduce.ssbj import report as ssbj_report
    from watersmeet.reproduce.ssbj.settings import Parameters as SsbjParameters

    def say(line: str) -> None:
        print(line, flush=True)

    if paper == "rpj":
        return rpj_report.reproduce(
            RpjParameters(scale=scale, seed=seed), out=out, jobs=jobs, say=say
        )
    if paper in ("diner", "miner"):
        reproduce = diner_report.reproduce if paper == "diner" else miner_report.reproduce
        return reproduce(DinerParameters(scale=scale, seed=seed), out=out, jobs=jobs, say=say)
    if paper == "ssbj":
        return ssbj_report.reproduce(
            SsbjParameters(scale=scale, seed=seed), out=out, jobs=jobs, say=say
        )
    if paper == "mjoin":
        return mjoin_report.reproduce(
            # A look is not worth ten runs, which the paper's averages are over.
            MjoinParameters(scale=scale, seed=seed, runs=10 if scale >= 1 else 2),
            out=out,
            jobs=jobs,
            say=say,
        )
    return prjoin_report.reproduce(
        PrJoinParameters(scale=scale, seed=seed), out=out, jobs=jobs, say=say
    )
