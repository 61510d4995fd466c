"""Do intervals hold over partitions that Spark computes, of files that tell nothing of themselves?

    python -m benchmarks.coverage_partitions

Each situation is a CSV file in another order, joined with a table in Parquet. Spark computes every
partition once, through the engine that queries use; then many runs draw partitions in other orders,
through the same looks, ledger, estimators and flags. `check` asks Spark for some of them once more,
by `wm.aggregate` with its seed, and the estimates must be the same.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

import watersmeet as wm
from benchmarks.coverage_files import GOOD, Outcome, Replay, blocks_of, check, outcomes
from watersmeet.aggregates.ask.settings import Settings
from watersmeet.aggregates.block_reading import Readings
from watersmeet.aggregates.run import AggregateRun
from watersmeet.aggregates.sampling.looks import Look
from watersmeet.model import Side
from watersmeet.policies.order import random_order

ROWS, FILES, KEYS = 60_000, 120, 2_000
SETTINGS = Settings.parse(0.95, simultaneous=False, every_look=False, heavy_tails="flag")

Rows = dict[str, NDArray[Any]]
ORDERS: dict[str, Callable[[Rows], NDArray[Any]]] = {
    "random order": lambda rows: np.random.default_rng(1).permutation(len(rows["k"])),
    "by value": lambda rows: np.argsort(rows["v"], kind="stable"),
    "by key": lambda rows: np.argsort(rows["k"], kind="stable"),
    "by group, then value": lambda rows: np.lexsort((rows["v"], rows["g"])),
}


class Partitions:
    """A question about a CSV file, with the totals of every partition as Spark computed it."""

    def __init__(self, spark: Any, folder: Path, order: str) -> None:
        random = np.random.default_rng(7)
        rows: Rows = {
            "k": random.integers(0, KEYS, ROWS),
            "g": random.integers(0, 3, ROWS),
            "v": random.gamma(3.0, 20.0, ROWS).round(2),
        }
        place = ORDERS[order](rows)
        ends = np.linspace(0, ROWS, FILES + 1).astype(int)
        (folder / "csv").mkdir()
        for number in range(FILES):
            part = place[ends[number] : ends[number + 1]]
            table = pa.table({name: values[part] for name, values in rows.items()})
            pyarrow.csv.write_csv(table, folder / "csv" / f"part-{number:04}.csv")
        right = pa.table({"k": np.arange(KEYS), "w": random.integers(1, 9, KEYS)})
        pq.write_table(right, folder / "right.parquet")
        # With an option that our own tasks do not know.
        reader = spark.read.option("maxColumns", 20480)
        self.csv = reader.csv(str(folder / "csv"), header=True, schema="k long, g int, v double")
        self.right = spark.read.parquet(str(folder / "right.parquet"))
        with self.real(0) as run:
            reading = blocks_of(run)
            self._reading, plan = reading, reading.plan
            everything = plan.orders[plan.sampled]
            both = (everything, ()) if plan.sampled is Side.LEFT else ((), everything)
            totals = reading.engine.totals(Look(both, last=False))
            self.found = {each.block: each for each in totals}
            assert len(self.found) == len(everything) == len(totals)
            self._replay = Replay(self.found, plan, reading._tables)

    def real(self, seed: int) -> AggregateRun:
        """By Spark."""
        asked: dict[str, Any] = {
            "n": wm.count(),
            "total": wm.sum("v * w"),
            "mean": wm.avg("v"),
        }
        return wm.aggregate(self.csv, self.right, on="k", group_by="g", seed=seed, **asked)

    def run(self, seed: int) -> AggregateRun:
        """The same partitions in the order of a seed, without Spark."""
        reading = self._reading
        plan, sampled = reading.plan, reading.plan.sampled
        order = tuple(random_order(len(self.found), seed=seed + sampled))
        drawn = replace(plan, orders=(order, ()) if sampled is Side.LEFT else ((), order))
        readings = Readings(reading.question, reading._tables, self._replay, SETTINGS)
        return AggregateRun(readings.of(drawn), settings=SETTINGS)


def measured(spark: Any, order: str, *, runs: int, checked: int = 2) -> Iterator[Outcome]:
    with tempfile.TemporaryDirectory() as folder:
        situation: Any = Partitions(spark, Path(folder), order)
        for seed in range(checked):
            check(situation, seed)
        yield from outcomes(order, situation, runs=runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=1000)
    arguments = parser.parse_args()
    spark = wm.session()
    for order in ORDERS:
        for each in measured(spark, order, runs=arguments.runs):
            every = each.all_held / each.cells
            print(
                f"{'  ' if every >= GOOD else '!!'} {each.situation:22} {each.aggregate:6} "
                f"look {each.look}: all {every:6.1%}, trusted {1 - each.flagged:6.1%} of which "
                f"hold {each.coverage:6.1%}",
                flush=True,
            )
    spark.stop()


if __name__ == "__main__":
    main()
