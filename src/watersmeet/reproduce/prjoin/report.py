"""Does the experiments and writes files with curves, claims, counted I/O, figures and a page."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from watersmeet.reproduce.claim import Claim
from watersmeet.reproduce.output import prepare, publish
from watersmeet.reproduce.prjoin.claims import claims
from watersmeet.reproduce.prjoin.figures import figures
from watersmeet.reproduce.prjoin.relations import write_relations
from watersmeet.reproduce.prjoin.runs import Runs, run_all
from watersmeet.reproduce.prjoin.settings import (
    DISK_PARTITIONS,
    FUDGE,
    INPUT_TO_MEMORY,
    SSD_PARTITIONS,
    Parameters,
)
from watersmeet.reproduce.prjoin.streams import PARTITIONS, run_streams, stream_parameters

PAPER_SHOWS = {
    "2": "The paper: PR-Join's early results come at over ten times Ripple's rate, and it ends "
    "nearly with GRACE.",
    "table-2": "The paper: Hash Ripple 0.5c, SMS 0.6c, two-way DBO 1.2c, Ripple c to 2c, PR-Join "
    "at least c, 1.7c, 3.2c, 6.2c, 12.2c. The paper's SMS and DBO have no hash tables in memory, "
    "ours have: 0.5c and c.",
    "8": "The paper: the models match the measured runs very well. Here the I/O is counted, and "
    "each request is charged what the paper measured for it.",
    "9": "The paper: PR-Join ends 6.2 times as fast as Ripple and 44% after GRACE; its flat part "
    "is the stop constraint; report intervals are orders of magnitude shorter.",
    "10": "The paper: 64 KB and 1 MB do alike, 4 KB worse; smaller extents report more often; "
    "without the stop constraint the curve is nearly ideal.",
    "11": "The paper: gamma 2 ends sooner with fewer early results; gamma 0.5 is slower in both.",
    "12": "The paper: with remapping smooth and fast, without it in large steps.",
    "13": "The paper: as in Figure 10 (d).",
    "14": "The paper: a relative half-width of 0.001 is reached 3.4 times as fast.",
    "15": "The paper: PR-Join's output rate is significantly higher on reliable streams and very "
    "similar on unreliable ones.",
    "wall": "Not in the paper: the same runs as in Figure 9 by the clock of this machine, whose "
    "page cache holds these small files. Here the processor is what costs.",
}


def reproduce(
    parameters: Parameters, *, out: Path, jobs: int = 1, say: Callable[[str], None]
) -> list[Claim]:
    """Write curves.csv, claims.csv, io.csv, the figures and index.html into `out`."""
    prepare(out)
    # Below the output directory: the temporary directory of many systems is kept in memory.
    with tempfile.TemporaryDirectory(prefix="files-", dir=out) as scratch:
        exact = write_relations(parameters, Path(scratch))
        runs = run_all(parameters, directory=Path(scratch), jobs=jobs, say=say)
    streams = run_streams(parameters, jobs=jobs, say=say)
    drawn = figures(runs, streams, parameters)
    write_io(runs, out / "io.csv")
    found = claims(runs, streams, parameters=parameters, exact=exact)
    publish(
        out,
        figures=drawn,
        claims=found,
        paper_shows=PAPER_SHOWS,
        title="PR-Join, run again: figures 2 and 8 to 15, Table 2",
        lead="Chen, Gibbons and Nath, PR-Join: A Non-Blocking Join Achieving Higher Early Result "
        "Rate with Statistical Guarantees (SIGMOD 2010), section 6. The operators of watersmeet "
        "join files with a fortieth of them in memory and spill to disk; every block is counted "
        "and charged with the times of the paper's devices. Figure 15 is a simulation, as in the "
        "paper.",
        parameters=described(parameters),
        command=command(parameters),
    )
    return found


def write_io(runs: Runs, path: Path) -> None:
    """Write what the join of every case read and wrote, and its seconds on this machine."""
    header = "run,results,rows_in,rows_written,rows_read,runs_read,bytes_written,bytes_read,reports"
    lines = [header + ",wall_seconds"]
    for case, run in runs.items():
        ledger = run.ledger
        counted = [
            column.sum()
            for column in (
                ledger.input,
                ledger.written,
                ledger.read,
                ledger.runs_read,
                ledger.bytes_written,
                ledger.bytes_read,
                ledger.reports,
            )
        ]
        wall = f"{ledger.wall[-1]:.2f}"
        lines.append(",".join(map(str, [case.name, run.found, *counted, wall])))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def command(parameters: Parameters) -> str:
    return f"watersmeet reproduce pr-join --scale {parameters.scale:g} --seed {parameters.seed}"


def described(parameters: Parameters) -> dict[str, str]:
    """The page's table of parameters: first those that the paper gives, then those chosen here."""
    streams = stream_parameters(parameters)
    return {
        "records of a relation": f"{parameters.rows:,} of 100 bytes (the paper: 100 million); "
        f"seconds are for the paper's 10 GB, each record standing for {1e8 / parameters.rows:,.0f}",
        "memory": f"1/{INPUT_TO_MEMORY} of both relations with a fudge factor of {FUDGE}, as in "
        f"the paper: {parameters.memory_rows:,} records",
        "disk": "1 MB read 13.687 ms, written 13.757 ms, 25.515 ms with a random access; a random "
        "access is charged where the reading of a run begins",
        "SSD": "250 MB/s read (150 in 4 KB requests), 170 MB/s written; input disk 77 MB/s",
        "overlap": "Figure 8 adds up. Elsewhere the two devices work at the same time, and the "
        "input may run ahead by half of memory, which a spill has freed",
        "partitions": f"{DISK_PARTITIONS} for extents of 1 MB (half of memory / 1 MB, as in the "
        f"paper), {SSD_PARTITIONS} for 64 KB and 4 KB (the paper: 16 and 256 times as many as for "
        "1 MB; at this size a spill would be less than a record)",
        "results": "counted when their rectangle is complete, as in the paper",
        "skew": "partitions of Zipf sizes (exponent 1), keys with duplicates, 4 results a record; "
        "the paper gives GRACE and PR-Join without remapping more memory for it, here they keep to "
        "theirs and take a large partition in pieces",
        "Figure 14": f"{DISK_PARTITIONS} partitions, joined as the mean partition grows and "
        "not remapped: otherwise estimates from them are biased",
        "streams": f"{streams.rows:,} tuples (the paper: 2 million), pages of 85 and their access "
        "times shrunk alike; only I/O is charged; PR-Join with "
        f"{PARTITIONS} partitions, RPJ with 20",
        "seed": str(parameters.seed),
    }
