"""Joins on values that are close, on one core, beside other engines.

A narrow band, in which a row has about one partner, alone and beside an equality with 1,000 keys;
with memory for all rows, and for a tenth of them. Each engine runs in a process of its own, pinned
to one core, warmed up on a small input. All must give the same rows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa

from benchmarks.cases import Claim, Places
from benchmarks.report import Row, Section, million_per_second, seconds, times

ROOT = Path(__file__).resolve().parent.parent
ROWS = 1_000_000
KEYS = 1_000
WIDTH = 5
DEADLINE_S = 300.0


@dataclass(frozen=True)
class Question:
    """What is joined: with equal keys or not, on two columns of `rows` rows."""

    name: str
    rows: int
    keys: bool = False
    band: bool = True
    share: float | None = None
    """Which share of the rows fits memory; None for all."""

    def side(self, number: int) -> pa.Table:
        """Values and keys in random order, and the number of each row."""
        random = np.random.default_rng(number)
        # Spread so that a row meets about one other: in all rows, or in those of its key.
        spread = (2 * WIDTH + 1) * self.rows // (KEYS if self.keys else 1)
        values = random.integers(0, spread if self.band else self.rows, self.rows)
        columns = {"t": values, "n": np.arange(self.rows)}
        if self.keys:
            columns["k"] = random.integers(0, KEYS, self.rows)
        return pa.table(columns)


Join = Callable[[pa.Table, pa.Table], pa.Table]
"""From two sides to the row numbers of all pairs, as columns n and n_right."""


class Asked(Protocol):
    """A question of this benchmark or of another one: a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def name(self) -> str: ...

    @property
    def rows(self) -> int: ...

    def side(self, number: int) -> pa.Table: ...


@dataclass(frozen=True)
class Found:
    seconds: float
    rows: int
    checksum: int
    failure: str | None = None


QUESTIONS = (
    Question("band", ROWS),
    Question("band, a tenth in memory", ROWS, share=0.1),
    Question("1,000 keys and band", ROWS, keys=True),
    Question("1,000 keys and band, a tenth in memory", ROWS, keys=True, share=0.1),
    Question("equality", ROWS, band=False),
    Question("equality, a tenth in memory", ROWS, band=False, share=0.1),
)
ENGINES = ("diner", "diner-plain", "rpj", "DuckDB", "Polars")


def asked(engine: str, question: Question) -> bool:
    """Whether an engine is measured on a question."""
    if engine == "rpj":
        return not question.band
    if engine == "diner-plain":
        return question.share is not None
    return engine == "diner" or (question.band and question.share is None)


# ---- in the process that is measured -------------------------------------------------------------


def _watersmeet(algorithm: str, question: Question) -> Join:
    import watersmeet as wm

    near = [wm.within("t", WIDTH)] if question.band else ["t"]
    on = [*(["k"] if question.keys else []), *near]
    # A row takes its columns, a flag for each, its stamp and its place in the index.
    each = 3 * 9 + 9 + 14 if question.keys else 2 * 9 + 9 + 14
    memory = 2**31
    if question.share is not None:
        memory = int(2 * question.rows * question.share * each * 4 / 3)

    def join(left: pa.Table, right: pa.Table) -> pa.Table:
        numbers = ["n", "n_right"]
        with wm.local.join(left, right, on, algorithm=algorithm, memory=memory) as run:
            return pa.Table.from_batches([batch.select(numbers) for batch in run])

    return join


def _duckdb(question: Question) -> Join:
    import duckdb

    connection = duckdb.connect(config={"threads": 1})
    equal = "l.k = r.k AND " if question.keys else ""
    text = (
        f"SELECT l.n, r.n AS n_right FROM l JOIN r "
        f"ON {equal}l.t BETWEEN r.t - {WIDTH} AND r.t + {WIDTH}"
    )

    def join(left: pa.Table, right: pa.Table) -> pa.Table:
        connection.register("l", left)
        connection.register("r", right)
        return connection.execute(text).to_arrow_table()

    return join


def _polars(question: Question) -> Join:
    """Polars is not among the packages of a set-up: `pip install polars` to have its rows."""
    pl: Any = import_module("polars")

    def join(left: pa.Table, right: pa.Table) -> pa.Table:
        one, other = pl.from_arrow(left).lazy(), pl.from_arrow(right).lazy()
        other = other.select(pl.all().name.suffix("_right"))
        near = [
            pl.col("t") >= pl.col("t_right") - WIDTH,
            pl.col("t") <= pl.col("t_right") + WIDTH,
        ]
        same = [pl.col("k") == pl.col("k_right")] if question.keys else []
        return one.join_where(other, *same, *near).select("n", "n_right").collect().to_arrow()

    return join


def _measured(engine: str, question: Question) -> Found:
    made = {"DuckDB": _duckdb, "Polars": _polars}
    join = made[engine](question) if engine in made else _watersmeet(engine, question)
    return timed(join, question)


def timed(join: Join, question: Asked) -> Found:
    """The best of three, after a small one; with a checksum of the two row numbers of all pairs."""
    small = replace(question, rows=20_000)
    join(small.side(1), small.side(2))
    left, right = question.side(1), question.side(2)
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        table = join(left, right)
        best = min(best, time.perf_counter() - began)
    pairs = table["n"].to_numpy().astype(np.uint64) * np.uint64(2**32)
    pairs += table["n_right"].to_numpy().astype(np.uint64)
    mixed = (pairs * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)
    return Found(best, len(table), int(mixed.sum(dtype=np.uint64)))


def pinned(measure: Callable[[str, dict[str, Any]], Found]) -> None:
    """Measure one engine on one question, as the arguments of this process say, on one core."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(json.dumps(asdict(measure(sys.argv[1], json.loads(sys.argv[2])))))


# ---- in the process that measures ----------------------------------------------------------------


class Measured:
    """What every engine gave for every question it was asked; ours is `diner`."""

    def __init__(
        self, name: str, rows: int, peers: Sequence[tuple[Asked, Sequence[str]]], *, module: str
    ) -> None:
        self.name = name
        self.rows = rows
        self.found: dict[str, dict[str, Found]] = {}
        for question, engines in peers:
            smaller = replace(question, rows=rows)
            self.found[question.name] = {
                engine: _run(module, engine, smaller) for engine in engines
            }

    def broken(self) -> list[str]:
        wrong = []
        for name, engines in self.found.items():
            right = engines["diner"]
            if right.failure is not None:
                wrong.append(f"{self.name}: diner failed at {name}: {right.failure}")
            wrong += [
                f"{self.name}: {engine} and diner differ at {name}"
                for engine, each in engines.items()
                if each.failure is None
                and (each.rows, each.checksum) != (right.rows, right.checksum)
            ]
        return wrong

    def plain(self) -> dict[str, Any]:
        return {
            name: {engine: asdict(each) for engine, each in engines.items()}
            for name, engines in self.found.items()
        }


def _run(module: str, engine: str, question: Asked) -> Found:
    command = [sys.executable, "-m", module, engine, json.dumps(asdict(question))]
    search = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": search, "POLARS_MAX_THREADS": "1"}
    try:
        ran = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Found(DEADLINE_S, 0, 0, f"not done after {DEADLINE_S:.0f} s")
    if ran.returncode:
        return Found(0, 0, 0, (ran.stderr.strip().splitlines() or ["no message"])[-1])
    return Found(**json.loads(ran.stdout.splitlines()[-1]))


def run(places: Places, *, quick: bool) -> Section:
    peers = [(each, [name for name in ENGINES if asked(name, each)]) for each in QUESTIONS]
    rows = ROWS // 10 if quick else ROWS
    measured = Measured("bands", rows, peers, module="benchmarks.bands")
    return Section(
        name="bands",
        title="Values that are close",
        note=f"{measured.rows:,} rows a side in random order from memory, values within {WIDTH} "
        "of each other (about one partner a row), one core, best of three. *A tenth in memory*: "
        "the cap holds a tenth of the rows. Results are two row numbers.",
        rows=[
            compared(measured, name, engine)
            for name, engines in measured.found.items()
            for engine in engines
        ],
        claims=_claims(measured),
        measured=measured,
    )


def compared(measured: Measured, name: str, engine: str) -> Row:
    found, diner = measured.found[name][engine], measured.found[name]["diner"]
    failed = found.failure is not None
    return {
        "question": name,
        "engine": engine,
        "all rows": found.failure or seconds(found.seconds),
        "input rows": "-" if failed else million_per_second(2 * measured.rows / found.seconds),
        "to diner": "-" if failed else times(found.seconds / diner.seconds),
    }


def _claims(measured: Measured) -> list[Claim]:
    claims = []
    for name, least in (
        ("band", 2e6),
        ("band, a tenth in memory", 1e6),
        ("1,000 keys and band", 2e6),
        ("1,000 keys and band, a tenth in memory", 1e6),
    ):
        found = measured.found[name]["diner"]
        rate = 2 * measured.rows / found.seconds if found.seconds else 0.0
        claims.append(
            Claim(
                claim=f"DINER, one core: {name}",
                target=f"at least {least / 1e6:.0f} M input rows/s",
                measured=found.failure or million_per_second(rate),
                holds=found.failure is None and rate >= least,
            )
        )
    equal = measured.found["equality"]
    ratio = equal["rpj"].seconds / equal["diner"].seconds if equal["diner"].seconds else 0.0
    claims.append(
        Claim(
            claim="equality by DINER beside RPJ, one core",
            target="at least 0.5x its row rate",
            measured=times(ratio),
            holds=ratio >= 0.5,
        )
    )
    return claims


if __name__ == "__main__":
    pinned(lambda engine, question: _measured(engine, Question(**question)))
