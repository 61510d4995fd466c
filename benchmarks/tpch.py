"""TPC-H's orders and lineitem joined on Spark, and what the Python workers hold with a small cap.

Four columns a side; every lineitem has one order. The generator writes rows in the order of their
keys; `shuffled` has the same rows in random order. Time is taken with ample memory; then the same
join runs in a session of its own with a cap of a tenth of its input, watched from outside.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.cases import MB, Claim, Places
from benchmarks.relations import Relations, expected, tpch, uniform
from benchmarks.report import Row, Section, megabytes, seconds, times
from benchmarks.spark_claims import early_claim, total_claim
from benchmarks.spark_measured import Run, SparkMeasured
from benchmarks.spark_outside import CORES, SparkProcess

_WARMING = 1_000_000
SPARK, WAVES, WHOLE, CAPPED = "Spark's own join", "ours, by waves", "ours, whole", "ours, capped"
PARTITIONS = 8
SPARK_FEW = f"{SPARK}, {PARTITIONS} partitions"
SPARKS = (SPARK, SPARK_FEW)
PEERS = {SPARK: "spark_table", SPARK_FEW: "spark_table", WAVES: "waves", WHOLE: "whole"}
SHARE = 0.1
# What the workers may hold beyond the cap, for each task at a time: allocators' slack, buffers of
# Arrow's readers.
ALLOWANCE = 64 * MB
# Rows of the join, which the specification's generator fixes.
RESULTS = {0.1: 600_572, 1: 6_001_215, 10: 59_986_052}


@dataclass(frozen=True, kw_only=True)
class Size:
    """One pair of tables; `memory` is what our operators may use where time is measured."""

    name: str
    scale: float
    shuffled: bool
    files: int
    memory: int
    rounds: int
    """Of which the first only warms up and checks, if there are more than one."""

    def case(self, peer: str) -> str:
        return f"{peer}, {self.name}"


QUICK = (
    Size(name="SF 0.1", scale=0.1, shuffled=False, files=10, memory=1024 * MB, rounds=2),
    Size(name="SF 0.1 shuffled", scale=0.1, shuffled=True, files=10, memory=1024 * MB, rounds=2),
)
FULL = (
    Size(name="SF 1", scale=1, shuffled=False, files=50, memory=1024 * MB, rounds=3),
    Size(name="SF 1 shuffled", scale=1, shuffled=True, files=50, memory=1024 * MB, rounds=3),
    # On the session that the others have warmed up: one round takes minutes.
    Size(name="SF 10", scale=10, shuffled=False, files=50, memory=8192 * MB, rounds=1),
)


def run(places: Places, *, quick: bool) -> Section:
    measured = SparkMeasured()
    sizes = QUICK if quick else FULL
    made: dict[Size, Relations] = {}
    with SparkProcess(places.scratch / "spark") as process:
        for size in sizes:
            folder = places.file(f"tpch-{size.name}")
            made[size] = tpch(folder, scale=size.scale, files=size.files, shuffled=size.shuffled)
            right = RESULTS[size.scale], expected(made[size])[1]
            measured.expected |= {size.case(peer): right for peer in (*PEERS, CAPPED)}
            _time(measured, size, made[size], process)
    # Not before that session, and the memory it took, have gone.
    caps = {size: int(SHARE * made[size].arrow_bytes) for size in sizes if not size.shuffled}
    for size, cap in caps.items():
        capped = _watch(made[size], places.scratch, cap=cap)
        measured.add(size.case(CAPPED), capped)
        _say(size.case(CAPPED), capped)
    return Section(
        name="tpch",
        title="TPC-H orders and lineitem on Spark",
        note="Four columns a side from Parquet to the noop sink, two tasks at a time, on a warm "
        "session. Files are in the order of keys unless shuffled. `capped` is by waves with memory "
        "for a tenth of the input's bytes in Arrow, in a session of its own; `peak` is what all "
        "Python workers together had to themselves above their idle state, seen from outside "
        "every 50 ms, and `anonymous` leaves out mapped files. They are idle after a join of "
        f"{_WARMING:,} rows a side in the same memory: what their allocators keep of that one is "
        "not counted.",
        rows=[
            _row(measured, size, peer, cap=caps.get(size))
            for size in sizes
            for peer in (*PEERS, CAPPED)
            if size.case(peer) in measured.timed
        ],
        claims=[claim for size in sizes for claim in _claims(measured, size, cap=caps.get(size))],
        measured=measured,
    )


def _time(measured: SparkMeasured, size: Size, relations: Relations, process: SparkProcess) -> None:
    for repetition in range(size.rounds):
        warming = repetition == 0 and size.rounds > 1
        for peer, function in PEERS.items():
            # Looking at Spark's result means to join once more; ours is still there.
            check = warming or (size.rounds == 1 and peer not in SPARKS)
            few = {"partitions": PARTITIONS} if peer == SPARK_FEW else None
            one = process.run(function, relations, memory=size.memory, check=check, settings=few)
            measured.add(size.case(peer), one, quoted=not warming)
            _say(f"{repetition} {size.case(peer)}", one)


def _watch(relations: Relations, scratch: Path, *, cap: int) -> Run:
    """A run by waves with so much memory, and the workers' peak."""
    # So many rows that tasks join them: smaller tables are joined by the driver, and the workers'
    # start would be a part of what is measured.
    few = uniform(scratch / "inputs" / f"few-{cap}", rows=_WARMING, files=2)
    with SparkProcess(scratch / "spark", look_every_s=0.05) as process:
        process.run("waves", few, memory=cap)
        process.start_from_here()
        one = process.run("waves", relations, memory=cap, check=True)
        return replace(
            one,
            peak_bytes=process.peak_bytes(),
            peak_anonymous_bytes=process.peak_anonymous_bytes(),
            notes={**one.notes, "workers": process.workers, "cap": cap},
        )


def _best(measured: SparkMeasured, size: Size) -> str:
    """The better of Spark's own two."""
    return measured.fastest([size.case(peer) for peer in SPARKS])


def _row(measured: SparkMeasured, size: Size, peer: str, *, cap: int | None) -> Row:
    name = size.case(peer)
    best, total = measured.best(name), measured.total(name)
    ours = peer not in SPARKS
    memory = cap if peer == CAPPED else size.memory
    return {
        "engine": name,
        "memory": megabytes(memory) if ours and memory else "-",
        "first rows": seconds(measured.soonest(name, "first_seconds")),
        "half": seconds(measured.soonest(name, "half_seconds")),
        "all rows": seconds(total),
        "to Spark": times(measured.ratio(total, size.case(SPARK))),
        "to best": times(measured.ratio(total, _best(measured, size))),
        "peak": "-" if best.peak_bytes is None else megabytes(best.peak_bytes),
        "anonymous": "-"
        if best.peak_anonymous_bytes is None
        else megabytes(best.peak_anonymous_bytes),
        "result": measured.verdict(name),
    }


def _claims(measured: SparkMeasured, size: Size, *, cap: int | None) -> list[Claim]:
    spark, by_waves = size.case(SPARK), size.case(WAVES)
    first, half = (
        measured.ratio(measured.soonest(by_waves, moment), spark)
        for moment in ("first_seconds", "half_seconds")
    )
    claims = [
        total_claim(measured, by_waves, spark, at_most=0.8),
        total_claim(measured, size.case(WHOLE), spark, at_most=0.8),
        early_claim(f"First rows of the waves on Spark, {size.name}", first, at_most=0.12),
        early_claim(f"Half of the rows of the waves on Spark, {size.name}", half, at_most=0.6),
    ]
    if size.scale == max(RESULTS):
        claims += _best_claims(measured, size)
    if cap is not None:
        claims.append(_memory_claim(measured, size, cap=cap))
    return claims


def _best_claims(measured: SparkMeasured, size: Size) -> list[Claim]:
    by_waves, best = size.case(WAVES), _best(measured, size)
    half = measured.ratio(measured.soonest(by_waves, "half_seconds"), by_waves)
    return [
        total_claim(
            measured,
            by_waves,
            best,
            at_most=0.6,
            claim=f"Total beside the better of Spark's own, {by_waves}",
            whose="",
        ),
        early_claim(f"Half of the rows, {by_waves}", half, at_most=0.5, of="their own total"),
    ]


def _memory_claim(measured: SparkMeasured, size: Size, *, cap: int) -> Claim:
    name = size.case(CAPPED)
    best = measured.best(name)
    over = None if best.peak_bytes is None else best.peak_bytes - cap
    return Claim(
        claim=f"Peak of the Python workers, {size.name}, cap {megabytes(cap)}",
        target=f"at most the cap + {megabytes(ALLOWANCE)} a task, exact",
        measured="-" if over is None else f"cap {over / MB:+.0f} MB",
        holds=over is not None and over <= CORES * ALLOWANCE and measured.exact([name]),
    )


def _say(name: str, one: Run) -> None:
    print(f"  {name}: {one.failure or seconds(one.seconds)}", file=sys.stderr, flush=True)
