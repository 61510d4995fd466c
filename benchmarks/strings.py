"""What string keys cost beside int64 keys in the same join.

The same 1 M x 1 M join with keys of 11 or 12 bytes that share only their first three, in memory
(SHJ) and with memory for a tenth of the rows (RPJ).
"""

from __future__ import annotations

from benchmarks.cases import Case, Claim, Input, Places
from benchmarks.measured import Measured, measure_all
from benchmarks.report import Row, Section, million_per_second, seconds
from benchmarks.room import room_for

ROWS = 1_000_000
SHARE = 0.1
KEYS = ("int64", "string")


def cases(*, quick: bool) -> list[Case]:
    rows = ROWS // 10 if quick else ROWS
    listed = []
    for key in KEYS:
        given = Input(rows=rows, distinct=rows, key=key)
        cap = room_for(SHARE, given)
        listed += [
            Case(name=f"shj operator, {key}", engine="operator", input=given, algorithm="shj"),
            Case(
                name=f"rpj local.join, {key}",
                engine="local",
                input=given,
                source="parquet",
                algorithm="rpj",
                memory=cap,
                cores=2,
            ),
            Case(name=f"Arrow, {key}", engine="arrow", input=given),
            Case(name=f"DuckDB, {key}", engine="duckdb", input=given),
        ]
    return listed


def run(places: Places, *, quick: bool) -> Section:
    measured = measure_all(cases(quick=quick), places, repeats=1 if quick else 3)
    return Section(
        name="strings",
        title="String keys beside int64 keys",
        note="Keys of 11 or 12 bytes. SHJ, Arrow and DuckDB in memory on one core, RPJ from "
        "Parquet with memory for a tenth of the rows. The ratio is the string rate over the "
        "int64 rate of the same engine.",
        rows=[_row(measured, name.removesuffix(", int64")) for name in _int64_names(measured)],
        claims=[_claim(measured, engine) for engine in ("shj operator", "rpj local.join")],
        measured=measured,
    )


def _int64_names(measured: Measured) -> list[str]:
    return [name for name in measured.cases if name.endswith(", int64")]


def _row(measured: Measured, engine: str) -> Row:
    names = [f"{engine}, {key}" for key in KEYS]
    verdicts = {measured.verdict(name) for name in names}
    return {
        "engine": engine,
        "int64": seconds(measured.best(names[0]).seconds),
        "string": seconds(measured.best(names[1]).seconds),
        "int64 rows": million_per_second(measured.best(names[0]).rows_per_second),
        "string rows": million_per_second(measured.best(names[1]).rows_per_second),
        "string to int64 rate": f"{_rate(measured, engine):.2f}",
        "result": ", ".join(sorted(verdicts)),
    }


def _claim(measured: Measured, engine: str) -> Claim:
    rate = _rate(measured, engine)
    exact = all(measured.exact(f"{engine}, {key}") for key in KEYS)
    return Claim(
        claim=f"String keys, {engine}",
        target="at least a third of the int64 rate, exact",
        measured=f"{rate:.2f}",
        holds=rate >= 1 / 3 and exact,
    )


def _rate(measured: Measured, engine: str) -> float:
    by_key = [measured.best(f"{engine}, {key}").rows_per_second for key in KEYS]
    return by_key[1] / by_key[0]
