"""How fast the in-memory join is beside engines that wait, and one that does not.

1 M x 1 M rows, int64 keys uniform in 1..1 M, one payload column a side, batches of 10,000.
DataFusion's symmetric join reads CSV files, so one of our rows reads the same files; Arrow and
DuckDB get tables in memory, as our other rows do.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.cases import MB, Case, Claim, Input, Places
from benchmarks.measured import Measured, measure_all
from benchmarks.report import Row, Section, million_per_second, seconds, times

ROWS = 1_000_000
LARGER = 2
"""Times as many rows a side, for two threads beside DuckDB's two."""
CAP = 20 * MB


def cases(*, quick: bool) -> list[Case]:
    rows = ROWS // 10 if quick else ROWS
    given = Input(rows=rows, distinct=rows)
    one_core = [
        Case(name="shj operator, 1 core", engine="operator", input=given, algorithm="shj"),
        Case(name="shj local.join, 1 core", engine="local", input=given, algorithm="shj"),
        Case(
            name="shj local.join from CSV, 1 core",
            engine="local",
            input=given,
            algorithm="shj",
            source="csv",
        ),
        Case(name="DataFusion from CSV, 1 core", engine="datafusion", input=given, source="csv"),
        Case(name="Arrow, 1 core", engine="arrow", input=given),
        Case(name="DuckDB, 1 core", engine="duckdb", input=given),
    ]
    # The operator is one thread by design, and gains nothing from a second core.
    two_cores = [
        replace(case, cores=2, name=case.name.replace("1 core", "2 cores"))
        for case in one_core
        if case.engine != "operator"
    ]
    two_cores += [
        replace(case, name=f"{case.name}, 2 threads", settings={"threads": 2})
        for case in two_cores
        if case.engine == "local"
    ]
    more = replace(given, rows=LARGER * rows, distinct=LARGER * rows)
    # On one core, too, for what a second core brings.
    two_cores += [
        replace(case, input=more, source=source, name=f"{case.name}, {words}, {LARGER}x the rows")
        for case in [*two_cores, one_core[1]]
        if case.engine in ("local", "duckdb") and case.source == "memory"
        for source, words in (("memory", "batches"), ("parquet", "Parquet"))
    ]
    only_reading = [
        Case(name="reading the CSV only, ours, 1 core", engine="read", input=given, source="csv"),
        Case(
            name="reading the CSV only, DataFusion, 1 core",
            engine="datafusion-read",
            input=given,
            source="csv",
        ),
    ]
    # A quick input is a tenth, and so is its cap.
    cap = CAP // 10 if quick else CAP
    capped = [
        Case(
            name="rpj local.join from CSV, capped",
            engine="local",
            input=given,
            algorithm="rpj",
            source="csv",
            memory=cap,
            cores=2,
        ),
        Case(
            name="DataFusion from CSV, capped",
            engine="datafusion",
            input=given,
            source="csv",
            memory=cap,
            cores=2,
        ),
        Case(
            name="DuckDB from CSV, capped",
            engine="duckdb",
            input=given,
            source="csv",
            memory=cap,
            cores=2,
        ),
    ]
    return one_core + two_cores + only_reading + capped


def run(places: Places, *, quick: bool) -> Section:
    measured = measure_all(cases(quick=quick), places, repeats=2 if quick else 5)
    return Section(
        name="symmetric",
        title="Symmetric join in memory, 1 M x 1 M",
        note=_note(quick=quick),
        rows=[_row(measured, case) for case in measured.cases.values()],
        claims=_claims(measured),
        measured=measured,
    )


def _note(*, quick: bool) -> str:
    size = "100,000 rows a side (quick)" if quick else "1 M rows a side"
    return (
        f"{size}, int64 keys, one payload column, batches of 10,000. Best of the repetitions. "
        "`to DataFusion` is the total beside DataFusion's on as many cores. `capped` is a memory "
        f"limit of {2 if quick else 20} MB. `{LARGER}x the rows` are not in CSV files."
    )


def _row(measured: Measured, case: Case) -> Row:
    best = measured.best(case.name)
    reads_only = case.engine.endswith("read")
    peer = _peer(case)
    is_larger = "the rows" in case.name
    return {
        "engine": case.name,
        "first row": "-" if reads_only else seconds(measured.first_seconds(case.name)),
        "all rows": seconds(best.seconds) if best.failure is None else "-",
        "median": seconds(measured.median_seconds(case.name)) if best.failure is None else "-",
        "input rows": million_per_second(best.rows_per_second) if best.failure is None else "-",
        "to DataFusion": "-" if is_larger else times(measured.ratio(case.name, peer)),
        "result": "not a join" if reads_only else measured.verdict(case.name),
    }


def _peer(case: Case) -> str:
    if case.memory is not None:
        return "DataFusion from CSV, capped"
    return "DataFusion from CSV, " + ("1 core" if case.cores == 1 else "2 cores")


def _claims(measured: Measured) -> list[Claim]:
    operator = measured.best("shj operator, 1 core")
    claims = [
        Claim(
            claim="SHJ in memory, one core",
            target="at least 4 M rows/s, exact",
            measured=million_per_second(operator.rows_per_second),
            holds=operator.rows_per_second >= 4e6 and measured.exact("shj operator, 1 core"),
        )
    ]
    for cores in ("1 core", "2 cores"):
        ours, peer = f"shj local.join from CSV, {cores}", f"DataFusion from CSV, {cores}"
        ratio = measured.ratio(ours, peer)
        our_first, peer_first = measured.first_seconds(ours), measured.first_seconds(peer)
        claims.append(
            Claim(
                claim=f"SHJ total from the same files, {cores}",
                target="at most 1.5x DataFusion, exact",
                measured=times(ratio),
                holds=ratio is not None and ratio <= 1.5 and measured.exact(ours),
            )
        )
        claims.append(
            Claim(
                claim=f"SHJ first row from the same files, {cores}",
                target="no later than DataFusion",
                measured=f"{seconds(our_first)} against {seconds(peer_first)}",
                holds=our_first is not None and peer_first is not None and our_first <= peer_first,
            )
        )
    claims += _claims_of_threads(measured)
    capped = "rpj local.join from CSV, capped"
    claims.append(
        Claim(
            claim="In 20 MB (quick: 2 MB), where DataFusion fails",
            target="the exact result",
            measured=f"{measured.verdict(capped)}; DataFusion "
            + measured.verdict("DataFusion from CSV, capped"),
            holds=measured.exact(capped),
        )
    )
    return claims


def _claims_of_threads(measured: Measured) -> list[Claim]:
    claims = []
    for words in ("", *(f", {kind}, {LARGER}x the rows" for kind in ("batches", "Parquet"))):
        one, two = f"shj local.join, 2 cores{words}", f"shj local.join, 2 cores, 2 threads{words}"
        peer, one_core = f"DuckDB, 2 cores{words}", f"shj local.join, 1 core{words}"
        faster, to_duckdb = measured.ratio(one, two), measured.ratio(two, peer)
        second_core = measured.ratio(one_core, two)
        claims += [
            Claim(
                claim=f"Two cores, in two threads, beside one core, in memory{words}",
                target="at least 1.7x as fast, exact",
                measured=times(second_core),
                holds=second_core is not None and second_core >= 1.7 and measured.exact(two),
            ),
            Claim(
                claim=f"Two threads beside one, in memory{words}",
                target="at least 1.7x as fast, exact",
                measured=times(faster),
                holds=faster is not None and faster >= 1.7 and measured.exact(two),
            ),
            Claim(
                claim=f"Two threads beside DuckDB's two, in memory{words}",
                target="at most 1.5x its time",
                measured=times(to_duckdb),
                holds=to_duckdb is not None and to_duckdb <= 1.5,
            ),
        ]
    return claims
