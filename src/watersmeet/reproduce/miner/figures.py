"""The paper's figures 20 to 22, each drawn from some of the simulations."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from watersmeet.reproduce.chart import Figure, Line, Panel
from watersmeet.reproduce.miner.bound import most_in_equal_parts, most_online
from watersmeet.reproduce.miner.runs import Run, Runs
from watersmeet.reproduce.miner.settings import (
    HERE,
    INPUTS,
    MINER,
    MJOIN,
    Experiments,
    Point,
    Workload,
)

SHARE = "results online (% of all)"
MEMORY_AXIS = "memory (% of the input)"
DELAY_AXIS = "delay (% of a fragment's time)"


def figures(experiments: Experiments, runs: Runs) -> list[Figure]:
    return [_chains(experiments, runs), _delays(experiments, runs), _stars(experiments, runs)]


def _chains(experiments: Experiments, runs: Runs) -> Figure:
    chains = experiments.chains
    by_inputs = [
        _measured(runs, points, MINER, _percent, name=f"{inputs} inputs")
        for inputs, points in chains.items()
    ]
    four = chains[INPUTS[-1]]
    bounds: list[tuple[str, Callable[[Workload], float]]] = [
        ("most-possible", most_online),
        ("most-in-equal-parts", most_in_equal_parts),
    ]
    beside = [
        _measured(runs, four, MINER, _percent, name="4 inputs"),
        _measured(runs, four, HERE, _percent),
    ]
    beside += [
        _line(name, four, [100 * most(point.workload) for point in four]) for name, most in bounds
    ]
    panels = [
        Panel("MINER, chains", by_inputs, SHARE, MEMORY_AXIS, top=100, right=21, points=True),
        Panel("and what is possible", beside, SHARE, MEMORY_AXIS, top=100, right=21, points=True),
    ]
    return Figure("20", "Figure 20. Number of inputs and memory", panels)


def _delays(experiments: Experiments, runs: Runs) -> Figure:
    points = experiments.delays
    panels = [
        Panel(
            title,
            [
                _measured(runs, points, MINER, value, name="4 inputs"),
                _measured(runs, points, HERE, value),
            ],
            y,
            DELAY_AXIS,
            right=1.05 * points[-1].x,
            points=True,
        )
        for title, y, value in (
            ("Table 21: input buffer in stalls", "most rows that waited", _waiting),
            ("of the whole result", SHARE, _percent),
        )
    ]
    return Figure("21", "Table 21. Delays, chains of four, 5% memory", panels)


def _stars(experiments: Experiments, runs: Runs) -> Figure:
    stars = experiments.stars
    panels = [
        Panel(
            f"{inputs} inputs",
            [_measured(runs, points, name, _percent) for name in (MINER, MJOIN)],
            SHARE,
            MEMORY_AXIS,
            top=100,
            right=21,
            points=True,
        )
        for inputs, points in stars.items()
    ]
    times = [
        _line(f"{inputs} inputs", points, [gain(runs, point) for point in points])
        for inputs, points in stars.items()
    ]
    title = "how many times MJoin's results"
    panels.append(
        Panel("MINER beside MJoin", times, title, MEMORY_AXIS, right=21, points=True, log="y")
    )
    return Figure("22", "Figure 22. Stars on one attribute", panels)


def gain(runs: Runs, point: Point) -> float:
    """MINER's online results to MJoin's."""
    miner, mjoin = (runs[point.workload, name].online for name in (MINER, MJOIN))
    return miner / max(mjoin, 1)


def _percent(run: Run) -> float:
    return 100 * run.share


def _waiting(run: Run) -> float:
    return run.trace.most_waiting


def _measured(
    runs: Runs,
    points: Sequence[Point],
    algorithm: str,
    value: Callable[[Run], float],
    *,
    name: str | None = None,
) -> Line:
    values = [value(runs[point.workload, algorithm]) for point in points]
    return _line(name or algorithm, points, values)


def _line(name: str, points: Sequence[Point], values: Sequence[float]) -> Line:
    x = np.array([point.x for point in points], np.float64)
    return Line(name, x, np.array(values, np.float64))
