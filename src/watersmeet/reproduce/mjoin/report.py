"""Runs the experiments and writes files with curves, claims, figures and a page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from watersmeet.reproduce.claim import Claim
from watersmeet.reproduce.mjoin.claims import claims
from watersmeet.reproduce.mjoin.figures import figures
from watersmeet.reproduce.mjoin.runs import Curves, run_all
from watersmeet.reproduce.mjoin.settings import BATCH, Experiments, Parameters
from watersmeet.reproduce.mjoin.streams import ACCESSES, DISPLACED, LIVE
from watersmeet.reproduce.output import prepare, publish

PAPER_SHOWS = {
    "8": "The paper: priority-driven stream scheduling with value-oriented tuple scheduling always "
    "outperforms random stream scheduling with sequential tuple scheduling.",
    "9": "The paper: until 7,500 results MJoin costs somewhat more time than XJoin, because "
    "purging takes longer than XJoin's extra probing; after that it costs less, and far less when "
    "XJoin's memory overflows.",
    "10": "The paper: memory overhead is significantly reduced as more data streams in.",
    "11": "The paper: immediate purging takes more time than batch purging, because of the cost of "
    "scanning the state.",
}


def reproduce(
    parameters: Parameters, *, out: Path, jobs: int = 1, say: Callable[[str], None]
) -> list[Claim]:
    """Write curves.csv, claims.csv, figure-8..11.svg and .png, and index.html into `out`."""
    prepare(out)
    experiments = Experiments(parameters)
    return write(experiments, run_all(experiments, jobs=jobs, say=say), out=out)


def write(experiments: Experiments, curves: Curves, *, out: Path) -> list[Claim]:
    parameters = experiments.parameters
    found = claims(experiments, curves)
    publish(
        out,
        figures=figures(experiments, curves),
        claims=found,
        paper_shows=PAPER_SHOWS,
        title="MJoin, run again: figures 8 to 11",
        lead="Ding, Rundensteiner and Heineman, MJoin: A Metadata-Aware Stream Join Operator, "
        "section 6. The progressive join of watersmeet joins news and accesses, with promises "
        "(MJoin) and without (XJoin). Time is that of the thread, and averages are over "
        f"{parameters.runs} runs.",
        parameters=described(experiments),
        command=command(parameters),
    )
    return found


def command(parameters: Parameters) -> str:
    return f"watersmeet reproduce mjoin --scale {parameters.scale:g} --seed {parameters.seed}"


def described(experiments: Experiments) -> dict[str, str]:
    """The page's table of parameters: first those that the paper gives, then those chosen here."""
    sizes = {w.grain.words: w.accesses for w in experiments.timed}
    return {
        "live items": f"{LIVE}, as in the paper; every access is to any of them",
        "purging": f"after each punctuation, or after {BATCH}, as in the paper",
        "runs": f"{experiments.parameters.runs}, each with streams of its own",
        "chosen: accesses": f"{ACCESSES} between two punctuations, as in the paper's example",
        "chosen: random arrival": f"an item comes at most {DISPLACED} places early or late",
        "chosen: quotas": "10 news and 100 accesses, or 1,000 and 10,000",
        "chosen: accesses of a run": ", ".join(f"{n:,} ({words})" for words, n in sizes.items()),
        "seed": str(experiments.parameters.seed),
    }
