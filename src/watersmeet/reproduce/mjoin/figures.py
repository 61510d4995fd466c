"""The paper's figures 8 to 11, each drawn from some of the averages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from watersmeet.reproduce.chart import Figure, Line, Panel
from watersmeet.reproduce.mjoin.runs import Curve, Curves, Seconds
from watersmeet.reproduce.mjoin.settings import MJOIN, XJOIN, Experiments, Variant, Workload

RESULTS = "results (thousand)"
SECONDS = "seconds"


def figures(experiments: Experiments, curves: Curves) -> list[Figure]:
    return [
        _scheduling(experiments, curves),
        _time(experiments, curves),
        _memory(experiments, curves),
        _purging(experiments, curves),
    ]


def _scheduling(each: Experiments, curves: Curves) -> Figure:
    panels = [_timed(w, each.schedules(w), curves) for w in each.scheduled]
    return Figure("8", "Figure 8. Scheduling", panels)


def _time(each: Experiments, curves: Curves) -> Figure:
    both = {"mjoin": MJOIN, "xjoin": XJOIN}
    panels = [_timed(workload, both, curves) for workload in each.timed]
    workload, memory = each.overflowing
    limited = {"mjoin": Variant(True, memory=memory), "xjoin": Variant(False, memory=memory)}
    title = f"{workload.arrival}, {memory / 2**20:.1f} MB of memory"
    panels.append(_timed(workload, limited, curves, title=title))
    return Figure("9", "Figure 9. Execution time, MJoin and XJoin", panels)


def _memory(each: Experiments, curves: Curves) -> Figure:
    panels = []
    for workload in each.weighed:
        lines = [
            _line(name, curve, curve.rows)
            for name, curve in (
                ("mjoin", curves[workload, MJOIN]),
                ("xjoin", curves[workload, XJOIN]),
            )
        ]
        panels.append(_panel(workload.arrival, lines, "rows in memory", log="y"))
    return Figure("10", "Figure 10. Memory overhead, MJoin and XJoin", panels)


def _purging(each: Experiments, curves: Curves) -> Figure:
    names = {f"purge-{every}": variant for every, variant in reversed(each.purges.items())}
    panels = [_timed(workload, names, curves) for workload in each.purged]
    return Figure("11", "Figure 11. Immediate and batch purging", panels)


def _timed(
    workload: Workload, variants: Mapping[str, Variant], curves: Curves, *, title: str | None = None
) -> Panel:
    lines = [
        _line(name, curve, curve.seconds)
        for name, curve in ((name, curves[workload, v]) for name, v in variants.items())
    ]
    return _panel(title or workload.words, lines, SECONDS)


def _panel(title: str, lines: Sequence[Line], y: str, *, log: str = "") -> Panel:
    return Panel(title, lines, y, RESULTS, right=float(lines[0].x[-1]), log=log)


def _line(name: str, curve: Curve, y: Seconds) -> Line:
    return Line(name, curve.results / 1e3, y)
