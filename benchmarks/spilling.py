"""What a join costs when its memory holds a tenth of the input.

2 M x 2 M rows from Parquet files, two int64 columns a side, spilling to a local disk. The cap is
a tenth of the input's bytes in Arrow. DuckDB gets the same limit, and where it needs more, the
next one that it can work with.
"""

from __future__ import annotations

from benchmarks.cases import Case, Claim, Input, Places
from benchmarks.measured import Measured, measure_all
from benchmarks.report import Row, Section, megabytes, million_per_second, seconds, times

ROWS = 2_000_000
SHARE = 0.1
ALGORITHMS = ("rpj", "xjoin", "hmj", "pmj")
# Multiples of our cap at which DuckDB is tried as well.
DUCKDB_MULTIPLES = (1, 4, 16)


def cases(*, quick: bool) -> list[Case]:
    rows = ROWS // 10 if quick else ROWS
    given = Input(rows=rows, distinct=rows)
    cap = int(given.total_bytes * SHARE)
    ours = [
        Case(
            name=f"{algorithm}, {megabytes(cap)}",
            engine="local",
            input=given,
            source="parquet",
            algorithm=algorithm,
            memory=cap,
            cores=2,
        )
        for algorithm in ALGORITHMS
    ]
    peers = [
        Case(
            name=f"DuckDB, {megabytes(cap * multiple)}",
            engine="duckdb",
            input=given,
            source="parquet",
            memory=cap * multiple,
            cores=2,
        )
        for multiple in DUCKDB_MULTIPLES
    ]
    return ours + peers


def run(places: Places, *, quick: bool) -> Section:
    measured = measure_all(cases(quick=quick), places, repeats=1 if quick else 3)
    given = next(iter(measured.cases.values())).input
    return Section(
        name="spilling",
        title="Spilling, memory for a tenth of the input",
        note=f"{given.rows:,} rows a side from Parquet ({megabytes(given.total_bytes)} in Arrow), "
        "spilling to local disk, two cores. Memory is the peak above idle, seen from outside; it "
        "includes the result, which the process keeps until the clock has stopped.",
        rows=[_row(measured, case) for case in measured.cases.values()],
        claims=_claims(measured),
        measured=measured,
    )


def _row(measured: Measured, case: Case) -> Row:
    best = measured.best(case.name)
    failed = best.failure is not None
    rpj = next(iter(measured.cases))
    return {
        "engine": case.name,
        "first row": seconds(measured.first_seconds(case.name)),
        "all rows": "-" if failed else seconds(best.seconds),
        "input rows": "-" if failed else million_per_second(best.rows_per_second),
        "to RPJ": times(measured.ratio(case.name, rpj)),
        "memory": megabytes(measured.peak_bytes(case.name)),
        "result": measured.verdict(case.name),
    }


def _claims(measured: Measured) -> list[Claim]:
    rpj = next(iter(measured.cases))
    best = measured.best(rpj)
    return [
        Claim(
            claim="RPJ with memory for a tenth of the input, end to end on local disk",
            target="at least 1 M rows/s, exact",
            measured=f"{million_per_second(best.rows_per_second)}, {measured.verdict(rpj)}",
            holds=best.rows_per_second >= 1e6 and measured.exact(rpj),
        )
    ]
