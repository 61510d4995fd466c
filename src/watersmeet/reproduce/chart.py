"""Draws figures of several panels, with one colour for each algorithm in all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from watersmeet.drawing import STYLE, require_matplotlib
from watersmeet.sim.delays import Seconds

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class LineStyle:
    label: str
    colour: str
    dashes: str | tuple[int, tuple[float, ...]] = "-"


INKS = {
    # Okabe and Ito's colours, which people with any kind of colour vision can tell apart; dashes
    # for prints without colours.
    "rpj": LineStyle("RPJ", "#0072B2"),
    "hmj": LineStyle("HMJ", "#D55E00", (0, (6, 1.6))),
    "xjoin": LineStyle("XJoin", "#009E73", (0, (1.2, 1.2))),
    "rpj-dd": LineStyle("RPJ-dd", "#B0508E", (0, (6, 1.6))),
    "rpj-md": LineStyle("RPJ-md", "#C98A00", (0, (1.2, 1.2))),
    "diner-plain": LineStyle("DINER", "#1f1f1f"),
    "rpj-handing-over": LineStyle("RPJ, handing over", "#7CC4EE", (0, (3, 1.2))),
    "hmj-handing-over": LineStyle("HMJ, handing over", "#F5B183", (0, (1.2, 1.2))),
    "pmj-sorted": LineStyle("PMJ", "#D55E00", (0, (6, 1.6))),
    # The data sets of DINER's Table 4.
    "stock A": LineStyle("stock A", "#B0508E"),
    "stock B": LineStyle("stock B", "#C98A00", (0, (6, 1.6))),
    "weather": LineStyle("weather", "#56B4E9", (0, (3, 1.2))),
    "airports": LineStyle("airports", "#009E73", (0, (1.2, 1.2))),
    "miner-plain": LineStyle("MINER", "#1f1f1f"),
    "miner": LineStyle("4 inputs, remembering", "#009E73", (0, (1.2, 1.2))),
    "mjoin": LineStyle("MJoin", "#D55E00", (0, (6, 1.6))),
    "2 inputs": LineStyle("2 inputs", "#56B4E9", (0, (3, 1.2))),
    "3 inputs": LineStyle("3 inputs", "#C98A00", (0, (6, 1.6))),
    "4 inputs": LineStyle("4 inputs", "#B0508E"),
    "most-possible": LineStyle("most that is possible", "#8a8f98", (0, (2, 2))),
    "most-in-equal-parts": LineStyle("most, in equal parts", "#5b616b", (0, (6, 1.6))),
    "pr-join": LineStyle("PR-Join", "#0072B2"),
    "ripple": LineStyle("Ripple", "#D55E00", (0, (6, 1.6))),
    "grace": LineStyle("GRACE", "#009E73", (0, (1.2, 1.2))),
    "rpj-beside": LineStyle("RPJ", "#D55E00", (0, (6, 1.6))),
    "hash-ripple": LineStyle("Hash Ripple", "#B0508E", (0, (6, 1.6))),
    "sms": LineStyle("SMS", "#C98A00", (0, (3, 1.2))),
    "dbo": LineStyle("DBO", "#5b616b", (0, (1.2, 1.2))),
    # Lines of the cost models: paler than the measured ones, and on top of them.
    "c-pr-join": LineStyle("c-PR-Join", "#7CC4EE", (0, (2, 2))),
    "c-ripple": LineStyle("c-Ripple", "#F5B183", (0, (2, 2))),
    "c-grace": LineStyle("c-GRACE", "#7FD6BB", (0, (2, 2))),
    "ssbj": LineStyle("SSBJ", "#0072B2"),
    "meshjoin": LineStyle("MESHJOIN", "#D55E00", (0, (6, 1.6))),
    "skipping": LineStyle("default here", "#009E73", (0, (1.2, 1.2))),
    "c-ssbj": LineStyle("SSBJ, calculated", "#7CC4EE", (0, (2, 2))),
    "c-meshjoin": LineStyle("MESHJOIN, calculated", "#F5B183", (0, (2, 2))),
    # Schedules and purges of MJoin with metadata.
    "priority": LineStyle("priority, by value", "#0072B2"),
    "random": LineStyle("random turns", "#D55E00", (0, (6, 1.6))),
    "random-rows": LineStyle("random, equal rows", "#C98A00", (0, (3, 1.2))),
    "purge-100": LineStyle("purge after 100", "#0072B2"),
    "purge-1": LineStyle("purge after each", "#D55E00", (0, (6, 1.6))),
    # Settings of PR-Join.
    "1MB": LineStyle("PR-Join 1 MB", "#B0508E", (0, (6, 1.6))),
    "64KB": LineStyle("PR-Join 64 KB", "#0072B2"),
    "4KB": LineStyle("PR-Join 4 KB", "#C98A00", (0, (3, 1.2))),
    "gamma-0.5": LineStyle("PR-Join, gamma 0.5", "#B0508E", (0, (6, 1.6))),
    "gamma-1": LineStyle("PR-Join, gamma 1", "#0072B2"),
    "gamma-2": LineStyle("PR-Join, gamma 2", "#C98A00", (0, (3, 1.2))),
    "no-remapping": LineStyle("PR-Join, no remapping", "#B0508E", (0, (6, 1.6))),
}


@dataclass(frozen=True, eq=False)
class Line:
    """One algorithm's values in a panel, in the panel's units."""

    algorithm: str
    x: Seconds
    y: Seconds


@dataclass(frozen=True)
class Panel:
    """One small plot: its lines, and `marks`, events on the time axis.

    The first line is the paper's own algorithm. `top` is the height, from the lines if None;
    `steps`: a value holds until the next one; `dots`: points without lines; `points`: lines with
    their points marked; `log`: which axes are logarithmic ("x", "y", "xy").
    """

    title: str
    lines: Sequence[Line]
    y: str
    x: str = "elapsed time (virtual seconds)"
    marks: Sequence[tuple[float, str]] = ()
    top: float | None = None
    right: float | None = None
    steps: bool = False
    dots: bool = False
    points: bool = False
    log: str = ""


@dataclass(frozen=True)
class Figure:
    number: str
    title: str
    panels: Sequence[Panel]


def draw(figure: Figure, directory: Path) -> tuple[Path, Path]:
    """Write the figure as SVG and PNG; returns the paths of the two files."""
    require_matplotlib()
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    columns = min(len(figure.panels), 2)
    rows = -(-len(figure.panels) // columns)
    with mpl.rc_context(STYLE):
        layout = ConstrainedLayoutEngine(h_pad=0.09, w_pad=0.09)
        canvas = Canvas(figsize=(9.6, 0.6 + 3.0 * rows + 0.6 * (columns == 1)), layout=layout)
        axes = canvas.subplots(rows, columns, squeeze=False).ravel()
        letters = "abcdefgh" if len(figure.panels) > 1 else " "
        for letter, panel, ax in zip(letters, figure.panels, axes, strict=False):
            _draw_panel(ax, panel, letter=letter.strip())
        for ax in axes[len(figure.panels) :]:
            ax.set_axis_off()
        handles: dict[str, Artist] = {}
        for ax in axes:
            for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        canvas.suptitle(figure.title, x=0.012, ha="left", fontsize=12.5, fontweight="bold")
        # Above the panels; below them if it has too many names to stand beside the title.
        canvas.legend(
            handles.values(),
            handles.keys(),
            loc="outside upper right" if len(handles) <= 3 else "outside lower center",
            ncols=len(handles),
            frameon=False,
            fontsize=10 if len(handles) <= 5 else 9,
            handlelength=2.6,
        )
        svg = directory / f"figure-{figure.number}.svg"
        png = directory / f"figure-{figure.number}.png"
        canvas.savefig(svg, metadata={"Date": None})
        canvas.savefig(png, dpi=150)
    return svg, png


def _draw_panel(ax: Axes, panel: Panel, *, letter: str) -> None:
    ax.set_title(f"({letter}) {panel.title}" if letter else panel.title)
    # The first algorithm is the paper's own: drawn last, so that it lies on top.
    for depth, line in enumerate(panel.lines):
        ink = INKS[line.algorithm]
        ax.plot(
            line.x,
            line.y,
            color=ink.colour,
            linestyle="none" if panel.dots else ink.dashes,
            marker="." if panel.dots else "o" if panel.points else None,
            markersize=3.5,
            label=ink.label,
            zorder=10 - depth,
            drawstyle="steps-post" if panel.steps else "default",
        )
    if "x" in panel.log:
        ax.set_xscale("log")
    else:
        ax.set_xlim(0, panel.right or np.ceil(max(line.x[-1] for line in panel.lines)))
        ax.xaxis.set_major_formatter(
            lambda value, _: f"{value:,.0f}" if value == round(value) else f"{value:g}"
        )
    if "y" in panel.log:
        ax.set_yscale("log")
    else:
        highest = max(float(np.nanmax(line.y)) for line in panel.lines)
        # A tiny run may have nothing to show: no row waited.
        ax.set_ylim(0, panel.top or 1.06 * highest or 1.0)
    ax.set_xlabel(panel.x)
    ax.set_ylabel(panel.y)
    for time, text in panel.marks:
        ax.axvline(time, color="#8a8f98", linewidth=0.9, linestyle=(0, (3, 3)), zorder=1)
        ax.annotate(
            text,
            (time, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(-4, -4),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=8,
            color="#5b616b",
        )


def unit_of(quantity: str, largest: float) -> tuple[float, str]:
    """A factor and an axis title that keep the numbers short.

    >>> unit_of("results", 1.2e8)
    (1e-06, 'results (million)')
    """
    if quantity == "cost":
        if largest < 1e-3:
            return 1e6, "cost per result (µs)"
        return 1e3, "cost per result (ms)"
    if largest >= 2e6:
        return 1e-6, "results (million)"
    if largest >= 2e3:
        return 1e-3, "results (thousand)"
    return 1.0, "results"
