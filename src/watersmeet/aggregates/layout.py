"""How an estimate looks on a terminal: a line for each group, and why not to trust some."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from watersmeet.aggregates.estimate import Estimate

_WIDEST = 28
_MARKS = "*†‡§¶"


def show(estimate: Estimate, *, groups: int) -> str:
    """The head line, the table, the reasons behind its marks."""
    reasons = estimate.reasons
    rows = [[*estimate.group_names, *(cell for name in estimate.names for cell in (name, ""))]]
    count = estimate.cells.value.shape[1]
    for place in _order(estimate)[:groups]:
        names = [_text(values[place].as_py()) for values in estimate.groups]
        cells = [
            text
            for number in range(len(estimate.names))
            for text in _cell(estimate, number, place, reasons)
        ]
        rows.append([*names, *cells])
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    left = len(estimate.group_names)
    lines = [_head(estimate), ""]
    for row in rows:
        texts = [
            text.ljust(width) if place < left else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(("  " + "  ".join(texts)).rstrip())
    if count > groups:
        lines.append(f"  and {count - groups:,} groups more")
    if estimate.unseen is not None and estimate.unseen.share > 0:
        lines.append(
            f"  groups not seen yet: about {estimate.unseen.share:.2%} of all rows, "
            f"at most {estimate.unseen.most:.2%}"
        )
    lines += [f"  {_mark(number)} {reason}" for number, reason in enumerate(reasons)]
    return "\n".join(lines)


def _head(estimate: Estimate) -> str:
    progress = estimate.progress
    if estimate.exact:
        return f"exact after {progress.seconds:.1f} s"
    return (
        f"after {progress.seconds:.1f} s: {progress.fraction:.1%} of "
        f"{progress.rows:,} rows read; intervals of {estimate.confidence:.4g}".rstrip("0")
    )


def _order(estimate: Estimate) -> list[int]:
    """Groups by name: an order that stays while estimates change."""
    count = estimate.cells.value.shape[1]
    if not estimate.groups:
        return list(range(count))
    columns = [values.to_pylist() for values in estimate.groups]
    return sorted(range(count), key=lambda place: [_sortable(c[place]) for c in columns])


def _sortable(value: Any) -> tuple[bool, Any]:
    return (value is None, "" if value is None else value)


def _cell(estimate: Estimate, number: int, place: int, reasons: list[str]) -> tuple[str, str]:
    cells = estimate.cells
    if estimate.exact:
        return _text(estimate.columns[number][place].as_py()), ""
    value = float(cells.value[number, place])
    if math.isnan(value):
        return "null", ""
    reason = cells.reason[number, place]
    mark = f" {_mark(reasons.index(reason))}" if reason else "  " if reasons else ""
    half = (cells.high[number, place] - cells.low[number, place]) / 2
    if not np.isfinite(half):
        return number_text(value), f"± ?{mark}"
    if value:
        return number_text(value), f"± {abs(half / value):.2%}{mark}"
    return number_text(value), f"≤ {number_text(float(cells.high[number, place]))}{mark}"


def number_text(value: float) -> str:
    """Six digits or so, as a person writes them.

    >>> number_text(1234567.891), number_text(0.012345678), number_text(12.5)
    ('1,234,568', '0.0123457', '12.5')
    """
    if abs(value) >= 1e5:
        return f"{value:,.0f}"
    return f"{value:,.6g}"


def _text(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, float):
        return number_text(value)
    text = "null" if value is None else str(value)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def _mark(number: int) -> str:
    return _MARKS[number] if number < len(_MARKS) else f"({number + 1})"
