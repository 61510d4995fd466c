"""Drivers that are killed with their JVM, at a place that is named or at any moment."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.spark.streams.running import Streams

HERE = Path(__file__).parents[3]
PLACES = ["rows", "home", "files", "before", "after", "emit"]


def start_driver(streams: Streams, where: str, case: str = "plain") -> subprocess.Popen[str]:
    """A driver of its own session, so that it can be killed with its JVM."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.spark.streams.driver", str(streams.path), where, case],
        cwd=HERE,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def end(driver: subprocess.Popen[str]) -> None:
    """Leave no JVM behind, whatever the test came to."""
    try:
        os.killpg(driver.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def kill_when(streams: Streams, files: int, case: str = "plain") -> None:
    """Start a driver, and kill it when so many files have been written by Spark and by us."""
    with start_driver(streams, "nowhere", case) as driver:
        try:
            while driver.poll() is None and files_of(streams) < files:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    driver.wait(0.02)
        finally:
            end(driver)


def files_of(streams: Streams) -> int:
    """How many files there are of the query, besides its inputs."""
    folders = ("checkpoint", "state", "out")
    return sum(1 for name in folders for _ in (streams.path / name).rglob("*"))
