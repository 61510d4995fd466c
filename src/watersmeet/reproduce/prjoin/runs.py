"""One algorithm over one pair of files, with every block of I/O counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from watersmeet.model import Side
from watersmeet.operators.rectangle.algorithm import RECTANGLE
from watersmeet.operators.rectangle.join import RectangleJoin
from watersmeet.operators.tuning import Invocation, Tuning
from watersmeet.reproduce.jobs import each
from watersmeet.reproduce.prjoin.devices import Devices
from watersmeet.reproduce.prjoin.ledger import Bookkeeper, Counts, Ledger
from watersmeet.reproduce.prjoin.relations import join_schema, read_relations
from watersmeet.reproduce.prjoin.settings import CASES, Case, Parameters, Relations
from watersmeet.reproduce.prjoin.widths import Widths, WidthsSeen
from watersmeet.rows.address import Matches
from watersmeet.sim.delays import Seconds
from watersmeet.store.account import MemoryAccount
from watersmeet.store.spill import SpillArea

ACCOUNT_BYTES = 768 * 2**20
"""Memory for everything but rows in memory, which `memory_rows` limits."""


@dataclass(frozen=True, eq=False)
class Run:
    """What one case did. `found` is the size of its result, `seconds` its time on this machine."""

    case: Case
    parameters: Parameters
    ledger: Ledger
    found: int
    seconds: float
    widths: WidthsSeen | None

    def times(self, devices: Devices) -> Seconds:
        """When each step would be done on these devices, at the paper's size."""
        parameters = self.parameters
        return devices.times(
            self.ledger,
            parameters.megabytes_per_row,
            ahead=parameters.memory_rows // 2,
            extents=parameters.extents(self.case),
        )

    def reported(self, devices: Devices) -> tuple[Seconds, Counts]:
        return self.ledger.at_reports(self.times(devices))

    def end(self, devices: Devices) -> float:
        return float(self.times(devices)[-1])


Runs = dict[Case, Run]


def run_case(case: Case, *, parameters: Parameters, directory: Path) -> Run:
    began = time.perf_counter()
    books = Bookkeeper()
    rows = parameters.rows
    sizes = (rows, 2 * rows if case.relations is Relations.DOUBLE else rows)
    join = RectangleJoin(
        join_schema(),
        RECTANGLE[case.algorithm],
        memory=MemoryAccount(ACCOUNT_BYTES),
        spill=SpillArea(directory, observe=books.observe),
        tuning=Tuning(
            partitions=parameters.partitions(case),
            memory_rows=parameters.memory_rows,
            expected_rows=sizes,
            invocation=Invocation(gamma=case.gamma, stops=case.stops, together=case.estimates),
            remaps=case.remaps,
        ),
    )
    widths = Widths(join, books, rows=sizes) if case.estimates else None
    found = 0

    def drain(matches: Iterator[Matches], rows: int = 0) -> None:
        nonlocal found
        for some in books.follow(matches, rows=rows):
            found += len(some)
            if widths is not None:
                widths.observe(some)
        if widths is not None:
            widths.look()

    try:
        books.start(join)
        for side, batch in read_relations(case, parameters, directory):
            drain(join.push(side, batch), len(batch))
        for side in Side:
            drain(join.end(side))
        drain(join.finish())
    finally:
        join.close()
    seen = None if widths is None else widths.seen()
    return Run(case, parameters, books.ledger(), found, time.perf_counter() - began, seen)


def run_all(
    parameters: Parameters, *, directory: Path, jobs: int, say: Callable[[str], None]
) -> Runs:
    """Run every case, and say a line for each that is done."""
    one = partial(run_case, parameters=parameters, directory=directory)
    runs: Runs = {}
    for number, run in enumerate(each(one, CASES, jobs=jobs), start=1):
        runs[run.case] = run
        say(_line(run, f"{number:>2}/{len(CASES)}"))
    return runs


def _line(run: Run, number: str) -> str:
    ledger = run.ledger
    return (
        f"{number}  {run.case.name:<58}  {run.found:>10,} results  "
        f"{np.sum(ledger.written):>11,} rows written  {np.sum(ledger.read):>12,} read  "
        f"{np.sum(ledger.reports):>6,} reports  {run.seconds:6.1f} s"
    )
