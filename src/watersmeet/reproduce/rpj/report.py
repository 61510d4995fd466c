"""Does the experiments and writes files with curves, claims, figures and a page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from watersmeet.reproduce.claim import Claim
from watersmeet.reproduce.curve import write_curves
from watersmeet.reproduce.output import prepare, publish
from watersmeet.reproduce.rpj.claims import claims
from watersmeet.reproduce.rpj.figures import figures
from watersmeet.reproduce.rpj.runs import run_all
from watersmeet.reproduce.rpj.settings import Parameters

PAPER_SHOWS = {
    "8": "The paper: RPJ produces the largest number of results during transmission; clean-up "
    "(panel a, after the dashed line) is similar for all. Without stalls only the mm-stage runs, "
    "so this compares flushing policies alone.",
    "9": "The paper: RPJ has the lowest cost per result at all times. The surge of each line is "
    "the first memory overflow: before it there is no I/O.",
    "10": "The paper: RPJ's gain is greater than on reliable networks. Before clean-up RPJ has "
    "reported most of the results, the others only about 20%.",
    "11": "The paper: RPJ, which mixes md- and dd-tasks, reports most; RPJ-dd is faster than "
    "RPJ-md.",
    "12": "The paper: RPJ-dd surges soon after the start and later falls below RPJ-md; RPJ has "
    "the smallest cost.",
}


def reproduce(
    parameters: Parameters, *, out: Path, jobs: int = 1, say: Callable[[str], None]
) -> list[Claim]:
    """Write curves.csv, claims.csv, figure-8..12.svg and .png, and index.html into `out`."""
    prepare(out)
    runs = run_all(parameters, jobs=jobs, say=say)
    drawn = figures(runs)
    write_curves((curve for _, curves in drawn for curve in curves), out / "curves.csv")
    found = claims(runs)
    publish(
        out,
        figures=[figure for figure, _ in drawn],
        claims=found,
        paper_shows=PAPER_SHOWS,
        title="RPJ, run again: figures 8 to 12",
        lead="Tao, Yiu, Papadias, Hadjieleftheriou and Mamoulis, RPJ: Producing Fast Join Results "
        "on Streams through Rate-based Optimization (SIGMOD 2005), section 6. The operators of "
        "watersmeet join the paper's streams in virtual time: the network, the disk and the "
        "processor are simulated, the joins are real and complete.",
        parameters=described(parameters),
        command=command(parameters),
        curves=False,
    )
    return found


def command(parameters: Parameters) -> str:
    return f"watersmeet reproduce rpj --scale {parameters.scale:g} --seed {parameters.seed}"


def described(parameters: Parameters) -> dict[str, str]:
    """The page's table of parameters: first those that the paper gives, then those chosen here."""
    disk, processor = parameters.full_disk, parameters.processor
    return {
        "rows of both relations": f"{parameters.rows:,} (the paper: 2,000,000)",
        "memory": f"{parameters.memory_rows:,} rows (the paper: 1000 pages, about 100,000 rows)",
        "partitions and keys": f"{parameters.partitions} partitions of "
        f"{parameters.keys_per_partition} keys, as in the paper",
        "page": f"{disk.page_rows} rows of 10 bytes in 1024 bytes, as in the paper",
        "networks": "reliable: a row every 1 ms; unreliable: Zipf delays of 1 to 30 ms, exponent 1",
        "patience before a stall is used": f"{parameters.patience * 1e3:g} ms, as in the paper",
        "a reactive task": "runs to its end (the paper's Figure 3); arrivals queue meanwhile",
        "chosen: nflush of RPJ": f"{parameters.flush_share:.0%} of memory; XJoin flushes one "
        "partition and HMJ one pair",
        "chosen: lambda": f"{parameters.decay:g} per second",
        "chosen: merge fan-in": f"{parameters.fan_in} runs of each relation",
        "chosen: disk": f"random access {disk.random * 1e3:g} ms, sequential page "
        f"{disk.sequential * 1e3:g} ms",
        "chosen: processor": f"{processor.arrival * 1e6:g} µs per arrival, "
        f"{processor.candidate * 1e6:g} µs per candidate pair, {processor.result * 1e6:g} µs per "
        f"result, {processor.spilled_row * 1e6:g} µs per row spilled or read back",
        "seed": str(parameters.seed),
    }
