"""The paper's figures 4 to 6, each drawn from some of the runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from watersmeet.reproduce.chart import Figure, Line, Panel
from watersmeet.reproduce.ssbj.model import loop_seconds
from watersmeet.reproduce.ssbj.runs import Run, Runs
from watersmeet.reproduce.ssbj.settings import (
    HERE,
    HISTORY,
    MESHJOIN,
    SSBJ,
    WEATHER,
    Experiments,
    Point,
)

MEMORY_AXIS = "memory (% of R)"
SIZE_AXIS = "rows of R (million)"
RATE = "service rate (thousand rows/s)"
BOTH, THREE = (SSBJ, MESHJOIN), (SSBJ, MESHJOIN, HERE)


def figures(experiments: Experiments, runs: Runs) -> list[Figure]:
    return [_memory(experiments, runs), _service(experiments, runs), _more(experiments, runs)]


def _memory(each: Experiments, runs: Runs) -> Figure:
    rates = [_line(runs, each.rates, name, _megabytes, divided=1e3) for name in BOTH]
    sizes = [_line(runs, each.sizes_at_rate, name, _megabytes) for name in BOTH]
    axis = "arrival rate (thousand rows/s)"
    panels = [
        _panel("arrival rate", rates, "memory (MB)", axis),
        _panel("size of R", sizes, "memory (MB)", SIZE_AXIS),
    ]
    return Figure("4", "Figure 4. Memory at the same service rate, skew 1", panels)


def _service(each: Experiments, runs: Runs) -> Figure:
    def rates(title: str, points: Sequence[Point], x: str) -> Panel:
        return _panel(title, [_line(runs, points, name, _rate) for name in THREE], RATE, x)

    shares = [_line(runs, each.memories, name, _share) for name in (SSBJ, HERE)]
    panels = [
        rates("memory, skew 1", each.memories, MEMORY_AXIS),
        rates("size of R, the same memory", each.sizes_in_memory, SIZE_AXIS),
        rates("skew, 10% memory", each.skews, "Zipf's exponent"),
        rates("TPC-H, Customer and Orders", each.customers, MEMORY_AXIS),
        rates("flights and weather", each.real[WEATHER], MEMORY_AXIS),
        rates("flights and all flights of a plane", each.real[HISTORY], MEMORY_AXIS),
        _panel("through the cache", shares, "stream rows (%)", MEMORY_AXIS, top=100),
        _panel(
            "this machine, no disk",
            [_line(runs, each.memories, name, _rate_here) for name in THREE],
            RATE,
            MEMORY_AXIS,
        ),
    ]
    return Figure("5", "Figure 5. Service rate in the same memory", panels)


def _more(each: Experiments, runs: Runs) -> Figure:
    factors = [_line(runs, each.factors, SSBJ, _rate)]
    buffers = [_line(runs, each.portions, SSBJ, _disk_rate)]
    panels = [
        _panel("switching factor", factors, RATE, "switching factor"),
        _panel("disk buffer", buffers, "by the scan (thousand rows/s)", "disk buffer (MB)"),
        _panel("c_loop, skew 0", _loops(runs, each.steady), "ms", MEMORY_AXIS),
        _panel("c_loop, skew 1", _loops(runs, each.memories), "ms", MEMORY_AXIS),
    ]
    return Figure("6", "Figure 6. Switching factor, disk buffer, cost model", panels)


def _loops(runs: Runs, points: Sequence[Point]) -> list[Line]:
    lines = []
    for name, calculated in ((SSBJ, "c-ssbj"), (MESHJOIN, "c-meshjoin")):
        lines.append(_line(runs, points, name, lambda run: 1e3 * run.loop_seconds))
        drawn = _line(runs, points, name, lambda run: 1e3 * loop_seconds(run))
        lines.append(Line(calculated, drawn.x, drawn.y))
    return lines


def _panel(title: str, lines: Sequence[Line], y: str, x: str, *, top: float | None = None) -> Panel:
    right = 1.05 * max(float(line.x[-1]) for line in lines)
    return Panel(title, lines, y, x, top=top, right=right, points=True)


def _line(
    runs: Runs,
    points: Sequence[Point],
    algorithm: str,
    value: Callable[[Run], float],
    *,
    divided: float = 1.0,
) -> Line:
    x = np.array([point.x / divided for point in points], np.float64)
    y = np.array([value(runs[point.workload, algorithm]) for point in points], np.float64)
    return Line(algorithm, x, y)


def _megabytes(run: Run) -> float:
    return run.memory / 1e6


def _rate(run: Run) -> float:
    return run.rate / 1e3


def _rate_here(run: Run) -> float:
    return run.rate_here / 1e3


def _disk_rate(run: Run) -> float:
    """Rows that waited, as in the paper's figure 6b."""
    return run.rate * (1 - run.cached) / 1e3


def _share(run: Run) -> float:
    return 100 * run.cached
