"""A PostgreSQL server of this machine's own, in a directory that goes again."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

_USER = "postgres"


class Server:
    """Listens on a socket in its directory, and on no port."""

    def __init__(self) -> None:
        self._programs = _programs()
        # Not below pytest's directory, into which only its owner can go.
        self._directory = Path(tempfile.mkdtemp(prefix="watersmeet-postgres-"))
        if os.getuid() == 0:  # It refuses to run as root.
            shutil.chown(self._directory, _USER)
        data = str(self._directory / "data")
        self._run("initdb", "--no-sync", "--auth=trust", f"--username={_USER}", "-D", data)
        self._data = data

    @property
    def uri(self) -> str:
        return f"postgresql:///postgres?host={self._directory}&user={_USER}"

    def start(self) -> None:
        options = f"-k {self._directory} -c listen_addresses= -c fsync=off"
        log = str(self._directory / "log")
        self._run("pg_ctl", "start", "--wait", "-D", self._data, "-o", options, "-l", log)

    def stop(self) -> None:
        self._run("pg_ctl", "stop", "--mode=immediate", "-D", self._data)

    def close(self) -> None:
        try:
            self.stop()
        except subprocess.CalledProcessError:
            pass  # It has been stopped already.
        finally:
            shutil.rmtree(self._directory, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        # Not captured: the server would keep the pipe open.
        subprocess.run(
            [str(self._programs / program), *arguments],
            check=True,
            user=_USER if os.getuid() == 0 else None,
            cwd=self._directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def _programs() -> Path:
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not installed:
        pytest.skip("there is no PostgreSQL server here: install postgresql to run this")
    return installed[-1].parent
