"""The paper's figures 7 to 19, each drawn from some of the simulations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from watersmeet.reproduce.chart import Figure, Line, Panel, unit_of
from watersmeet.reproduce.curve import POINTS
from watersmeet.reproduce.diner.runs import Run, Runs
from watersmeet.reproduce.diner.settings import DINER, HANDING_OVER, PMJ, RIVALS, Experiments, Point

RELATIVE = "results online (% of DINER's)"
SHARE = "results online (% of all)"


def figures(experiments: Experiments, runs: Runs) -> list[Figure]:
    each = experiments
    return [
        _over_time(each, runs),
        _memories(each, runs),
        _sweep(runs, "10", "Values by Zipf's law", each.skews, "exponent"),
        _sweep(runs, "11", "Normal values, means apart", each.apart, "distance of the means"),
        _sweep(runs, "12", "Normal values, one wider", each.wider, "difference of the deviations"),
        _bands(each, runs),
        _sweep(runs, "14", "Sorted intervals in random order", each.sorted_parts, "intervals"),
        _sweep(runs, "15", "Ten periods, each shifted", each.shifts, "shift"),
        _delays(each, runs),
        _sweep(runs, "17", "Delays, stock A", each.stock_delays, "delay (% of a fragment's time)"),
        _sweep(runs, "18", "One relation smaller", each.smaller, "rows of the second (thousand)"),
        _outer_memory(each, runs),
    ]


def _over_time(experiments: Experiments, runs: Runs) -> Figure:
    panels = []
    for number, (name, workload) in zip((7, 8), experiments.over_time.items(), strict=True):
        compared = [runs[workload, algorithm] for algorithm in (DINER, *RIVALS, "xjoin")]
        until = compared[0].trace.transmission_end
        factor, unit = unit_of("results", max(run.online for run in compared))
        at = np.linspace(0.0, until, POINTS + 1)
        lines = [
            Line(run.algorithm, at, factor * run.trace.results_at(at).astype(np.float64))
            for run in compared
        ]
        panels.append(Panel(f"Figure {number}: {name}", lines, unit, right=until))
    return Figure("7-8", "Figures 7 and 8. Results over time, 5% memory", panels)


def _memories(experiments: Experiments, runs: Runs) -> Figure:
    axis = "memory (% of the input)"
    panels = [
        _panel(runs, name, points, axis, algorithms=(DINER, *RIVALS), y=RELATIVE)
        for name, points in experiments.memories.items()
    ]
    lines = [
        _line(runs, points, DINER, lambda run: 100 * run.share, name=name)
        for name, points in experiments.memories.items()
    ]
    panels.append(Panel("Table 4: DINER", lines, SHARE, axis, top=100, right=21, points=True))
    return Figure("9", "Figure 9 and Table 4. Memory", panels)


def _sweep(runs: Runs, number: str, title: str, points: Sequence[Point], axis: str) -> Figure:
    compared = (DINER, *RIVALS)
    panels = [
        _panel(runs, "beside DINER", points, axis, algorithms=compared, y=RELATIVE),
        _panel(runs, "of the whole result", points, axis, algorithms=compared, y=SHARE),
    ]
    return Figure(number, f"Figure {number}. {title}", panels)


def _bands(experiments: Experiments, runs: Runs) -> Figure:
    panels = []
    share = np.linspace(0.0, 1.0, POINTS + 1)
    for name, workload in experiments.bands.items():
        lines = []
        for algorithm in (DINER, PMJ):
            run = runs[workload, algorithm]
            found = run.trace.results_at(share * run.trace.cleanup_start)
            lines.append(Line(algorithm, 100 * share, 100 * found / max(run.exact, 1)))
        what = "cents" if name.startswith("stock") else "degrees"
        axis = "time (% of the online phase)"
        panels.append(Panel(f"{name}: closer than 5 {what}", lines, SHARE, axis))
    return Figure("13", "Figure 13. Bands, 5% memory", panels)


def _delays(experiments: Experiments, runs: Runs) -> Figure:
    points, axis = experiments.delays, "delay (% of a fragment's time)"
    compared, every = (DINER, *RIVALS), (DINER, *RIVALS, *HANDING_OVER)
    waiting = [_line(runs, points, name, lambda run: run.trace.most_waiting) for name in every]
    right = 1.05 * points[-1].x
    panels = [
        _panel(runs, "Figure 16", points, axis, algorithms=compared, y=RELATIVE),
        _panel(runs, "of the whole result", points, axis, algorithms=every, y=SHARE),
        Panel(
            "Table 3: input buffer in stalls",
            waiting,
            "most rows that waited",
            axis,
            right=right,
            points=True,
        ),
    ]
    return Figure("16", "Figure 16 and Table 3. Delays, Zipf 1", panels)


def _outer_memory(experiments: Experiments, runs: Runs) -> Figure:
    points = experiments.outer_memory
    panels = [
        _panel(runs, "delays of 25%", points, "MaxOuterMem (blocks)", algorithms=(DINER,), y=SHARE)
    ]
    return Figure("19", "Figure 19. Memory for outer blocks, Zipf 1", panels)


def _panel(
    runs: Runs,
    title: str,
    points: Sequence[Point],
    axis: str,
    *,
    algorithms: Sequence[str],
    y: str,
) -> Panel:
    def value(run: Run) -> float:
        whole = runs[run.workload, DINER].online if y == RELATIVE else run.exact
        return 100 * run.online / max(whole, 1)

    lines = [_line(runs, points, algorithm, value) for algorithm in algorithms]
    top = None if y == SHARE else max(112.0, 1.06 * max(float(line.y.max()) for line in lines))
    return Panel(title, lines, y, axis, top=top, right=1.05 * points[-1].x, points=True)


def _line(
    runs: Runs,
    points: Sequence[Point],
    algorithm: str,
    value: Callable[[Run], float],
    *,
    name: str | None = None,
) -> Line:
    measured = [value(runs[point.workload, algorithm]) for point in points]
    x = np.array([point.x for point in points], np.float64)
    return Line(name or algorithm, x, np.array(measured, np.float64))
