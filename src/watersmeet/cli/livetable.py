"""Shows estimates as they come: as a table that is redrawn in place, or as a line for each look."""

from __future__ import annotations

import shutil
import sys
import textwrap
from types import TracebackType
from typing import Self, TextIO

from watersmeet.aggregates.answer.estimate import Estimate
from watersmeet.aggregates.answer.layout import head, show
from watersmeet.cli.demo.timeline import BEGIN_LIVE, END_LIVE, can_draw


class LiveTable:
    """On a terminal each look is drawn over the one before, and the last one stays. Anywhere else
    looks are a line each on standard error, and only the last one's table is printed."""

    def __init__(self, *, groups: int, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._groups = groups
        self._quiet = quiet
        self._stream = stream or sys.stdout
        self._live = not quiet and can_draw(self._stream)
        self._drawn_lines = 0

    def __enter__(self) -> Self:
        if self._live:
            self._write(BEGIN_LIVE)
            self._draw(["reading the first blocks …"])
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._write(END_LIVE)

    def look(self, estimate: Estimate, outlook: str) -> None:
        """Show an estimate that is not the last, with what the next ones are expected to be."""
        if not self._live:
            if not estimate.exact:
                print(f"{head(estimate)}; {outlook}", file=sys.stderr, flush=True)
            return
        width, height = _screen()
        wrapped = textwrap.wrap(outlook, width)
        groups = self._groups
        # Show fewer groups if the table is higher than the screen: lines that have scrolled away
        # cannot be redrawn.
        while True:
            lines = [*show(estimate, groups=groups, width=width).split("\n"), "", *wrapped]
            if len(lines) < height or groups <= 1:
                break
            groups -= 1
        self._draw(lines[: height - 1])

    def finish(self, estimate: Estimate) -> None:
        """Show the last estimate, which stays on the screen."""
        if self._quiet:
            return
        if not self._live:
            self._write(show(estimate, groups=self._groups) + "\n")
            return
        self._draw(show(estimate, groups=self._groups, width=_screen()[0]).split("\n"))

    def _draw(self, lines: list[str]) -> None:
        back = f"\x1b[{self._drawn_lines}A" if self._drawn_lines else ""
        self._drawn_lines = len(lines)
        # One write for all lines, each cleared only behind its end, so that nothing flickers.
        self._write(back + "".join(f"\r{line}\x1b[K\n" for line in lines) + "\x1b[J")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _screen() -> tuple[int, int]:
    """Columns and lines that can be used. Not the last column: clearing the rest of a line would
    clear a letter there."""
    columns, lines = shutil.get_terminal_size()
    return max(columns - 1, 20), max(lines, 3)
