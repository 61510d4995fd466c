"""Whether the cost of a row stays the same as inputs grow.

Keys are uniform over as many values as a side has rows, so results grow with the rows. SHJ holds
everything in memory; RPJ has memory for a tenth of the rows at every size.
"""

from __future__ import annotations

from benchmarks.cases import Case, Claim, Input, Places
from benchmarks.measured import Measured, measure_all
from benchmarks.report import Row, Section, times
from benchmarks.room import room_for

MILLIONS = (1, 2, 5, 10, 20, 50)  # rows of both sides together
SPILLING = MILLIONS[:-1]
SHARE = 0.1
# The growth that was asked for first, and to which size, and what is asked for now.
FIRST, NOW = ("20 M", 1.5), ("50 M", 1.3)


def cases(*, quick: bool) -> list[Case]:
    listed = []
    for millions in MILLIONS[:3] if quick else MILLIONS:
        rows = millions * 500_000
        given = Input(rows=rows, distinct=rows)
        listed += [
            Case(
                name=f"shj operator, {millions} M",
                engine="operator",
                input=given,
                algorithm="shj",
            ),
            Case(name=f"Arrow, {millions} M", engine="arrow", input=given),
        ]
        if millions in SPILLING:
            listed.append(
                Case(
                    name=f"rpj local.join, {millions} M",
                    engine="local",
                    input=given,
                    source="parquet",
                    algorithm="rpj",
                    memory=room_for(SHARE, given),
                    cores=2,
                )
            )
    return listed


def run(places: Places, *, quick: bool) -> Section:
    measured = measure_all(cases(quick=quick), places, repeats=1 if quick else 3)
    engines = ("shj operator", "rpj local.join", "Arrow")
    return Section(
        name="scaling",
        title="Cost per row as inputs grow",
        note="Nanoseconds per input row, by rows of both sides together. SHJ and Arrow in memory "
        "on one core, RPJ from Parquet on two cores with memory for a tenth of the rows.",
        rows=[_row(measured, engine) for engine in engines],
        claims=[
            *(_claim(measured, engine, *FIRST) for engine in engines[:2]),
            _claim(measured, engines[0], *NOW),
        ],
        measured=measured,
    )


def _nanoseconds(measured: Measured, engine: str) -> dict[str, float]:
    """Per size in ascending order."""
    mine = [name for name in measured.cases if name.startswith(engine + ",")]
    return {name.split(", ")[1]: 1e9 / measured.best(name).rows_per_second for name in mine}


def _growth(measured: Measured, engine: str, until: str | None = None) -> float:
    """From the smallest input to the most expensive one, of those up to a size: a dip at the end
    hides nothing."""
    found = _nanoseconds(measured, engine)
    sizes = list(found)
    costs = list(found.values())[: sizes.index(until) + 1 if until in sizes else None]
    return max(costs) / costs[0]


def _row(measured: Measured, engine: str) -> Row:
    names = [name for name in measured.cases if name.startswith(engine + ",")]
    found = _nanoseconds(measured, engine)
    sizes = list(dict.fromkeys(name.split(", ")[1] for name in measured.cases))
    return {
        "engine": engine,
        **{size: f"{found[size]:.0f} ns" if size in found else "-" for size in sizes},
        "growth": times(_growth(measured, engine)),
        "result": ", ".join(sorted({measured.verdict(name) for name in names})),
    }


def _claim(measured: Measured, engine: str, until: str, most: float) -> Claim:
    growth = _growth(measured, engine, until)
    names = [name for name in measured.cases if name.startswith(engine + ",")]
    sizes = [name.split(", ")[1] for name in names]
    last = until if until in sizes else sizes[-1]
    return Claim(
        claim=f"Cost per row from {sizes[0]} to {last} rows, {engine}",
        target=f"grows by less than {most}x, exact",
        measured=times(growth),
        holds=growth < most and all(measured.exact(name) for name in names),
    )
