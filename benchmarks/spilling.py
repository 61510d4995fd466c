"""What a join costs when its memory holds a tenth of the input.

2 M x 2 M rows from Parquet files, two int64 columns a side, spilling to a local disk. "A tenth"
has two meanings, and both are measured: a tenth of the rows fits in memory, as the papers count;
and the cap is a tenth of the input's bytes in Arrow, in which about a fortieth of the rows fits.
DuckDB gets the same limits.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.cases import Case, Claim, Input, Places
from benchmarks.measured import Measured, measure_all
from benchmarks.report import Row, Section, megabytes, million_per_second, seconds, times
from benchmarks.room import room_for

ROWS = 2_000_000
SHARE = 0.1
ALGORITHMS = ("rpj", "xjoin", "hmj", "pmj")
_MEANINGS = ("a tenth of the rows", "a tenth of the bytes")
_TWO = {"threads": 2}


def cases(*, quick: bool) -> list[Case]:
    rows = ROWS // 4 if quick else ROWS
    given = Input(rows=rows, distinct=rows)
    listed = []
    caps = (room_for(SHARE, given), int(SHARE * given.total_bytes))
    for meaning, cap in zip(_MEANINGS, caps, strict=True):
        listed += [
            Case(
                name=f"{algorithm}, {meaning}",
                engine="local",
                input=given,
                source="parquet",
                algorithm=algorithm,
                memory=cap,
                cores=2,
            )
            for algorithm in ALGORITHMS
        ]
        one = listed[-len(ALGORITHMS)]
        listed.append(replace(one, name=f"rpj in 2 threads, {meaning}", settings=_TWO))
        listed.append(replace(one, name=f"rpj on 1 core, {meaning}", cores=1))
        listed.append(
            Case(
                name=f"DuckDB, {meaning}",
                engine="duckdb",
                input=given,
                source="parquet",
                memory=cap,
                cores=2,
            )
        )
    return listed


def run(places: Places, *, quick: bool) -> Section:
    measured = measure_all(cases(quick=quick), places, repeats=1 if quick else 3)
    given = next(iter(measured.cases.values())).input
    return Section(
        name="spilling",
        title="Spilling, memory for a tenth of the input",
        note=f"{given.rows:,} rows a side from Parquet ({megabytes(given.total_bytes)} in Arrow), "
        "spilling to local disk, two cores. `to DuckDB` is the total beside DuckDB's in the same "
        "memory. Where memory has less than 24 MB for each of two threads, one joins.",
        rows=[_row(measured, case) for case in measured.cases.values()],
        claims=[
            *(_claim(measured, case) for case in _rpj(measured)),
            *(claim for meaning in _MEANINGS for claim in _claims_of_threads(measured, meaning)),
        ],
        measured=measured,
    )


def _row(measured: Measured, case: Case) -> Row:
    best = measured.best(case.name)
    failed = best.failure is not None
    peer = "DuckDB, " + case.name.split(", ")[1]
    return {
        "engine": case.name,
        "memory": megabytes(case.memory or 0),
        "first row": seconds(measured.first_seconds(case.name)),
        "all rows": "-" if failed else seconds(best.seconds),
        "input rows": "-" if failed else million_per_second(best.rows_per_second),
        "to DuckDB": times(measured.ratio(case.name, peer)),
        "result": measured.verdict(case.name),
    }


def _rpj(measured: Measured) -> list[Case]:
    return [
        case
        for case in measured.cases.values()
        if case.algorithm == "rpj" and not case.settings and case.cores == 2
    ]


def _claims_of_threads(measured: Measured, meaning: str) -> list[Claim]:
    two = f"rpj in 2 threads, {meaning}"
    faster = measured.ratio(f"rpj, {meaning}", two)
    second_core = measured.ratio(f"rpj on 1 core, {meaning}", two)
    claims = [
        Claim(
            claim=f"Two cores, in two threads, beside one core, {meaning}",
            target="at least 1.7x as fast, exact",
            measured=times(second_core),
            holds=second_core is not None and second_core >= 1.7 and measured.exact(two),
        ),
        Claim(
            claim=f"Two threads beside one, {meaning}",
            target="at least 1.7x as fast, exact",
            measured=times(faster),
            holds=faster is not None and faster >= 1.7 and measured.exact(two),
        ),
    ]
    to_duckdb = measured.ratio(two, f"DuckDB, {meaning}")
    if to_duckdb is not None:
        claims.append(
            Claim(
                claim=f"Two threads beside DuckDB, {meaning}",
                target="at most 2x its time",
                measured=times(to_duckdb),
                holds=to_duckdb <= 2,
            )
        )
    return claims


def _claim(measured: Measured, case: Case) -> Claim:
    best = measured.best(case.name)
    return Claim(
        claim=f"RPJ from Parquet on local disk, {case.name.split(', ')[1]} "
        f"({megabytes(case.memory or 0)})",
        target="at least 1 M rows/s, exact",
        measured=measured.verdict(case.name)
        if best.failure
        else million_per_second(best.rows_per_second),
        holds=best.rows_per_second >= 1e6 and measured.exact(case.name),
    )
