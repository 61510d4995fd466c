"""How much memory a process takes, seen from another process."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from benchmarks.cases import Case, Outcome, Places

ROOT = Path(__file__).resolve().parent.parent
DEADLINE_S = 600.0


class WorkerFailed(RuntimeError):
    """The measured process ended without an outcome."""


class Watched:
    """A process that says `ready` when idle and `done` at the end, and its resident memory.

    The peak is the kernel's own high-water mark, set back at the idle moment, so nothing between
    two looks is missed. Looks are taken only to tell anonymous memory from mapped files.
    """

    def __init__(self, command: list[str], *, look_every_s: float | None = None) -> None:
        # Closed by __exit__.
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        search = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, search))},
        )
        self._look_every_s = look_every_s
        self.idle_bytes = 0
        self._idle_anonymous_bytes = 0
        self._peak_anonymous_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def say(self, message: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(message + "\n")
        self._process.stdin.flush()

    def hear(self) -> Any:
        """The next line the process prints, as JSON; looks at its memory while it waits."""
        assert self._process.stdout is not None
        patience = time.monotonic() + DEADLINE_S
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while not selector.select(self._look_every_s or DEADLINE_S):
                if time.monotonic() > patience:
                    raise WorkerFailed(f"No answer in {DEADLINE_S:.0f} s.")
                self._look()
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            raise WorkerFailed(
                f"Ended with code {self._process.returncode}:\n{self._errors.read()[-4000:]}"
            )
        return json.loads(line)

    def start_from_here(self) -> None:
        """Take what the process holds now as idle, and count its peak from here on."""
        status = self._status()
        self.idle_bytes = status["VmRSS"]
        self._idle_anonymous_bytes = status.get("RssAnon", 0)
        self._peak_anonymous_bytes = 0  # what was needed to get ready does not count
        # "5" sets the high-water mark back to the present size (proc_pid_clear_refs(5)).
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")
        self._look()

    def peak_bytes(self) -> int:
        """The most it held at any moment since then, above what it held idle."""
        return self._status()["VmHWM"] - self.idle_bytes

    def peak_anonymous_bytes(self) -> int:
        """The most at any look, without pages of mapped files, which the kernel can drop."""
        return max(0, self._peak_anonymous_bytes - self._idle_anonymous_bytes)

    def _look(self) -> None:
        anonymous = self._status().get("RssAnon", 0)
        self._peak_anonymous_bytes = max(self._peak_anonymous_bytes, anonymous)

    def _status(self) -> Mapping[str, int]:
        text = Path(f"/proc/{self._process.pid}/status").read_text()
        lines = (line.split() for line in text.splitlines())
        return {words[0][:-1]: int(words[1]) * 1024 for words in lines if words[-1] == "kB"}


def measure(
    case: Case, places: Places, *, check: bool, look_every_s: float | None = None
) -> Outcome:
    """Run one case in a fresh process and bring back its outcome with its memory.

    With `check` the result is added up while it comes, which costs time; without, only counted.
    """
    order = {"case": case.to_json(), "scratch": str(places.scratch), "check": check}
    with Watched(["-m", "benchmarks.worker"], look_every_s=look_every_s) as watched:
        watched.say(json.dumps(order))
        watched.hear()
        watched.start_from_here()
        watched.say("go")
        outcome = watched.hear()
        return Outcome(
            **outcome,
            idle_bytes=watched.idle_bytes,
            peak_bytes=watched.peak_bytes(),
            peak_anonymous_bytes=watched.peak_anonymous_bytes(),
        )


def ask(module: str, order: dict[str, Any], *, within_s: float) -> dict[str, Any]:
    """What a module, in a process of its own, answers to an order: both are JSON."""
    done = subprocess.run(
        [sys.executable, "-m", module],
        input=json.dumps(order),
        capture_output=True,
        text=True,
        timeout=within_s,
        cwd=ROOT,
    )
    if done.returncode:
        raise WorkerFailed(f"{done.stderr.strip().splitlines()[-1:]}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer
