"""How PR-Join does beside Ripple and GRACE when the inputs are 40 times memory.

Rows of 100 bytes from Parquet files, as in the PR-Join paper; a fortieth of both relations fits in
memory, and the rest is spilled to a local disk. Early is until PR-Join has half of all results. The
page cache holds files of this size, so what is measured is mostly the processor's work.
"""

from __future__ import annotations

from benchmarks.cases import Case, Claim, Input, Outcome, Places
from benchmarks.measured import Measured, measure_all
from benchmarks.report import Row, Section, megabytes, percent, seconds, times
from benchmarks.room import room_for

ROWS = 2_000_000
SHARE = 1 / 40
ALGORITHMS = ("pr-join", "ripple", "grace", "hash-ripple", "sms", "dbo")


def cases(*, quick: bool) -> list[Case]:
    rows = ROWS // 8 if quick else ROWS
    given = Input(rows=rows, distinct=rows, text_bytes=80)
    return [
        Case(
            name=algorithm,
            engine="local",
            input=given,
            source="parquet",
            algorithm=algorithm,
            memory=room_for(SHARE, given),
            cores=2,
        )
        for algorithm in ALGORITHMS
    ]


def run(places: Places, *, quick: bool) -> Section:
    measured = measure_all(cases(quick=quick), places, repeats=1 if quick else 3)
    case = measured.cases["pr-join"]
    given = case.input
    return Section(
        name="rectangles",
        title="Rectangle joins, inputs of 40 times memory",
        note=f"{given.rows:,} rows of {given.row_bytes} bytes a side from Parquet "
        f"({megabytes(given.total_bytes)} in Arrow), {megabytes(case.memory or 0)} of memory, in "
        "which a fortieth of the rows fits; spilling to local disk, two cores. `early` is the "
        "share of all results that an algorithm has when PR-Join has half of them.",
        rows=[_row(measured, name) for name in measured.cases],
        claims=_claims(measured),
        measured=measured,
    )


def _row(measured: Measured, name: str) -> Row:
    best = measured.best(name)
    return {
        "algorithm": name,
        "first row": seconds(measured.first_seconds(name)),
        "early": percent(_early(measured, name)),
        "all rows": "-" if best.failure else seconds(best.seconds),
        "to GRACE": times(measured.ratio(name, "grace")),
        "to Ripple": times(measured.ratio(name, "ripple")),
        "result": measured.verdict(name),
    }


def _early(measured: Measured, name: str) -> float:
    """The share of all results that the quoted run had when PR-Join's quoted run had half."""
    ours, run = measured.best("pr-join"), measured.best(name)
    half = next((at for at, rows in _progress(ours) if 2 * rows >= ours.rows_out), 0.0)
    had = max((rows for at, rows in _progress(run) if at <= half), default=0)
    return had / run.rows_out if run.rows_out else 0.0


def _progress(run: Outcome) -> list[tuple[float, int]]:
    """Seconds, and how many results there were then."""
    told: list[tuple[float, int]] = run.notes.get("progress", [])
    return told


def _claims(measured: Measured) -> list[Claim]:
    ripple = _early(measured, "ripple")
    early = _early(measured, "pr-join") / ripple if ripple else None
    to_ripple, to_grace = (
        measured.ratio(*pair) for pair in (("ripple", "pr-join"), ("pr-join", "grace"))
    )
    exact = all(measured.exact(name) for name in measured.cases)
    return [
        Claim(
            claim="PR-Join's early result rate beside Ripple's, inputs of 40 times memory",
            target="at least 10x, exact",
            measured=times(early),
            holds=exact and early is not None and early >= 10,
        ),
        Claim(
            claim="Ripple's time beside PR-Join's, inputs of 40 times memory",
            target="at least 5x, exact",
            measured=times(to_ripple),
            holds=exact and to_ripple is not None and to_ripple >= 5,
        ),
        Claim(
            claim="PR-Join's time beside GRACE's, inputs of 40 times memory",
            target="at most 1.2x, exact",
            measured=times(to_grace),
            holds=exact and to_grace is not None and to_grace <= 1.2,
        ),
    ]
