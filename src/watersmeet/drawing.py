"""How our figures look, whoever draws them: matplotlib's settings, and colours for everybody."""

from __future__ import annotations

from typing import Any

from watersmeet.errors import MissingPackage

# Okabe and Ito's colours, told apart with any kind of colour vision.
BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
GREY = "#5b616b"

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
    "xtick.color": GREY,
    "ytick.color": GREY,
    "text.color": "#1d2126",
    "lines.linewidth": 1.9,
    "lines.solid_capstyle": "round",
    "svg.fonttype": "path",  # the page must look the same where the font is missing
    "svg.hashsalt": "watersmeet",  # the same curves give the same file
    "savefig.facecolor": "white",
}


def require_matplotlib() -> None:
    """Fail before the work that a figure shows has been done, not after."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingPackage(
            "Figures need matplotlib, which is not installed.",
            remedy="Install it with `pip install matplotlib`.",
        ) from None
