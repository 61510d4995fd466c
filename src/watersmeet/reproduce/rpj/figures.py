"""The paper's figures 8 to 12, each drawn from some of the simulations."""

from __future__ import annotations

import numpy as np

from watersmeet.reproduce.chart import Figure, Line, Panel, unit_of
from watersmeet.reproduce.curve import POINTS, Curve
from watersmeet.reproduce.rpj.runs import Runs
from watersmeet.reproduce.rpj.settings import (
    RIVALS,
    VARIANTS,
    Network,
    Pattern,
    Setting,
    settings,
)

COMPARED = ("rpj", *RIVALS)
"""RPJ comes first, since this is its paper."""

START = POINTS // 32
"""How many first points do not count for the height of a panel, since their cost per result is high
by chance."""

Drawn = tuple[Figure, list[Curve]]


def figures(runs: Runs) -> list[Drawn]:
    """Each figure, and the curves that it was drawn from."""
    reliable, unreliable = Network.RELIABLE, Network.UNRELIABLE
    return [
        _figure(runs, "8", reliable, COMPARED, "results", "Progressiveness, reliable network"),
        _figure(runs, "9", reliable, COMPARED, "cost", "Efficiency, reliable network"),
        _figure(runs, "10", unreliable, COMPARED, "results", "Progressiveness, unreliable network"),
        _figure(
            runs,
            "11",
            unreliable,
            ("rpj", *VARIANTS),
            "results",
            "Progressiveness of RPJ's variants, unreliable network",
        ),
        _figure(
            runs,
            "12",
            unreliable,
            ("rpj", *VARIANTS),
            "cost",
            "Efficiency of RPJ's variants, unreliable network",
        ),
    ]


def _figure(
    runs: Runs,
    number: str,
    network: Network,
    algorithms: tuple[str, ...],
    quantity: str,
    title: str,
) -> Drawn:
    panels: list[Panel] = []
    drawn: list[Curve] = []
    for setting in settings(network):
        traces = {algorithm: runs[setting, algorithm].trace for algorithm in algorithms}
        sent = traces["rpj"].transmission_end
        whole = _shows_cleanup(number, setting)
        until = max(trace.time[-1] for trace in traces.values()) if whole else sent
        curves = [
            Curve.of(trace, figure=number, setting=setting.name, algorithm=algorithm, until=until)
            for algorithm, trace in traces.items()
        ]
        marks = [(sent, "all rows received")] if whole else []
        panels.append(_panel(setting.caption, curves, quantity=quantity, marks=marks))
        drawn += curves
    return Figure(number, f"Figure {number}. {title}", panels), drawn


def _panel(
    title: str, curves: list[Curve], *, quantity: str, marks: list[tuple[float, str]]
) -> Panel:
    values = [getattr(curve, quantity) for curve in curves]
    top = max(float(np.nanmax(line[START:])) for line in values)
    factor, unit = unit_of(quantity, top)
    lines = [
        Line(curve.algorithm, curve.time, line * factor)
        for curve, line in zip(curves, values, strict=True)
    ]
    return Panel(title, lines, unit, marks=marks, top=1.06 * top * factor)


def _shows_cleanup(number: str, setting: Setting) -> bool:
    """Figure 8a and all of figure 10 go on to the last result; the others end with the input."""
    first = setting.pattern is Pattern.HARMONY and setting.speed_ratio == 1
    return number == "10" or (number == "8" and first)
