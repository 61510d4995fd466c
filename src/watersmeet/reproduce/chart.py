"""How a figure of four panels is drawn: one colour per algorithm, wherever it appears."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from watersmeet.errors import MissingPackage
from watersmeet.reproduce.curve import POINTS, Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Ink:
    label: str
    colour: str
    dashes: str | tuple[int, tuple[float, ...]] = "-"


INKS = {
    # Okabe and Ito's colours, told apart with any kind of colour vision; dashes for print.
    "rpj": Ink("RPJ", "#0072B2"),
    "hmj": Ink("HMJ", "#D55E00", (0, (6, 1.6))),
    "xjoin": Ink("XJoin", "#009E73", (0, (1.2, 1.2))),
    "rpj-dd": Ink("RPJ-dd", "#B0508E", (0, (6, 1.6))),
    "rpj-md": Ink("RPJ-md", "#C98A00", (0, (1.2, 1.2))),
}

START = POINTS // 32
"""Points left out of the height of a panel: a cost per result means little at the first ones."""

STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8a8f98",
    "axes.labelcolor": "#33373d",
    "axes.grid": True,
    "grid.color": "#e4e7eb",
    "grid.linewidth": 0.8,
    "xtick.color": "#5b616b",
    "ytick.color": "#5b616b",
    "text.color": "#1d2126",
    "lines.linewidth": 1.9,
    "lines.solid_capstyle": "round",
    "svg.fonttype": "path",  # the page must look the same where the font is missing
    "svg.hashsalt": "watersmeet",  # the same curves give the same file
    "savefig.facecolor": "white",
}


@dataclass(frozen=True)
class Panel:
    """One small plot: its lines, and where on the time axis something happened."""

    title: str
    curves: Sequence[Curve]
    marks: Sequence[tuple[float, str]] = ()


@dataclass(frozen=True)
class Figure:
    number: str
    title: str
    quantity: str
    """`results` or `cost`: which column of the curves is drawn."""
    panels: Sequence[Panel]


def require_matplotlib() -> None:
    """Fail before hours of virtual time have been spent, not after."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingPackage(
            "Figures need matplotlib, which is not installed.",
            remedy='Install it with pip install "watersmeet[plots]".',
        ) from None


def draw(figure: Figure, directory: Path) -> tuple[Path, Path]:
    """Write the figure as SVG and PNG; the paths of the two files."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with mpl.rc_context(STYLE):
        layout = ConstrainedLayoutEngine(h_pad=0.09, w_pad=0.09)
        canvas = Canvas(figsize=(9.6, 6.6), layout=layout)
        axes = canvas.subplots(2, 2).ravel()
        for letter, panel, ax in zip("abcd", figure.panels, axes, strict=True):
            _draw_panel(ax, panel, letter=letter, quantity=figure.quantity)
        handles, labels = axes[0].get_legend_handles_labels()
        canvas.suptitle(figure.title, x=0.012, ha="left", fontsize=12.5, fontweight="bold")
        canvas.legend(
            handles,
            labels,
            loc="outside upper right",
            ncols=len(labels),
            frameon=False,
            fontsize=10,
            handlelength=2.6,
        )
        svg = directory / f"figure-{figure.number}.svg"
        png = directory / f"figure-{figure.number}.png"
        canvas.savefig(svg, metadata={"Date": None})
        canvas.savefig(png, dpi=150)
    return svg, png


def _draw_panel(ax: Axes, panel: Panel, *, letter: str, quantity: str) -> None:
    ax.set_title(f"({letter}) {panel.title}")
    values = [getattr(curve, quantity) for curve in panel.curves]
    top = max(float(np.nanmax(line[START:])) for line in values)
    factor, unit = _unit(quantity, top)
    # The first algorithm is the paper's own: drawn last, so that it lies on top.
    for depth, (curve, line) in enumerate(zip(panel.curves, values, strict=True)):
        ink = INKS[curve.algorithm]
        ax.plot(
            curve.time,
            line * factor,
            color=ink.colour,
            linestyle=ink.dashes,
            label=ink.label,
            zorder=10 - depth,
        )
    ax.set_xlim(0, np.ceil(max(curve.time[-1] for curve in panel.curves)))
    ax.set_ylim(0, 1.06 * top * factor)
    ax.set_xlabel("elapsed time (virtual seconds)")
    ax.set_ylabel(unit)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
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


def _unit(quantity: str, largest: float) -> tuple[float, str]:
    """A factor and an axis title that keep the numbers short.

    >>> _unit("results", 1.2e8)
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
