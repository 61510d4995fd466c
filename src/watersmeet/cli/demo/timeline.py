"""What arrived and what was found, over time, as a few lines that are redrawn in place."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TextIO

_BARS = " ▁▂▃▄▅▆▇█"
_REDRAW_S = 0.1
_GREY = "90"
_RESET = "\x1b[0m"
# Hide the cursor, which would be seen running through the picture, and do not wrap lines: if a
# narrow screen broke one in two, it would be redrawn at the wrong place.
BEGIN_LIVE, END_LIVE = "\x1b[?25l\x1b[?7l", "\x1b[?25h\x1b[?7h"


@dataclass
class Track:
    """One line: how many rows in each slice of time, in which colour, and words in between.

    `full` is the number of rows of a full bar. It is fixed, so that bars do not change once drawn.
    """

    name: str
    full: float
    rows: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    colours: dict[int, str] = field(default_factory=dict)
    letters: dict[int, str] = field(default_factory=dict)
    complete: bool = False

    def mark(self, column: int) -> str:
        rows = self.rows.get(column, 0)
        if not rows:
            over = self.complete and column > max(self.rows, default=0)
            return self.letters.get(column, " " if over else "·")
        return _BARS[max(1, min(8, round(8 * rows / self.full)))]


class Timeline:
    """Tracks over a fixed span of seconds, drawn by a thread of its own.

    On anything but a terminal the same facts come as a plain line every second.
    """

    def __init__(
        self,
        tracks: list[Track],
        *,
        seconds: float,
        columns: int,
        status: Callable[[float], list[str]],
        stream: TextIO | None = None,
    ) -> None:
        self._tracks = tracks
        self._slice_s = seconds / columns
        self._columns = columns
        self._status = status
        self._stream = stream or sys.stdout
        self._live = can_draw(self._stream)
        self._coloured = self._live and not os.environ.get("NO_COLOR")
        self._began = time.monotonic()
        self._drawn_lines = 0
        self._over = threading.Event()
        self._drawer = threading.Thread(target=self._draw_on, name="timeline", daemon=True)

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        if self._live:
            self._write(BEGIN_LIVE)
        self._drawer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._drawer.join()
        self._draw()
        if self._live:
            self._write(END_LIVE)

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began

    def add(self, track: Track, rows: int, *, colour: str = "") -> None:
        column = self._column()
        track.rows[column] += rows
        track.colours[column] = colour

    def note(self, track: Track, words: str) -> None:
        """Write words into the slices that follow; they become visible as time passes."""
        track.letters |= dict(enumerate(f" {words} ", start=self._column() + 1))

    def complete(self, track: Track) -> None:
        self.note(track, "complete")
        track.complete = True

    def paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}{_RESET}" if self._coloured and colour else text

    def _column(self) -> int:
        return min(self._columns - 1, int(self.now / self._slice_s))

    def _reached(self, track: Track) -> int:
        # After the end no time passes that would uncover the rest of a word.
        unread = max(track.letters, default=0) if self._over.is_set() else 0
        return max(self._column(), unread)

    def _draw_on(self) -> None:
        pause = _REDRAW_S if self._live else 1.0
        while not self._over.wait(pause):
            self._draw()

    def _draw(self) -> None:
        now = self.now
        if not self._live:
            self._write(f"{now:5.1f} s  " + "  ".join(self._status(now)) + "\n")
            return
        lines = [self._line(track) for track in self._tracks]
        lines += [self._axis(), "", *self._status(now)]
        back = f"\x1b[{self._drawn_lines}A" if self._drawn_lines else ""
        self._drawn_lines = len(lines)
        # One write for all lines, each cleared only behind its end, so that nothing flickers.
        self._write(back + "".join(f"\r{line}\x1b[K\n" for line in lines))

    def _line(self, track: Track) -> str:
        pieces = [
            self.paint(track.mark(column), track.colours.get(column, _GREY))
            for column in range(self._reached(track) + 1)
        ]
        return f"  {track.name:<9} " + "".join(pieces)

    def _axis(self) -> str:
        marks = [" "] * (self._columns + 4)
        for second in range(0, int(self._slice_s * self._columns) + 1, 2):
            at = round(second / self._slice_s)
            marks[at : at + 3] = list(f"{second}s".ljust(3))
        return "            " + self.paint("".join(marks).rstrip(), _GREY)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def can_draw(stream: TextIO) -> bool:
    """Whether a picture can be redrawn in place: a terminal that knows the letters for it."""
    bars = "utf" in (stream.encoding or "").lower()
    return stream.isatty() and bars and os.environ.get("TERM") != "dumb"
