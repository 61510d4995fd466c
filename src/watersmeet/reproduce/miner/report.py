"""Does the experiments and writes files with curves, claims, figures and a page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from watersmeet.reproduce.claim import Claim
from watersmeet.reproduce.diner.report import described as described_for_two
from watersmeet.reproduce.diner.settings import FRAGMENTS, MAX_OUTER, Parameters
from watersmeet.reproduce.miner.claims import claims
from watersmeet.reproduce.miner.figures import figures
from watersmeet.reproduce.miner.runs import run_all
from watersmeet.reproduce.miner.settings import KEYS, ROWS, Experiments
from watersmeet.reproduce.output import prepare, publish

PAPER_SHOWS = {
    "20": "The paper: a modest decrease as inputs are added; four inputs have 55% of the result "
    "online with 5% of memory and more than 80% with 20%. The grey lines are the most that any "
    "choice of rows can find in these data.",
    "21": "The paper: the input buffer stays near the 1,000 rows at which MINER hands over.",
    "22": "The paper: MINER far above MJoin; 60 times its results with four inputs and little "
    "memory.",
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
        title="MINER, run again: figures 20 and 22, Table 21",
        lead="Bornea, Vassalos, Kotidis and Deligiannakis, Adaptive Join Operators for Result Rate "
        "Optimization on Streaming Inputs (TKDE 2010), section 5.5: joins of two to four inputs. "
        "The operators of watersmeet join streams like the paper's in virtual time: the network, "
        "the disk and the processor are simulated, the joins are real.",
        parameters=described(parameters),
        command=command(parameters),
    )
    return found


def command(parameters: Parameters) -> str:
    return f"watersmeet reproduce miner --scale {parameters.scale:g} --seed {parameters.seed}"


def described(parameters: Parameters) -> dict[str, str]:
    """The page's table of parameters: first those that the paper gives, then those chosen here."""
    same = described_for_two(parameters)
    shared = ("block", "chosen: intervals", "chosen: disk", "chosen: processor", "seed")
    return {
        "rows of a relation": f"{parameters.sized(ROWS):,} of R2 and R3, {parameters.sized(KEYS):,}"
        " of R1 and R4. The paper gives 8.8 MB as 20% of four inputs and 10,000 different keys, "
        "which makes 100,000 and 10,000 rows of 200 bytes",
        "values": f"R2.a1, R2.a2, R3.a2, R3.a3: {parameters.sized(KEYS):,} values by Zipf's law "
        "with exponent 1, the smallest most frequent, independent of each other; R1.a1 and R4.a3: "
        "each value once, in random order",
        "delays": f"{FRAGMENTS} fragments of each relation, a stall is used after "
        f"{parameters.patience * 1e3:g} ms, MaxNewArr {parameters.max_new:,}, MaxOuterMem "
        f"{MAX_OUTER}, as for DINER; these blocks and one of each inner input are taken from the "
        "memory for rows",
        "stars": "the same data: R2 and R3 with their a2, R1 and R4 with their keys",
        "MINER": "as published: statistics begin anew with every flush, and the loop reads every "
        "combination of blocks, in the order in which they were written",
        "MINER here": "the default of this package: a region keeps nine tenths of its results per "
        "row after a flush, and the loop skips blocks whose values cannot meet; its reads are "
        "random accesses",
        "chosen: MJoin": f"{parameters.partitions} partitions; a full memory flushes the next of "
        "them from all inputs. The fullest one, which the paper picks, would find less",
        **{name: same[name] for name in shared},
    }
