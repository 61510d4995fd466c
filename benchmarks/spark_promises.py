"""What a join of streams on keys and times costs beside Spark's own, when both forget by watermark.

Events of two streams that come about in the order of their times, equal keys, times that are at
most ten minutes apart, watermarks on both sides: the state is bounded by the band and the delay.

    python benchmarks/run.py --only spark-promises
"""

from __future__ import annotations

import sys
from typing import Any

from benchmarks.cases import MB, Claim, Places
from benchmarks.relations import Relations, expected_close, passing
from benchmarks.report import Row, Section, megabytes, seconds, times
from benchmarks.spark_measured import SparkMeasured
from benchmarks.spark_outside import SparkProcess

ROWS, BATCHES, FEW = 5_000_000, 50, 10
WIDTH_S, DELAY_S, LATE_S = 600, 60, 59
SPAN_S = 36_000
"""From the first event to the last."""
MEMORY = 1024 * MB
TARGET = 15

ROCKSDB, IN_MEMORY, OURS = "Spark, state in RocksDB", "Spark, state in memory", "ours"
_SETTINGS = {"within_s": WIDTH_S, "delay_s": DELAY_S}
# The same rows in fewer micro-batches: what each costs whatever its rows counts for less.
_LARGER = f", {FEW} micro-batches"
IN_MEMORY_LARGER, OURS_LARGER = IN_MEMORY + _LARGER, OURS + _LARGER
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    ROCKSDB: ("spark_watermarks", _SETTINGS | {"provider": "RocksDB"}),
    IN_MEMORY: ("spark_watermarks", _SETTINGS | {"provider": "memory"}),
    OURS: ("our_watermarks", _SETTINGS),
    IN_MEMORY_LARGER: ("spark_watermarks", _SETTINGS | {"provider": "memory"}),
    OURS_LARGER: ("our_watermarks", _SETTINGS),
}
_ALL_OURS = (OURS, OURS_LARGER)


def run(places: Places, *, quick: bool) -> Section:
    rows, batches = (ROWS // 20, BATCHES // 5) if quick else (ROWS, BATCHES)
    measured = SparkMeasured()
    tiny = _events(places, "tiny", rows=2_000, files=2)
    many = _events(places, "events", rows=rows, files=batches)
    few = _events(places, "fewer", rows=rows, files=FEW)
    of_tiny, of_many, of_few = (expected_close(each, width=WIDTH_S) for each in (tiny, many, few))
    with SparkProcess(places.scratch / "spark") as process:
        for name, (peer, settings) in CASES.items():
            warming = f"{name}, warming up"
            measured.expected[warming] = of_tiny
            one = process.run(peer, tiny, memory=MEMORY, check=True, settings=settings)
            measured.add(warming, one, quoted=False)
        for repetition in range(2 if quick else 3):
            for name, (peer, settings) in CASES.items():
                # One round of ours is added up, which takes time, and not quoted. Spark's takes so
                # long that it runs once, and its rows are counted only.
                checking = repetition == 0
                if name not in _ALL_OURS and repetition != 1:
                    continue
                full, right = (few, of_few) if name.endswith(_LARGER) else (many, of_many)
                measured.expected[name] = right
                one = process.run(peer, full, memory=MEMORY, check=checking, settings=settings)
                measured.add(name, one, quoted=not checking)
                print(
                    f"  {repetition} {name}: {one.failure or seconds(one.seconds)}",
                    file=sys.stderr,
                    flush=True,
                )
    return Section(
        name="spark-promises",
        title="Streams with watermarks on Spark",
        note=f"{rows:,} rows a side in {batches} micro-batches, and in {FEW}, equal keys and times "
        f"within {WIDTH_S // 60} minutes, over {SPAN_S // 3600} hours; rows come up to {LATE_S} s "
        "late, which both watermarks allow. Two tasks at a time, noop sink; Spark's state in a "
        "partition for each task. Spark runs once, ours best of two. Rows and bytes of state are "
        "the most after a micro-batch: of Spark in the memory it reports, of ours in files.",
        rows=[_row(measured, name) for name in CASES],
        claims=_claims(measured),
        measured=measured,
    )


def _events(places: Places, name: str, *, rows: int, files: int) -> Relations:
    # About one partner a row.
    keys = max((2 * WIDTH_S + 1) * rows // SPAN_S, 1)
    folder = places.file(name)
    return passing(folder, rows=rows, files=files, keys=keys, span=SPAN_S, late=LATE_S)


def _row(measured: SparkMeasured, name: str) -> Row:
    best = measured.best(name)
    beside = OURS_LARGER if name.endswith(_LARGER) else OURS
    ours, theirs = measured.total(beside), measured.total(name)
    return {
        "engine": name,
        "all rows": seconds(measured.total(name)),
        "input rows": "-" if best.failure else f"{best.rows_per_second:,.0f}/s",
        "ours to it": "-" if ours is None or theirs is None else times(theirs / ours),
        "rows in state": f"{best.notes.get('state_rows', 0):,}",
        "state": megabytes(best.notes.get("state_bytes", 0)),
        "dropped": f"{best.notes.get('dropped', 0):,}",
        "result": measured.verdict(name),
    }


def _claims(measured: SparkMeasured) -> list[Claim]:
    ours = measured.best(OURS)
    peers = [measured.best(name) for name in (ROCKSDB, IN_MEMORY)]
    done = [each for each in peers if each.failure is None]
    whole = bool(done) and ours.failure is None
    ratio = min(each.seconds for each in done) / ours.seconds if whole else None
    rows = min(each.notes["state_rows"] for each in done) if whole else 0
    size = min(each.notes["state_bytes"] for each in done) if whole else 0
    held, kept = ours.notes.get("state_bytes", 0), ours.notes.get("state_rows", 0)
    larger = measured.ratio(measured.total(IN_MEMORY_LARGER), OURS_LARGER)
    return [
        Claim(
            claim=f"Input rows a second with watermarks, times within {WIDTH_S // 60} minutes",
            target=f"at least {TARGET}x the faster of Spark's two, exact",
            measured=times(ratio),
            holds=ratio is not None and ratio >= TARGET and measured.exact([OURS]),
        ),
        Claim(
            claim=f"The same in {FEW} micro-batches",
            target=f"at least {TARGET}x Spark's with its state in memory, exact",
            measured=times(larger),
            holds=larger is not None and larger >= TARGET and measured.exact([OURS_LARGER]),
        ),
        Claim(
            claim="State of streams with watermarks, the most after a micro-batch",
            target="no more rows and bytes than the smaller of Spark's two",
            measured=f"{kept:,} rows, {megabytes(held)}, Spark {rows:,} rows, {megabytes(size)}",
            holds=whole and kept <= rows and held <= size,
        ),
    ]
