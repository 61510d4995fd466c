"""Prints the first rows of a result as a table."""

from __future__ import annotations

import shutil
from types import TracebackType
from typing import Self

import pyarrow as pa

_ROWS = 10
_WIDEST = 32


class Preview:
    """Prints the first rows as soon as there are enough to align, or when there are no more."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._rows: list[list[str]] = []
        self._printed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None or self._rows:
            self._print()

    def write(self, batch: pa.RecordBatch) -> None:
        if not self._printed:
            wanted = batch.slice(0, _ROWS - len(self._rows))
            columns = [column.to_pylist() for column in wanted.columns]
            self._rows += [[_text(value) for value in row] for row in zip(*columns, strict=True)]
            if len(self._rows) == _ROWS:
                self._print()

    def _print(self) -> None:
        if not self._printed:
            self._printed = True
            print("\n".join(layout(self._schema.names, self._rows)), flush=True)


def layout(names: list[str], rows: list[list[str]], *, width: int | None = None) -> list[str]:
    """Lines of one table, no wider than the screen; columns that do not fit are left out.

    >>> for line in layout(["id", "name"], [["1", "Ada"], ["22", "Bo"]], width=40): print(line)
    id  name
    --  ----
    1   Ada
    22  Bo
    """
    screen = width or shutil.get_terminal_size().columns
    widths = [min(_WIDEST, max(map(len, cells))) for cells in zip(names, *rows, strict=True)]
    shown = next((n for n in range(len(names), 1, -1) if sum(widths[:n]) + 2 * n + 1 <= screen), 1)
    lines = [names, ["-" * each for each in widths], *rows]
    more = "  …" if shown < len(names) else ""
    return [
        "  ".join(
            _fit(cell, each) for cell, each in zip(line[:shown], widths, strict=False)
        ).rstrip()
        + more
        for line in lines
    ]


def _fit(cell: str, width: int) -> str:
    return cell.ljust(width) if len(cell) <= width else cell[: width - 1] + "…"


def _text(value: object) -> str:
    return "" if value is None else str(value)
