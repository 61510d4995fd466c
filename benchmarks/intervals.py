"""Values in intervals, and intervals that overlap, on one core, beside DuckDB.

Lengths are spread over four decades: short intervals and long ones are as frequent. Alone and
beside an equality with 1,000 keys; with memory for all rows, and for a tenth of them. Each engine
runs in a process of its own, pinned to one core, warmed up on a small input. All must give the same
rows.

    python benchmarks/run.py --only intervals
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.bands import Found, Join, Measured, compared, pinned, timed
from benchmarks.cases import Claim, Places
from benchmarks.report import Section, times

ROWS = 200_000
KEYS = 1_000
PARTNERS = 10
DECADES = 4
# Of lengths from 1 to ten to the power of DECADES, as many of each decade.
MEAN_LENGTH = round((10**DECADES - 1) / (DECADES * log(10)))


@dataclass(frozen=True)
class Question:
    """What is joined: intervals of `rows` rows a side, or values of the left with those."""

    name: str
    rows: int = ROWS
    overlaps: bool = False
    keys: bool = False
    share: float | None = None
    """Which share of the rows fits memory; None for all."""

    def side(self, number: int) -> pa.Table:
        """Values, intervals and keys in random order, and the number of each row."""
        random = np.random.default_rng(number)
        # Spread so that a row meets about so many others: of all, or of those of its key.
        wide = (2 if self.overlaps else 1) * MEAN_LENGTH
        spread = wide * self.rows // (PARTNERS * (KEYS if self.keys else 1))
        start = random.integers(0, spread, self.rows)
        length = (10 ** random.uniform(0, DECADES, self.rows)).astype(np.int64)
        columns = {"start": start, "end": start + length, "n": np.arange(self.rows)}
        if self.keys:
            columns["k"] = random.integers(0, KEYS, self.rows)
        return pa.table(columns)


QUESTIONS = (
    Question("value in interval"),
    Question("value in interval, a tenth in memory", share=0.1),
    Question("1,000 keys and value in interval", keys=True),
    Question("overlap", overlaps=True),
    Question("overlap, a tenth in memory", overlaps=True, share=0.1),
    Question("1,000 keys and overlap", overlaps=True, keys=True),
)


# ---- in the process that is measured -------------------------------------------------------------


def _watersmeet(question: Question) -> Join:
    import watersmeet as wm

    near = wm.between("start", "start", "end")
    if question.overlaps:
        near = wm.overlaps(("start", "end"), ("start", "end"))
    on: Any = ["k", near] if question.keys else near
    # A row takes its columns, a flag for each, its stamp and its place in the index.
    each = (4 if question.keys else 3) * 9 + 9 + 14
    memory = 2**31
    if question.share is not None:
        # No join works in less than a megabyte.
        memory = max(int(2 * question.rows * question.share * each * 4 / 3), 2**20)

    def join(left: pa.Table, right: pa.Table) -> pa.Table:
        with wm.local.join(left, right, on, memory=memory) as run:
            return pa.Table.from_batches([batch.select(["n", "n_right"]) for batch in run])

    return join


def _duckdb(question: Question) -> Join:
    import duckdb

    connection = duckdb.connect(config={"threads": 1})
    equal = "l.k = r.k AND " if question.keys else ""
    near = "l.start >= r.start AND l.start <= r.end"
    if question.overlaps:
        near = "l.start <= r.end AND r.start <= l.end"
    text = f"SELECT l.n, r.n AS n_right FROM l JOIN r ON {equal}{near}"

    def join(left: pa.Table, right: pa.Table) -> pa.Table:
        connection.register("l", left)
        connection.register("r", right)
        return connection.execute(text).to_arrow_table()

    return join


def _measured(engine: str, plain: dict[str, Any]) -> Found:
    question = Question(**plain)
    return timed(_duckdb(question) if engine == "DuckDB" else _watersmeet(question), question)


# ---- in the process that measures ----------------------------------------------------------------


def run(places: Places, *, quick: bool) -> Section:
    rows = ROWS // 10 if quick else ROWS
    peers = [(each, ["diner", "DuckDB"] if each.share is None else ["diner"]) for each in QUESTIONS]
    measured = Measured("intervals", rows, peers, module="benchmarks.intervals")
    return Section(
        name="intervals",
        title="Intervals",
        note=f"{rows:,} rows a side in random order from memory, lengths over {DECADES} decades, "
        f"about {PARTNERS} partners a row, one core, best of three. *A tenth in memory*: the cap "
        "holds a tenth of the rows. Results are two row numbers.",
        rows=[
            compared(measured, name, engine)
            for name, engines in measured.found.items()
            for engine in engines
        ],
        claims=[
            _claim(measured, each.name)
            for each in QUESTIONS
            if "DuckDB" in measured.found[each.name]
        ],
        measured=measured,
    )


def _claim(measured: Measured, name: str) -> Claim:
    """Whatever it is: how fast we are beside DuckDB is told, and not promised."""
    ours, theirs = (measured.found[name][engine] for engine in ("diner", "DuckDB"))
    done = ours.failure is None and theirs.failure is None and ours.seconds > 0
    return Claim(
        claim=f"DINER beside DuckDB, one core: {name}",
        target="the same rows",
        measured=f"{times(theirs.seconds / ours.seconds)} as fast" if done else "failed",
        holds=done and (ours.rows, ours.checksum) == (theirs.rows, theirs.checksum),
    )


if __name__ == "__main__":
    pinned(_measured)
