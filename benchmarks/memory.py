"""Whether a join stays inside the memory it was given, seen from another process.

Inputs several times the cap are made while the join reads them, so nothing but the join holds
rows. The peak is the kernel's high-water mark of resident memory above the idle process (package
imported, kernels loaded, a tiny join done).
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.cases import MB, Case, Claim, Input, Places
from benchmarks.measured import Measured, measure_all
from benchmarks.report import Row, Section, megabytes, seconds

ALLOWANCE = 64 * MB
ALGORITHMS = ("rpj", "xjoin", "hmj", "pmj")

# Batches of one to two megabytes where rows are wide, so that the generator stays small.
NARROW = Input(rows=0, distinct=0)
STRINGS = Input(rows=0, distinct=0, key="string", text_bytes=48)
WIDE = Input(rows=0, distinct=0, extra_ints=6, text_bytes=192, batch_rows=5_000)
VERY_WIDE = Input(rows=0, distinct=0, extra_ints=6, text_bytes=960, batch_rows=1_000)

# Cap in MB, kind of row, input as a multiple of the cap. The larger the cap the wider the row:
# what is measured is bytes, and a gigabyte of narrow rows would take most of the time.
SHAPES = (
    (32, "narrow", NARROW, 4.0),
    (32, "strings", STRINGS, 4.0),
    (32, "wide", WIDE, 6.0),
    (64, "narrow", NARROW, 3.0),
    (64, "strings", STRINGS, 4.0),
    (64, "wide", WIDE, 6.0),
    (256, "strings", STRINGS, 2.0),
    (256, "wide", WIDE, 4.0),
    (1024, "very wide", VERY_WIDE, 3.0),
)


def cases(*, quick: bool) -> list[Case]:
    listed = []
    for megabytes_, kind, shape, multiple in SHAPES[:3] if quick else SHAPES:
        cap = megabytes_ * MB
        rows = int(cap * multiple / 2 / shape.row_bytes)
        if quick:
            rows //= 2
        listed += [
            Case(
                name=f"{algorithm}, {megabytes_} MB, {kind}",
                engine="local",
                input=replace(shape, rows=rows, distinct=rows),
                source="generated",
                algorithm=algorithm,
                memory=cap,
                cores=2,
            )
            for algorithm in (ALGORITHMS[:2] if quick else ALGORITHMS)
        ]
    return listed


def run(places: Places, *, quick: bool) -> Section:
    measured = measure_all(cases(quick=quick), places, repeats=0, look_every_s=0.02)
    return Section(
        name="memory",
        title="Peak memory above the idle process",
        note="Measured from another process. `over` is the peak beyond the cap; 64 MB are allowed. "
        "`anonymous` leaves out pages of mapped files.",
        rows=[_row(measured, case) for case in measured.cases.values()],
        claims=_claims(measured),
        measured=measured,
    )


def _row(measured: Measured, case: Case) -> Row:
    outcome = measured.best(case.name)
    return {
        "case": case.name,
        "input": f"{megabytes(case.input.total_bytes)}, {2 * case.input.rows:,} rows",
        "peak": megabytes(outcome.peak_bytes),
        "anonymous": megabytes(outcome.peak_anonymous_bytes),
        "over": megabytes(_over(measured, case)),
        "time": seconds(outcome.seconds),
        "result": measured.verdict(case.name),
    }


def _over(measured: Measured, case: Case) -> int:
    assert case.memory is not None
    return measured.peak_bytes(case.name) - case.memory


def _claims(measured: Measured) -> list[Claim]:
    claims = []
    for cap in dict.fromkeys(case.memory for case in measured.cases.values()):
        same_cap = [case for case in measured.cases.values() if case.memory == cap]
        worst = max(same_cap, key=lambda case: _over(measured, case))
        claims.append(
            Claim(
                claim=f"Peak resident memory, cap {megabytes(cap or 0)}, {len(same_cap)} cases",
                target="at most the cap + 64 MB, exact",
                measured=f"cap {_over(measured, worst) / MB:+.0f} MB ({worst.name})",
                holds=_over(measured, worst) <= ALLOWANCE
                and all(measured.exact(case.name) for case in same_cap),
            )
        )
    return claims
