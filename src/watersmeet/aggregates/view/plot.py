"""How did the intervals shrink? A panel for each aggregate of each group, over time.

What was known at a moment holds until the next look, so a band goes on in steps. Where it was not
to be trusted it is hatched, and its point is hollow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from watersmeet.aggregates.answer.estimate import Estimate
from watersmeet.aggregates.answer.layout import group_text, in_order, number_text
from watersmeet.drawing import BLUE, GREY, STYLE, VERMILION, require_matplotlib
from watersmeet.errors import InvalidArgument

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
_PANEL = 2.3, 1.75
_MARGIN = 1.5, 1.15
# Past this ratio of the last time to the first, the first looks would be one line at the left.
_FAR_APART = 8.0
# Panels of a row have one scale unless their values lie further apart than this many widths.
_ONE_SCALE = 4.0


def plot(history: Sequence[Estimate], *, path: str | Path | None, groups: int) -> Figure:
    """Draw all looks; also into a file, if a path is given."""
    require_matplotlib()
    if path is not None:
        check_path(path)
    import matplotlib as mpl
    from matplotlib.figure import Figure

    last = history[-1]
    panels = _panels(history, groups)
    with mpl.rc_context(STYLE):
        rows, columns = len(panels), len(panels[0])
        size = columns * _PANEL[0] + _MARGIN[0], rows * _PANEL[1] + _MARGIN[1]
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(rows, columns, sharex=True, squeeze=False)
        for line, cells in zip(axes, panels, strict=True):
            for ax, panel in zip(line, cells, strict=True):
                _draw(ax, panel)
            _scale(line, cells)
        _label(axes, panels, history)
        figure.suptitle(_title(last, shown=columns), x=0.012, ha="left", fontweight="bold")
        figure.legend(
            handles=_legend(panels), loc="outside lower left", ncols=4, frameon=False, fontsize=9
        )
        if path is not None:
            kind = Path(path).suffix.lower()
            # The same looks give the same file.
            still = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(kind)
            figure.savefig(path, dpi=150, metadata=still)
    return figure


def check_path(path: str | Path) -> None:
    """Find out before the reading, not after it, that a figure cannot be written there."""
    if Path(path).suffix.lower() not in FORMATS:
        raise InvalidArgument(
            f"{str(path)!r} has an extension that names no kind of picture.",
            remedy="Use one of " + ", ".join(FORMATS) + ".",
        )
    if not Path(path).absolute().parent.is_dir():
        raise InvalidArgument(
            f"{str(path)!r} is in a directory that does not exist.", remedy="Create it first."
        )


@dataclass(frozen=True)
class _Panel:
    """One cell through all looks in which its group was known."""

    aggregate: str
    group: str
    seconds: Any  # arrays by look
    value: Any
    low: Any
    high: Any
    trusted: Any
    exact: float | None
    end: float

    def limits(self) -> tuple[float, float]:
        """What must be seen: values, and the intervals that were to be trusted, if any were."""
        which = self.trusted if self.trusted.any() else ~self.trusted
        shown = [self.value, self.low[which], self.high[which]]
        finite = np.concatenate([each[np.isfinite(each)] for each in shown])
        return (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)


def _panels(history: Sequence[Estimate], groups: int) -> list[list[_Panel]]:
    """A row for each aggregate and a column for each group; without groups, one row."""
    last = history[-1]
    if not last.group_names:
        return [[_panel(history, number, ()) for number in range(len(last.names))]]
    keys = last.keys()
    shown = [keys[place] for place in in_order(last)[: max(groups, 1)]] or [()]
    return [[_panel(history, number, key) for key in shown] for number in range(len(last.names))]


def _panel(history: Sequence[Estimate], number: int, key: tuple[Any, ...]) -> _Panel:
    last = history[-1]
    found = [
        (look, place) for look in history for place, known in enumerate(look.keys()) if known == key
    ]
    looks = [(look, place) for look, place in found if not look.exact]

    def column(name: str) -> Any:
        return np.array([getattr(look.cells, name)[number, place] for look, place in looks], float)

    exact = [float(look.cells.value[number, place]) for look, place in found if look.exact]
    return _Panel(
        aggregate=last.names[number],
        group=group_text(key),
        seconds=np.array([look.seconds for look, _ in looks], float),
        value=column("value"),
        low=column("low"),
        high=column("high"),
        trusted=column("trusted").astype(bool),
        exact=exact[0] if exact and np.isfinite(exact[0]) else None,
        end=last.seconds,
    )


def _draw(ax: Axes, panel: _Panel) -> None:
    least, most = panel.limits()
    # Ends that are out of sight, or at infinity, are drawn up to the edge.
    room = max(most - least, 1e-9 * max(abs(most), 1.0))
    low, high = (
        np.nan_to_num(ends, nan=least, posinf=most + room, neginf=least - room)
        for ends in (panel.low, panel.high)
    )
    known = np.isfinite(panel.value)
    until = np.append(panel.seconds[1:], panel.end if panel.exact is not None else np.inf)
    until = np.where(np.isfinite(until), until, 1.12 * panel.end)
    for look in np.flatnonzero(known):
        trusted = bool(panel.trusted[look])
        span = [panel.seconds[look], until[look]]
        ax.fill_between(
            span,
            low[look],
            high[look],
            facecolor=BLUE if trusted else "none",
            alpha=0.18 if trusted else 0.5,
            edgecolor="none" if trusted else GREY,
            hatch=None if trusted else "////",
            linewidth=0,
        )
        ax.plot(span, [panel.value[look]] * 2, color=BLUE if trusted else GREY, linewidth=1.2)
        ax.plot(
            [panel.seconds[look]] * 2,
            [low[look], high[look]],
            color=BLUE if trusted else GREY,
            linewidth=1.2,
        )
        ax.plot(
            panel.seconds[look],
            panel.value[look],
            "o",
            markersize=4.5,
            color=BLUE if trusted else GREY,
            markerfacecolor=BLUE if trusted else "white",
            zorder=4,
        )
    if panel.exact is not None:
        ax.axhline(panel.exact, color=VERMILION, linewidth=1.2, linestyle=(0, (4, 2)), zorder=3)
        ax.plot(panel.end, panel.exact, "D", color=VERMILION, markersize=5, zorder=5)
    elif not known.any():
        ax.text(0.5, 0.5, "null", transform=ax.transAxes, ha="center", va="center", color=GREY)


def _scale(line: Sequence[Axes], cells: Sequence[_Panel]) -> None:
    """One scale for the panels of a row, where that leaves their intervals to be seen."""
    from matplotlib.ticker import MaxNLocator

    limits = [_with_exact(panel) for panel in cells]
    widths = [most - least for least, most in limits]
    whole = min(least for least, _ in limits), max(most for _, most in limits)
    shared = (
        len({panel.aggregate for panel in cells}) == 1
        and whole[1] - whole[0] <= _ONE_SCALE * float(np.median(widths))
    )  # fmt: skip
    for place, (ax, own) in enumerate(zip(line, limits, strict=True)):
        least, most = whole if shared else own
        pad = 0.08 * (most - least) or 0.01 * abs(most) or 1.0
        ax.set_ylim(least - pad, most + pad)
        ax.yaxis.set_major_locator(MaxNLocator(nbins=4))
        ax.yaxis.set_major_formatter(_ticks(max(abs(least), abs(most))))
        ax.tick_params(labelleft=not shared or place == 0)


def _with_exact(panel: _Panel) -> tuple[float, float]:
    if panel.exact is None:
        return panel.limits()
    if not len(panel.value):
        return panel.exact, panel.exact
    least, most = panel.limits()
    return min(least, panel.exact), max(most, panel.exact)


def _label(axes: Any, panels: Sequence[Sequence[_Panel]], history: Sequence[Estimate]) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    by_group = bool(history[-1].group_names)
    for place, panel in enumerate(panels[0]):
        axes[0, place].set_title(panel.group if by_group else panel.aggregate)
    for line, cells in zip(axes, panels, strict=True):
        if by_group:
            line[0].set_ylabel(cells[0].aggregate)
        for ax in line:
            ax.margins(x=0.05)
    first, last = history[0].seconds, history[-1].seconds
    for ax in axes[-1]:
        ax.set_xlabel("seconds")
        ax.xaxis.set_major_locator(MaxNLocator(nbins=4))
        if first > 0 and last / first >= _FAR_APART:
            ax.set_xscale("log")
            ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            ax.xaxis.set_minor_formatter(NullFormatter())


def _title(last: Estimate, *, shown: int) -> str:
    count = last.cells.value.shape[1]
    more = f", {shown} of {count:,} groups" if last.group_names and count > shown else ""
    by = f" by {', '.join(last.group_names)}" if last.group_names else ""
    return f"{', '.join(last.names)}{by}{more}: {100 * last.confidence:.4g}% intervals"


def _legend(panels: Sequence[Sequence[_Panel]]) -> list[Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    every = [panel for cells in panels for panel in cells]
    handles: list[Any] = []
    if any(len(panel.value) for panel in every):
        handles.append(Line2D([], [], color=BLUE, marker="o", markersize=4.5, label="estimate"))
    if any(panel.trusted.any() for panel in every):
        handles.append(Patch(facecolor=BLUE, alpha=0.18, label="interval"))
    if any((~panel.trusted).any() for panel in every):
        handles.append(
            Patch(
                facecolor="none", edgecolor=GREY, hatch="////", alpha=0.5, label="not to be trusted"
            )
        )
    if any(panel.exact is not None for panel in every):
        handles.append(
            Line2D(
                [], [], color=VERMILION, marker="D", markersize=5, linestyle=(0, (4, 2)),
                linewidth=1.2, label="exact",
            )
        )  # fmt: skip
    return handles


def _ticks(largest: float) -> Any:
    for least, unit, letter in (
        (1e12, 1e12, "T"),
        (1e9, 1e9, "G"),
        (1e6, 1e6, "M"),
        (1e4, 1e3, "k"),
    ):
        if largest >= least:
            return lambda value, _: f"{value / unit:.6g}{letter}"
    return lambda value, _: number_text(value)
