"""The paper's figures, each drawn from some of the joins that were run."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from watersmeet.reproduce.chart import Figure, Line, Panel
from watersmeet.reproduce.curve import POINTS
from watersmeet.reproduce.prjoin import model, rates
from watersmeet.reproduce.prjoin.devices import DISK, DISK_SYNCHRONOUS, SSD, SSD_4K, Devices
from watersmeet.reproduce.prjoin.runs import Run, Runs
from watersmeet.reproduce.prjoin.settings import (
    DBO,
    GRACE,
    GRACE_DOUBLE,
    GRACE_SKEW,
    HASH_RIPPLE,
    PR_64K_STOP,
    PR_DISK,
    PR_DOUBLE,
    PR_ESTIMATE,
    PR_SKEW,
    PR_SKEW_PLAIN,
    PR_SSD,
    PR_SSD_GAMMAS,
    RIPPLE,
    RIPPLE_DOUBLE,
    RIPPLE_ESTIMATE,
    SMS,
    Case,
    Parameters,
)
from watersmeet.reproduce.prjoin.streams import ALGORITHMS, STREAMS, Stream, StreamRuns
from watersmeet.sim.delays import Seconds

RESULTS = "results (% of all)"
TIME = "elapsed time (seconds, charged)"
WINDOWS = 60
"""Number of intervals of time for each of which a result rate is computed."""

INK_OF = {"pr-join": "pr-join", "rpj": "rpj-beside"}
"""RPJ needs another colour here, since its usual one is PR-Join's."""

Drawn = Mapping[str, tuple[Run, Devices]]


def figures(runs: Runs, streams: StreamRuns, parameters: Parameters) -> list[Figure]:
    return [
        _figure_2(runs),
        _table_2(runs),
        _figure_8(runs, parameters),
        _figure_9(runs),
        _figure_10(runs),
        _figure_11(runs),
        _figure_12(runs),
        _figure_13(runs),
        _figure_14(runs),
        _figure_15(streams),
        _wall(runs),
    ]


def _figure_2(runs: Runs) -> Figure:
    panel = _results("10 GB joins 10 GB, SSD for temporary storage", _on(runs, SSD, PR_SSD))
    return Figure("2", "Figure 2. PR-Join, Ripple and GRACE", [panel])


def _table_2(runs: Runs) -> Figure:
    steps = np.arange(1.0, 6.0)
    ones = np.ones(len(steps))
    growing = [
        Line("pr-join", steps, _pr_rates(runs[PR_SSD], steps)),
        Line("ripple", steps, np.array([rates.ripple(runs[RIPPLE], int(k)) for k in steps])),
        Line("c-pr-join", steps, 2.0 ** (steps - 1) * 3 / (4 - 2.0 ** (1 - steps))),
        Line("c-ripple", steps, (2 * steps + 1) / (steps + 2)),
    ]
    level = [
        Line(case.algorithm, steps, ones * rates.after_overflow(runs[case]))
        for case in (HASH_RIPPLE, SMS, DBO)
    ]
    panel = Panel(
        "by step: the j-th joins of PR-Join's partitions, the k-th iteration of Ripple",
        growing + level,
        "early result rate (in units of c)",
        x="step",
        right=5.2,
    )
    return Figure("table-2", "Table 2. Early result rates, every page costs the same", [panel])


def _pr_rates(run: Run, steps: Seconds) -> Seconds:
    found = [rates.pr_join(run, int(step)) for step in steps]
    return np.array([np.nan if rate is None else rate for rate in found])


def _figure_8(runs: Runs, parameters: Parameters) -> Figure:
    measured = _on(runs, DISK_SYNCHRONOUS, PR_DISK)
    computed = {
        "c-pr-join": model.pr_join(
            parameters.model, partitions=parameters.partitions(PR_DISK), gamma=1.0
        ),
        "c-ripple": model.ripple(parameters.model),
        "c-grace": model.grace(parameters.model),
    }
    lines = [Line(name, x, 100 * y) for name, (x, y) in computed.items()] + _lines(measured)
    short = 1.15 * runs[PR_DISK].end(DISK_SYNCHRONOUS)
    return Figure(
        "8",
        "Figure 8. Measured I/O and the cost models, one disk after the other",
        [
            Panel("whole run", lines, RESULTS, x=TIME),
            Panel("until PR-Join ends", lines, RESULTS, x=TIME, right=short),
        ],
    )


def _figure_9(runs: Runs) -> Figure:
    drawn = _on(runs, DISK, PR_DISK)
    short = 1.15 * runs[PR_DISK].end(DISK)
    return Figure(
        "9",
        "Figure 9. Disk for temporary storage",
        [
            _results("results, whole run", drawn),
            _results("results, until PR-Join ends", drawn, right=short),
            _rates("result rate", drawn),
            _intervals("report interval", _without_grace(drawn)),
        ],
    )


def _figure_10(runs: Runs) -> Figure:
    extents: Drawn = {
        "64KB": (runs[PR_64K_STOP], SSD),
        "1MB": (runs[PR_DISK], SSD),
        "4KB": (runs[PR_64K_STOP], SSD_4K),
        "grace": (runs[GRACE], SSD),
        "ripple": (runs[RIPPLE], SSD),
    }
    short = 1.1 * runs[PR_64K_STOP].end(SSD_4K)
    two = {name: extents[name] for name in ("64KB", "1MB")}
    free = {**extents, "64KB": (runs[PR_SSD], SSD)}
    free = {name: free[name] for name in ("64KB", "grace", "ripple")}
    return Figure(
        "10",
        "Figure 10. SSD for temporary storage",
        [
            _results("extents of three sizes", extents),
            _results("extents of three sizes, until the last ends", extents, right=short),
            _intervals("report interval", two),
            _results("64 KB, no stop constraint", free, right=short),
        ],
    )


def _figure_11(runs: Runs) -> Figure:
    drawn: Drawn = {
        f"gamma-{gamma:g}": (runs[PR_SSD_GAMMAS[gamma]], SSD) for gamma in (1.0, 2.0, 0.5)
    }
    return Figure("11", "Figure 11. gamma", [_results("SSD, no stop constraint", drawn)])


def _figure_12(runs: Runs) -> Figure:
    drawn: Drawn = {
        "pr-join": (runs[PR_SKEW], SSD),
        "no-remapping": (runs[PR_SKEW_PLAIN], SSD),
        "grace": (runs[GRACE_SKEW], SSD),
    }
    panel = _results("keys of Zipf partitions, SSD, no stop constraint", drawn)
    return Figure("12", "Figure 12. Skewed keys", [panel])


def _figure_13(runs: Runs) -> Figure:
    drawn: Drawn = {
        "pr-join": (runs[PR_DOUBLE], SSD),
        "grace": (runs[GRACE_DOUBLE], SSD),
        "ripple": (runs[RIPPLE_DOUBLE], SSD),
    }
    short = 1.3 * runs[PR_DOUBLE].end(SSD)
    return Figure(
        "13",
        "Figure 13. 10 GB joins 20 GB, SSD, no stop constraint",
        [_results("whole run", drawn), _results("until PR-Join ends", drawn, right=short)],
    )


def _figure_14(runs: Runs) -> Figure:
    lines = []
    for case in (PR_ESTIMATE, RIPPLE_ESTIMATE):
        times, relative = half_widths(runs[case])
        shown = (relative > 0) & np.isfinite(relative)
        lines.append(Line(case.algorithm, times[shown], relative[shown]))
    panel = Panel(
        "SUM(B.val), Pareto 1.5, 95%, SSD",
        lines,
        "half-width / estimate",
        x=TIME,
        log="xy",
        steps=True,
    )
    return Figure("14", "Figure 14. The confidence interval", [panel])


def half_widths(run: Run) -> tuple[Seconds, Seconds]:
    """When the interval was computed, and half its width relative to the estimate."""
    assert run.widths is not None
    return run.times(SSD)[run.widths.steps], run.widths.relative


def _figure_15(streams: StreamRuns) -> Figure:
    panels = [_stream_panel(streams, stream) for stream in STREAMS]
    return Figure("15", "Figure 15. PR-Join and RPJ on streams", panels)


def _stream_panel(streams: StreamRuns, stream: Stream) -> Panel:
    traces = {algorithm: streams[stream, algorithm].trace for algorithm in ALGORITHMS}
    end = max(float(trace.time[-1]) for trace in traces.values())
    sent = traces["rpj"].transmission_end
    instants = np.linspace(0.0, min(end, 3 * sent), POINTS + 1)[1:]
    lines = [
        Line(INK_OF[algorithm], instants, 100 * trace.results_at(instants) / trace.total)
        for algorithm, trace in traces.items()
    ]
    return Panel(
        stream.caption,
        lines,
        RESULTS,
        marks=[(sent, "all rows received")],
        right=float(instants[-1]),
        top=106.0,
    )


def _wall(runs: Runs) -> Figure:
    lines = []
    for case in (PR_DISK, GRACE, RIPPLE):
        ledger = runs[case].ledger
        wall, results = ledger.at_reports(ledger.wall)
        lines.append(_thinned(Line(case.algorithm, wall, 100 * results / results[-1])))
    x = "elapsed time (seconds, this machine)"
    short = 1.15 * float(runs[PR_DISK].ledger.wall[-1])
    return Figure(
        "wall",
        "On this machine's own disk and processor",
        [
            Panel("whole run", lines, RESULTS, x=x, steps=True),
            Panel("until PR-Join ends", lines, RESULTS, x=x, steps=True, right=short),
        ],
    )


# ---- lines --------------------------------------------------------------------------------------


def _on(runs: Runs, devices: Devices, pr_join: Case) -> Drawn:
    """PR-Join in one setting, with GRACE and Ripple."""
    return {
        "pr-join": (runs[pr_join], devices),
        "grace": (runs[GRACE], devices),
        "ripple": (runs[RIPPLE], devices),
    }


def _without_grace(drawn: Drawn) -> Drawn:
    return {name: of for name, of in drawn.items() if name != "grace"}


def _lines(drawn: Drawn) -> list[Line]:
    lines = []
    for name, (run, devices) in drawn.items():
        times, results = run.reported(devices)
        lines.append(_thinned(Line(name, times, 100 * results / results[-1])))
    return lines


def _results(title: str, drawn: Drawn, *, right: float | None = None) -> Panel:
    return Panel(title, _lines(drawn), RESULTS, x=TIME, steps=True, right=right, top=106.0)


def _rates(title: str, drawn: Drawn) -> Panel:
    lines = []
    for name, (run, devices) in drawn.items():
        times, results = run.reported(devices)
        edges = np.linspace(0.0, times[-1], WINDOWS + 1)
        before = np.concatenate([[0], results])[np.searchsorted(times, edges, side="right")]
        rate = 100 * np.diff(before) / results[-1] / np.diff(edges)
        lines.append(Line(name, edges[1:], np.where(rate > 0, rate, np.nan)))
    return Panel(title, lines, "results per second (% of all)", x=TIME, log="xy", dots=True)


def _intervals(title: str, drawn: Drawn) -> Panel:
    lines = []
    for name, (run, devices) in drawn.items():
        times, gaps = intervals(run, devices)
        lines.append(_thinned(Line(name, times, np.maximum(gaps, 1e-3))))
    return Panel(title, lines, "seconds since the last report", x=TIME, log="xy", dots=True)


def intervals(run: Run, devices: Devices) -> tuple[Seconds, Seconds]:
    """Times of the reports after memory first overflowed, and seconds since the report before."""
    times, _ = run.reported(devices)
    first = float(run.times(devices)[int(np.flatnonzero(run.ledger.written)[0])])
    later = times[1:] > first
    return times[1:][later], np.diff(times)[later]


def _thinned(line: Line) -> Line:
    """The line with at most 2 * POINTS of its points, the last one included."""
    if len(line.x) <= 2 * POINTS:
        return line
    kept = np.unique(np.linspace(0, len(line.x) - 1, 2 * POINTS).astype(int))
    return Line(line.algorithm, line.x[kept], line.y[kept])
