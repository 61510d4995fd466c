"""One engine run in a process of its own: prepare, wait for the word, run under the clock.

Speaks JSON lines with `benchmarks.outside`, which may look at this process's memory when it says
`ready` (idle: imports and kernels loaded, a tiny join done) and again when it says `done`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.cases import Case, Places

_POINTS = 200
"""At most so many instants at which the number of rows is told."""


def main() -> None:
    order = json.loads(sys.stdin.readline())
    case = Case.from_json(order["case"])
    places = Places(scratch=Path(order["scratch"]))
    # Before the engine is imported: most count the cores they may use at that moment.
    usable = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, usable[: case.cores])

    from benchmarks.checksum import Tally
    from benchmarks.engines import prepare

    start = prepare(case, places)
    tally = Tally(case.input) if order["check"] else None
    _say({"ready": True})
    sys.stdin.readline()

    rows_out, first_seconds, failure = 0, None, None
    progress: list[tuple[float, int]] = []
    began = time.perf_counter()
    try:
        for batch in start():
            if first_seconds is None and batch.num_rows:
                first_seconds = time.perf_counter() - began
            rows_out += batch.num_rows
            progress.append((time.perf_counter() - began, rows_out))
            if tally is not None:
                tally.add(batch)
    except Exception as error:  # whatever an engine raises is its result
        failure = f"{type(error).__name__}: {error}".splitlines()[0]
    _say(
        {
            "rows_in": 2 * case.input.rows,
            "rows_out": rows_out,
            "checksum": None if tally is None else tally.checksum,
            "seconds": time.perf_counter() - began,
            "first_seconds": first_seconds,
            "failure": failure,
            "notes": {"progress": progress[:: len(progress) // _POINTS + 1]},
        }
    )
    sys.stdin.readline()


def _say(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    main()
