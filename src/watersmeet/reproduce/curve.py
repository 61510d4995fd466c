"""The lines of figures as numbers, in CSV files."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from watersmeet.reproduce.chart import Figure
from watersmeet.sim.delays import Seconds
from watersmeet.sim.trace import Trace

POINTS = 400


@dataclass(frozen=True, eq=False)
class Curve:
    """One algorithm's line in one panel, at evenly spaced instants.

    `cost` is the amortised processing cost: seconds of work per result so far.
    """

    figure: str
    setting: str
    algorithm: str
    time: Seconds
    results: Seconds
    cost: Seconds

    @classmethod
    def of(cls, trace: Trace, *, figure: str, setting: str, algorithm: str, until: float) -> Curve:
        instants = np.linspace(0.0, until, POINTS + 1)[1:]
        return cls(
            figure,
            setting,
            algorithm,
            time=instants,
            results=trace.results_at(instants).astype(np.float64),
            cost=trace.cost_at(instants),
        )


def write_curves(curves: Iterable[Curve], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["figure", "setting", "algorithm", "time", "results", "cost"])
        for curve in curves:
            for time, results, cost in zip(curve.time, curve.results, curve.cost, strict=True):
                # No cost per result before the first result: the field stays empty.
                paid = "" if np.isnan(cost) else f"{cost:.6g}"
                line = [curve.figure, curve.setting, curve.algorithm]
                table.writerow([*line, f"{time:.3f}", int(results), paid])


def write_lines(figures: Iterable[Figure], path: Path) -> None:
    """Write the points of every line of every panel, as they were drawn."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["figure", "setting", "quantity", "algorithm", "time", "value"])
        for figure in figures:
            for panel in figure.panels:
                for line in panel.lines:
                    head = [figure.number, panel.title, panel.y, line.algorithm]
                    for x, y in zip(line.x, line.y, strict=True):
                        table.writerow([*head, f"{x:.6g}", "" if np.isnan(y) else f"{y:.6g}"])
