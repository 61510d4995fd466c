"""Runs the experiments and writes files with curves, claims, figures and a page."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from watersmeet.reproduce.claim import Claim
from watersmeet.reproduce.output import prepare, publish
from watersmeet.reproduce.ssbj.claims import claims
from watersmeet.reproduce.ssbj.figures import figures
from watersmeet.reproduce.ssbj.runs import MEASURED, WARM_UP, Runs, run_all
from watersmeet.reproduce.ssbj.settings import (
    BANDWIDTH,
    MASTER_BYTES,
    MESHJOIN,
    SEEK,
    SSBJ,
    STREAM_BYTES,
    Experiments,
    Parameters,
)

PAPER_SHOWS = {
    "4": "The paper: MESHJOIN needs about 7 times SSBJ's memory at all rates, and 7 to 5 times as "
    "R grows.",
    "5": "The paper: SSBJ is 7 times faster than MESHJOIN with 1% of R in memory and 8 times with "
    "10%; 7 to 5.7 times as R grows; the more skew the better; 3.4 to 7.4 times for TPC-H; better "
    "on real data; 39% to 54% of the rows go through the cache. Green is the default of this "
    "package. The last panel is of this machine alone, with the table in its page cache.",
    "6": "The paper: a switching factor of 1 is best; a disk buffer has a best size; calculated "
    "costs of a loop are close to measured ones.",
}


def reproduce(
    parameters: Parameters, *, out: Path, jobs: int = 1, say: Callable[[str], None]
) -> list[Claim]:
    """Write curves.csv, claims.csv, runs.csv, the figures and index.html into `out`."""
    prepare(out)
    experiments = Experiments(parameters)
    # Below the output directory: the temporary directory of many systems is kept in memory.
    with tempfile.TemporaryDirectory(prefix="masters-", dir=out) as scratch:
        runs = run_all(experiments, directory=Path(scratch), jobs=jobs, say=say)
    return write(experiments, runs, out=out)


def write(experiments: Experiments, runs: Runs, *, out: Path) -> list[Claim]:
    parameters = experiments.parameters
    found = claims(experiments, runs)
    write_runs(runs, out / "runs.csv")
    publish(
        out,
        figures=figures(experiments, runs),
        claims=found,
        paper_shows=PAPER_SHOWS,
        title="SSBJ, run again: figures 4 to 6",
        lead="Naeem, Weber and Lutteroth, A Memory-Optimal Many-To-Many Semi-Stream Join, section "
        "4. The operators of watersmeet join endless streams with master tables in real files. "
        "Time is that of the thread, and what a disk of the paper's time takes to read is added.",
        parameters=described(parameters),
        command=command(parameters),
    )
    return found


def write_runs(runs: Runs, path: Path) -> None:
    """What was counted in every run."""
    names = (
        "algorithm", "master_rows", "master_bytes", "limit", "rows", "hits", "results", "cycles",
        "steps", "bytes_read", "cpu", "memory", "waiting", "cache_bytes", "rate", "rate_here",
    )  # fmt: skip
    lines = ["data,skew,share,arrival_rate,factor,portion," + ",".join(names)]
    for run in runs.values():
        each = run.workload
        head = [each.data.kind, each.data.skew, each.memory, each.rate, each.factor, each.portion]
        values = [getattr(run, name) for name in names]
        lines.append(",".join("" if value is None else f"{value}" for value in [*head, *values]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def command(parameters: Parameters) -> str:
    return f"watersmeet reproduce ssbj --scale {parameters.scale:g} --seed {parameters.seed}"


def described(parameters: Parameters) -> dict[str, str]:
    """The page's table of parameters: first those that the paper gives, then those chosen here."""
    sizes = Experiments(parameters).sizes
    return {
        "rows": f"{MASTER_BYTES} bytes of the master table, {STREAM_BYTES} of the stream",
        "R": f"{sizes[0]:,} to {sizes[-1]:,} rows, a fifth of the paper's",
        "memory": "1% to 10% of R, with everything that the join holds; the paper counts rows, "
        "pointers and a fudge factor",
        "values": "master rows have values at random with repetition, stream rows by Zipf's law; "
        "chosen: as many values as R has rows",
        "TPC-H": "Customer and Orders as generated, all columns",
        "real data": "flights from New York in 2013 in their order, with the weather of their "
        "airport and hour, and (half-joined) with all flights of their plane; the paper's weather "
        "reports are not published any more",
        "chosen: disk": f"{BANDWIDTH / 1e6:g} MB/s; {SEEK * 1e3:g} ms before a read that is not "
        "where the last one ended; in figure 6b before every read",
        "chosen: warm-up": f"{WARM_UP[SSBJ]} cycles of SSBJ, then {MEASURED[SSBJ]} are measured; "
        f"{WARM_UP[MESHJOIN]} and {MEASURED[MESHJOIN]} of MESHJOIN",
        "chosen: figure 6a": "10% of memory instead of 1%, since R is smaller",
        "seed": f"{parameters.seed}",
    }
