"""A Spark session in a process of its own, asked for runs, and what its Python workers hold."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.outside import DEADLINE_S, Watched, WorkerFailed
from benchmarks.relations import Relations
from benchmarks.spark_measured import Run

CORES = 2
_STOPS_WITHIN_S = 60.0


class SparkProcess(Watched):
    """Runs peers on one session. With `look_every_s`, looks at the Python workers meanwhile.

    Resident memory of a worker is what it has to itself, without the pages that it shares with
    the process it was forked from; `anonymous` is without files that it has mapped.
    """

    def __init__(
        self,
        scratch: Path,
        *,
        warm: bool = True,
        plain: bool = False,
        look_every_s: float | None = None,
        heap: str | None = None,
    ) -> None:
        """With `plain` the session is one that a user might start, with Spark's own settings.
        `heap` is that of the Java process, if the usual one is too small for a peer."""
        super().__init__(["-m", "benchmarks.spark_worker"], look_every_s=look_every_s)
        self._idle: dict[int, dict[str, int]] = {}
        self._peaks: dict[str, int] = defaultdict(int)
        self._opened = False
        self.workers = 0
        opening = {"scratch": str(scratch), "cores": CORES, "warm": warm, "plain": plain}
        opening["heap"] = heap
        self.say(json.dumps(opening))

    def __exit__(self, *exc: object) -> None:
        # Spark removes its files when it is stopped and not killed.
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        finally:
            self._process.stdin = None
            super().__exit__(*exc)

    def run(
        self,
        peer: str,
        relations: Relations,
        *,
        memory: int,
        check: bool = False,
        cold: bool = False,
        settings: Mapping[str, Any] | None = None,
    ) -> Run:
        order = {"peer": peer, "relations": relations.plain(), "memory": memory}
        order["settings"] = dict(settings or {})
        rows = relations.rows
        try:
            self.say(json.dumps({**order, "check": check, "cold": cold}))
            if not self._opened:
                self.hear()
                self._opened = True
            return Run(**self.hear(), rows_in=rows)
        except (WorkerFailed, BrokenPipeError) as error:
            # A process that breaks down is a failure in the table, not the end of the rest.
            text = str(error).strip().splitlines()[-1]
            return Run(rows_in=rows, seconds=DEADLINE_S, failure=text)

    def write(
        self, relations: Relations, folder: Path, *, format: str, memory: int
    ) -> dict[str, str]:
        """Have Spark write both tables; returns their folders, by side."""
        folders = {side: str(folder / side) for side in ("left", "right")}
        settings = {"format": format, "folders": folders}
        one = self.run("written_by_spark", relations, memory=memory, settings=settings)
        if one.failure:
            raise RuntimeError(one.failure)
        return folders

    def start_from_here(self) -> None:
        """Take what the workers hold now as idle."""
        self._idle = {worker: held(worker) for worker in self._python_workers()}
        self._peaks.clear()

    def peak_bytes(self) -> int:
        """The most that all workers together were seen to hold above that."""
        return self._peaks["resident"]

    def forget_peak(self) -> None:
        """Look for a new peak, above the same idle state."""
        self._peaks.clear()

    def peak_anonymous_bytes(self) -> int:
        return self._peaks["anonymous"]

    def _look(self) -> None:
        sums: dict[str, int] = defaultdict(int)
        workers = self._python_workers()
        self.workers = max(self.workers, len(workers))
        for worker in workers:
            idle = self._idle.get(worker, {})
            for name, nbytes in held(worker).items():
                sums[name] += max(nbytes - idle.get(name, 0), 0)
        for name, total in sums.items():
            self._peaks[name] = max(self._peaks[name], total)

    def _python_workers(self) -> list[int]:
        return [worker for java in _children()[self._process.pid] for worker in workers_of(java)]


def workers_of(java: int) -> list[int]:
    """Below Spark's Java process are Python daemons, each the head of a process group: in it are
    the workers that it has forked, and the homes of instances that those have forked."""
    daemons = _children()[java]
    groups = _by_field(_GROUP)
    return [each for daemon in daemons for each in groups[daemon] if each != daemon]


# After the name in /proc/PID/stat.
_PARENT, _GROUP = 1, 2


def _children() -> dict[int, list[int]]:
    return _by_field(_PARENT)


def _by_field(field: int) -> dict[int, list[int]]:
    """All processes by a number that the kernel tells of each."""
    found: dict[int, list[int]] = defaultdict(list)
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                # The name in parentheses may hold anything.
                told = (process / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            found[int(told[field])].append(int(process.name))
    return found


def held(process: int) -> dict[str, int]:
    """Bytes of memory that a process has to itself: not shared with those it was forked from."""
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return {}
    lines = dict(line.split(":", 1) for line in text.splitlines()[1:])
    kilobytes: dict[str, int] = {name: int(value.split()[0]) for name, value in lines.items()}
    return {
        "resident": (kilobytes["Private_Clean"] + kilobytes["Private_Dirty"]) * 1024,
        "anonymous": kilobytes["Anonymous"] * 1024,
    }


def cold_run(peer: str, relations: Relations, scratch: Path, *, memory: int, warm: bool) -> Run:
    """One run on a session that is started for it; the clock starts before that."""
    with SparkProcess(scratch, warm=warm) as process:
        return process.run(peer, relations, memory=memory, cold=True)
