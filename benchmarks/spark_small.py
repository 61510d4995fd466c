"""How much longer than Spark's own join does ours of small tables take, in any session?

1,000 to 100,000 rows a side: from Parquet files, from rows that the program has given to Spark, and
from ranges that Spark makes up. In a session of `wm.session` and in one of the user's own, each
warm: peers take turns, and the best of several runs is quoted.
"""

from __future__ import annotations

import sys

from benchmarks.cases import MB, Claim, Places
from benchmarks.relations import Relations, expected, uniform
from benchmarks.report import Row, Section, seconds
from benchmarks.spark_measured import SparkMeasured
from benchmarks.spark_outside import SparkProcess

SIZES = (1_000, 10_000, 100_000)
MEMORY = 256 * MB
PLANS = {"parquet": "Parquet files", "given": "rows of the program", "range": "a range"}
SESSIONS = {"ours": "wm.session()", "own": "one's own"}
SPARK, WHOLE, WAVES = "Spark's own", "whole", "waves"
PEERS = {SPARK: "spark_plan", WHOLE: "whole_of_plan", WAVES: "waves_of_plan"}
_WARMING, _QUOTED = 3, 8


def run(places: Places, *, quick: bool) -> Section:
    sizes = SIZES[:2] if quick else SIZES
    tables = {n: uniform(places.file(f"small-{n}"), rows=n, files=2) for n in sizes}
    cases = [(plan, n, session) for plan in PLANS for n in sizes for session in SESSIONS]
    measured = SparkMeasured()
    with (
        SparkProcess(places.scratch / "spark") as ours,
        SparkProcess(places.scratch / "own", plain=True) as own,
    ):
        sessions = {"ours": ours, "own": own}
        for plan, n, session in cases:
            right = expected(tables[n])
            for peer in PEERS:
                measured.expected[_name(plan, n, session, peer)] = right
            for repetition in range(-(1 if quick else _WARMING), 1 if quick else _QUOTED):
                _round(measured, sessions[session], tables[n], (plan, n, session), repetition)
            told = [seconds(measured.total(_name(plan, n, session, peer))) for peer in PEERS]
            print(f"  {plan} {n} {session}: {' '.join(told)}", file=sys.stderr, flush=True)
    return Section(
        name="spark-small",
        title="Small tables on Spark",
        note="Every key once a side, results to the noop sink, two tasks at a time, on warm "
        "sessions; best of several runs. `later` is ours, whole, less Spark's own.",
        rows=[_row(measured, *case) for case in cases],
        claims=_claims(measured, cases),
        measured=measured,
    )


Case = tuple[str, int, str]


def _name(plan: str, rows: int, session: str, peer: str) -> str:
    return f"{plan} {rows} {session}: {peer}"


def _round(
    measured: SparkMeasured,
    process: SparkProcess,
    relations: Relations,
    case: Case,
    repetition: int,
) -> None:
    """All peers in turn. Those before repetition 0 warm up: their results are checked; a range's by
    its count."""
    plan, rows, _ = case
    for peer, function in PEERS.items():
        check = repetition < 0 and plan != "range"
        settings = {"plan": plan, "rows": rows}
        one = process.run(function, relations, memory=MEMORY, check=check, settings=settings)
        measured.add(_name(*case, peer), one, quoted=repetition >= 0)


def _row(measured: SparkMeasured, plan: str, rows: int, session: str) -> Row:
    spark, whole, waves = (_name(plan, rows, session, peer) for peer in PEERS)
    late = _later(measured.total(whole), measured.total(spark))
    return {
        "tables": PLANS[plan],
        "rows a side": f"{rows:,}",
        "session": SESSIONS[session],
        "Spark's own": seconds(measured.total(spark)),
        "ours, whole": seconds(measured.total(whole)),
        "ours, first rows": seconds(measured.soonest(waves, "first_seconds")),
        "later": "-" if late is None else f"{late:+.3f} s",
        "result": measured.verdict(whole),
    }


def _later(ours: float | None, spark: float | None) -> float | None:
    return None if ours is None or spark is None else ours - spark


def _claims(measured: SparkMeasured, cases: list[Case]) -> list[Claim]:
    late: list[float | None] = []
    first: list[float | None] = []
    for case in cases:
        spark, whole, waves = (_name(*case, peer) for peer in PEERS)
        late += [_later(measured.total(each), measured.total(spark)) for each in (whole, waves)]
        first.append(_later(measured.soonest(waves, "first_seconds"), measured.total(spark)))
    return [
        _claim(
            "All rows of small joins, whole and by waves",
            late,
            "within 0.25 s of Spark's own",
            0.25,
        ),
        _claim("First rows of small joins", first, "not later than all of Spark's own", 0.0),
    ]


def _claim(claim: str, found: list[float | None], target: str, most: float) -> Claim:
    known = [each for each in found if each is not None]
    worst = max(known, default=float("inf"))
    held = sum(each <= most for each in known)
    return Claim(
        claim=claim,
        target=target,
        measured=f"{held} of {len(found)} cases; at most {worst:+.3f} s",
        holds=len(known) == len(found) and worst <= most,
    )
