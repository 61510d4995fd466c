"""How far a join has come: one line that is redrawn on a terminal, and a summary at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from watersmeet.local import LocalJoin
from watersmeet.words import megabytes

_REDRAW_S = 0.1
_CLEAR = "\r\x1b[K"


class ProgressLine:
    """Counts and times the rows of a join, and shows both on a terminal."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._first_s: float | None = None
        self._all_s = 0.0
        self._drawn_s = 0.0
        self._rows = 0

    def watch(self, join: LocalJoin) -> Iterator[pa.RecordBatch]:
        on_terminal = sys.stderr.isatty()
        try:
            for batch in join:
                self._all_s = time.monotonic() - self._started
                if self._first_s is None:
                    self._first_s = self._all_s
                self._rows += len(batch)
                if on_terminal and self._all_s - self._drawn_s > _REDRAW_S:
                    self._drawn_s = self._all_s
                    print(_CLEAR + self._line(join), end="", file=sys.stderr, flush=True)
                yield batch
            self._all_s = time.monotonic() - self._started
        finally:
            if self._drawn_s:
                print(_CLEAR, end="", file=sys.stderr, flush=True)

    def summary(self, join: LocalJoin) -> dict[str, Any]:
        """For machines: what came out, how long it took, and every counter of the operator."""
        return {
            "rows": self._rows,
            "first_row_s": self._first_s,
            "seconds": self._all_s,
            "columns": {field.name: str(field.type) for field in join.schema},
            "metrics": join.metrics.as_dict(),
        }

    def sentence(self, join: LocalJoin) -> str:
        metrics = join.metrics
        *others, last = (f"{rows:,}" for rows in metrics.rows_in)
        first = "" if self._first_s is None else f", the first after {self._first_s:.2f} s"
        spilled = (
            f"spilled {megabytes(metrics.bytes_spilled)}" if metrics.flush_count else "no spill"
        )
        return (
            f"{self._rows:,} rows in {self._all_s:.2f} s{first}; "
            f"read {', '.join(others)} and {last} rows, "
            f"memory at most {megabytes(metrics.memory_peak)}, {spilled}."
        )

    def _line(self, join: LocalJoin) -> str:
        metrics = join.metrics
        read = " + ".join(f"{rows:,}" for rows in metrics.rows_in)
        return (
            f"{self._all_s:6.1f} s  read {read}  found {self._rows:,}  "
            f"spilled {megabytes(metrics.bytes_spilled)}"
        )
