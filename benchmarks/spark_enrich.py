"""What `wm.enrich` gives beside Spark's own join of a stream with a table.

A stream whose keys come by Zipf's law with exponent 1, a file in every micro-batch, meets a master
table of rows of 120 bytes, to the noop sink; ours has memory for a tenth of the table. Quoted is
the second half of the micro-batches: the table has been laid down and the cache is filled.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from benchmarks.cases import MB, Claim, Places
from benchmarks.relations import expected, skewed
from benchmarks.report import Row, Section, megabytes, seconds, times
from benchmarks.spark_measured import Run, SparkMeasured
from benchmarks.spark_outside import SparkProcess

BATCH_ROWS, BATCHES = 200_000, 20
MASTER_ROWS, COLUMNS = 10_000_000, 15
MEMORY_SHARE = 10
TARGET = 10
_WORDS = 100
HEAP = "14g"

SHUFFLED, BROADCAST, OURS = "Spark, shuffled", "Spark, broadcast", "ours"
PEERS = {SHUFFLED: "spark_static", BROADCAST: "spark_broadcast", OURS: "our_enrich"}


def run(places: Places, *, quick: bool) -> Section:
    less = 50 if quick else 1
    batches = 6 if quick else BATCHES
    tiny = skewed(places.file("enrich-tiny"), rows=2_000, files=2, master_rows=2_000, columns=3)
    master_rows, batch_rows = MASTER_ROWS // less, BATCH_ROWS // less
    full = skewed(
        places.file("enrich"),
        rows=batches * batch_rows,
        files=batches,
        master_rows=master_rows,
        columns=COLUMNS,
    )
    memory = max(full.right.arrow_bytes // MEMORY_SHARE, 4 * MB)
    # Spark's expression for the checksum of many columns would take longer than the join.
    narrow = replace(full, right=replace(full.right, columns=full.right.columns[:3]))
    measured = SparkMeasured(expected=dict.fromkeys(PEERS, expected(narrow)))
    with SparkProcess(places.scratch / "spark", look_every_s=0.1) as process:
        for peer in (PEERS[SHUFFLED], PEERS[OURS]):
            name = f"{peer}, warming up"
            measured.expected[name] = expected(tiny)
            measured.add(name, process.run(peer, tiny, memory=memory, check=True), quoted=False)
        process.start_from_here()
        # One round of ours is added up, with few columns. Spark's own rows are counted.
        _add(
            measured,
            OURS,
            process.run(PEERS[OURS], narrow, memory=memory, check=True),
            quoted=False,
        )
        _add(measured, SHUFFLED, process.run(PEERS[SHUFFLED], full, memory=memory))
        process.forget_peak()
        one = process.run(PEERS[OURS], full, memory=memory)
        one.notes["workers_bytes"] = process.peak_bytes()
        _add(measured, OURS, one)
    # The usual heap, a quarter of the machine, does not hold the table: Java ends there.
    with SparkProcess(places.scratch / "broadcast", warm=False, heap=HEAP) as process:
        _add(measured, BROADCAST, process.run(PEERS[BROADCAST], full, memory=memory))
    return Section(
        name="spark-enrich",
        title="A stream and a master table on Spark",
        note=f"{batches} micro-batches of {batch_rows:,} rows, Zipf 1, and a master of "
        f"{master_rows:,} rows, {megabytes(full.right.arrow_bytes)} in Arrow; ours with "
        f"{megabytes(memory)}. `rows` and `a batch` are those of the second half of the batches. "
        "Spark reads the master for every batch; broadcast, it would hold all of it in every "
        f"executor, here in a process of its own with a heap of {HEAP}. `workers hold` counts all "
        "processes of Python: those that Spark starts for the source of ticks, some 280 MB, too.",
        rows=[_row(measured, name) for name in PEERS],
        claims=[_claim(measured)],
        measured=measured,
    )


def _add(measured: SparkMeasured, name: str, one: Run, *, quoted: bool = True) -> None:
    measured.add(name, one, quoted=quoted)
    print(f"  {name}: {one.failure or seconds(one.seconds)}", file=sys.stderr, flush=True)


def _steady(one: Run) -> tuple[float, float]:
    """Rows a second and seconds a batch, in the second half of the batches with rows. The last
    may bring words to our instances, which Spark counts as rows."""
    pairs = zip(one.notes["batch_rows"], one.notes["batch_ms"], strict=True)
    came = [(rows, ms) for rows, ms in pairs if rows > _WORDS]
    later = came[len(came) // 2 :]
    ms = sum(each for _, each in later)
    return 1000 * sum(rows for rows, _ in later) / ms, ms / len(later) / 1000


def _rate(measured: SparkMeasured, name: str) -> float | None:
    best = measured.best(name)
    return None if best.failure else _steady(best)[0]


def _row(measured: SparkMeasured, name: str) -> Row:
    best, spark = measured.best(name), _rate(measured, SHUFFLED)
    rate, batch = (None, None) if best.failure else _steady(best)
    served, held = best.notes.get("served_by_cache"), best.notes.get("workers_bytes")
    stream = sum(best.notes.get("batch_rows", []))
    return {
        "engine": name,
        "rows": "-" if rate is None else f"{rate:,.0f}/s",
        "a batch": seconds(batch),
        "to Spark": times(rate / spark if rate and spark else None),
        "served by the cache": "-" if served is None else f"{served / stream:.0%}",
        "laid down in": seconds(best.notes.get("laid_down_s")),
        "workers hold": "-" if held is None else megabytes(held),
        "result": measured.verdict(name),
    }


def _claim(measured: SparkMeasured) -> Claim:
    ours, spark = _rate(measured, OURS), _rate(measured, SHUFFLED)
    ratio = ours / spark if ours and spark else None
    return Claim(
        claim="Stream rows a second that meet a master table, steady state, Zipf 1",
        target=f"at least {TARGET}x Spark's stream-static join, exact",
        measured=times(ratio),
        holds=ratio is not None and ratio >= TARGET and measured.exact([OURS]),
    )
