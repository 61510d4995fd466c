"""How an estimate looks on a terminal: a line for each group, and why not to trust some."""

from __future__ import annotations

import math
import shutil
import sys
import textwrap
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from watersmeet.words import seconds_text, size_text

if TYPE_CHECKING:
    from watersmeet.aggregates.answer.estimate import Estimate

_WIDEST = 28
_MARKS = "*†‡§¶"
_REASONS = 6

# A group's values, and a pair of value and error for each aggregate.
_Row = tuple[list[str], list[tuple[str, str]]]


def show(estimate: Estimate, *, groups: int = 20, width: int | None = None) -> str:
    """The head line, the table, the reasons behind its marks.

    A table wider than `width`, by default that of the terminal, goes on below itself.
    """
    order = in_order(estimate)
    shown = order[: max(groups, 0)]
    reasons = _reasons(estimate, shown)
    width = width or terminal_width()
    lines = [*textwrap.wrap(head(estimate), width), ""]
    if estimate.group_names:
        lines += _table(estimate, shown, reasons, width=width)
    else:
        lines += _list(estimate, reasons)
    if len(order) > len(shown):
        lines.append(f"  and {len(order) - len(shown):,} groups more")
    if not order:
        lines.append("  no group so far" if not estimate.exact else "  no group")
    return "\n".join(lines + _foot(estimate, reasons, width=width))


def head(estimate: Estimate) -> str:
    """In one line: what it has cost so far, and how good the worst cell is."""
    progress = estimate.progress
    seconds = seconds_text(progress.seconds)
    if estimate.exact:
        read = f": {progress.rows:,} rows read" if progress.counted else ""
        return f"exact after {seconds}{read}"
    if not progress.sized:
        return f"after {seconds}: read {progress.rows_read:,} rows; {_widest(estimate)}"
    share = 100 * progress.fraction
    part = f"{share:.1f}%" if share >= 0.1 else f"{share:.2g}%"
    if not progress.counted:
        return f"after {seconds}: read {part} of all partitions; {_widest(estimate)}"
    return (
        f"after {seconds}: read {size_text(progress.bytes_read)} of "
        f"{size_text(progress.nbytes)}, {part} of {progress.rows:,} rows; {_widest(estimate)}"
    )


def terminal_width() -> int:
    """Columns of the terminal; elsewhere a line is as long as it must be."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000


def in_order(estimate: Estimate) -> list[int]:
    """Groups by name: an order that stays while estimates change."""
    keys = estimate.keys()
    return sorted(range(len(keys)), key=lambda place: [_sortable(each) for each in keys[place]])


def number_text(value: float) -> str:
    """Six digits or so, as a person writes them.

    >>> number_text(1234567.891), number_text(0.012345678), number_text(12.5)
    ('1,234,568', '0.0123457', '12.5')
    """
    if abs(value) >= 1e5:
        return f"{value:,.0f}"
    return f"{value:,.6g}"


def group_text(key: Sequence[Any]) -> str:
    return ", ".join(_text(value) for value in key)


def _widest(estimate: Estimate) -> str:
    """The worst cell, since it decides whether to go on."""
    cells = estimate.cells
    promised = f"{100 * estimate.confidence:.4g}% intervals"
    doubtful = int((~cells.trusted).sum())
    if not cells.trusted.any():
        return f"no {promised} to trust yet"
    trusted = cells.relative[cells.trusted]
    widest = float(np.nanmax(trusted)) if not np.isnan(trusted).all() else math.nan
    text = f"{promised} within ± {widest:.2%}" if np.isfinite(widest) else promised
    return text + (f", {doubtful:,} of {cells.trusted.size:,} not to trust" if doubtful else "")


def _reasons(estimate: Estimate, shown: Sequence[int]) -> list[str]:
    """Those of the lines that are shown, in the order in which one meets them."""
    found = [
        str(estimate.cells.reason[number, place])
        for place in shown
        for number in range(len(estimate.names))
    ]
    return list(dict.fromkeys(reason for reason in found if reason))


def _table(
    estimate: Estimate, shown: Sequence[int], reasons: Sequence[str], *, width: int
) -> list[str]:
    rows = [_row(estimate, place, reasons) for place in shown]
    names = list(estimate.group_names)
    left = [_width([name, *(row[0][place] for row in rows)]) for place, name in enumerate(names)]
    columns = [
        (
            _width([name, *(row[1][number][0] for row in rows)]),
            _width([row[1][number][1] for row in rows]),
        )
        for number, name in enumerate(estimate.names)
    ]
    lines: list[str] = []
    for part in _parts(
        [value + 2 + error for value, error in columns], sum(left), len(left), width
    ):
        lines += [""] if lines else []
        heads = [(estimate.names[number], "") for number in part]
        for group, cells in [(names, heads), *((r[0], [r[1][n] for n in part]) for r in rows)]:
            texts = [text.ljust(size) for text, size in zip(group, left, strict=True)]
            for (value, error), number in zip(cells, part, strict=True):
                sizes = columns[number]
                texts.append(value.rjust(sizes[0]))
                texts += [error.rjust(sizes[1])] if sizes[1] else []
            lines.append(("  " + "  ".join(texts)).rstrip())
    return lines


def _parts(sizes: Sequence[int], left: int, names: int, width: int) -> list[list[int]]:
    """Columns that fit beside the groups, one at least; then the next ones."""
    parts: list[list[int]] = []
    used = width + 1
    for number, size in enumerate(sizes):
        if used + 2 + size > width:
            parts.append([])
            used = left + 2 * names
        parts[-1].append(number)
        used += 2 + size
    return parts


def _list(estimate: Estimate, reasons: Sequence[str]) -> list[str]:
    """One row lies better on its side."""
    _, cells = _row(estimate, 0, reasons)
    name, value, error = (
        _width(texts)
        for texts in (estimate.names, [cell[0] for cell in cells], [cell[1] for cell in cells])
    )
    return [
        f"  {each.ljust(name)}  {cell[0].rjust(value)}  {cell[1].rjust(error)}".rstrip()
        for each, cell in zip(estimate.names, cells, strict=True)
    ]


def _row(estimate: Estimate, place: int, reasons: Sequence[str]) -> _Row:
    names = [_text(values[place].as_py()) for values in estimate.groups]
    count = range(len(estimate.names))
    return names, [_cell(estimate, number, place, reasons) for number in count]


def _cell(estimate: Estimate, number: int, place: int, reasons: Sequence[str]) -> tuple[str, str]:
    cells = estimate.cells
    if estimate.exact:
        return _text(estimate.columns[number][place].as_py()), ""
    reason = cells.reason[number, place]
    mark = f" {_mark(reasons.index(reason))}" if reason else "  " if reasons else ""
    value, low, high = (float(each[number, place]) for each in (cells.value, cells.low, cells.high))
    if math.isnan(value):
        return "null", mark
    half = (high - low) / 2
    if not math.isfinite(half):
        return number_text(value), f"± ?{mark}"
    if value:
        return number_text(value), f"± {abs(half / value):.2%}{mark}"
    return number_text(
        value
    ), f"± {number_text(half)}{mark}" if low else f"≤ {number_text(high)}{mark}"


def _foot(estimate: Estimate, reasons: Sequence[str], *, width: int) -> list[str]:
    lines = []
    if estimate.unseen is not None and estimate.unseen.share > 0 and estimate.keys():
        lines.append(
            f"  groups not seen yet: about {estimate.unseen.share:.2%} of all rows, "
            f"at most {estimate.unseen.most:.2%}"
        )
    lines += [f"  {_mark(number)} {reason}" for number, reason in enumerate(reasons[:_REASONS])]
    if len(reasons) > _REASONS:
        lines.append(f"  and {len(reasons) - _REASONS} reasons more, in `reasons`")
    wrapped = [textwrap.wrap(line, width, subsequent_indent="    ") for line in lines]
    return [line for lines in wrapped for line in lines]


def _sortable(value: Any) -> tuple[bool, Any]:
    return (value is None, "" if value is None else value)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | Decimal):
        return f"{value:,}"
    if isinstance(value, float):
        return number_text(value)
    text = "null" if value is None else str(value)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def _mark(number: int) -> str:
    return _MARKS[number] if number < len(_MARKS) else f"({number + 1})"


def _width(texts: Sequence[str]) -> int:
    return max(map(len, texts), default=0)
