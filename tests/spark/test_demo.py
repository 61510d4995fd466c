"""`watersmeet demo` as a stranger runs it: it ends well, says what it found, leaves nothing."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from watersmeet.cli import spark_tables
from watersmeet.cli.demo import tpch
from watersmeet.errors import WatersmeetError

pytestmark = pytest.mark.spark

COMMAND = [sys.executable, "-m", "watersmeet.cli", "demo", "--scale", "0.01"]


def started(tmp_path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        COMMAND,
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_both_joins_give_the_same_rows_and_the_first_are_shown(tmp_path: Path) -> None:
    demo = started(tmp_path)
    shown, complaints = demo.communicate(timeout=300)
    assert demo.returncode == 0, shown + complaints
    assert complaints == ""
    assert re.search(r"^    orderkey +custkey .*\n    -+ .*\n    \d+ ", shown, re.MULTILINE)
    # TPC-H says how many rows there are, and every line belongs to an order.
    assert len(re.findall(r"^ +[\d.]+ s +75,175 +60,175$", shown, re.MULTILINE)) == 2
    words = " ".join(shown.split())
    assert "times earlier than Spark's own" in words or "times later than Spark's own" in words
    assert "The same 60,175 rows (checked: count and checksum)." in words
    assert "First intervals after" in words
    assert "The same answer to the last digit." in words
    assert re.search(r"^    o_orderpriority .* revenue$", shown, re.MULTILINE)
    assert re.search(r"^  exact after [\d.]+ s: 60,175 rows read$", shown, re.MULTILINE)
    assert "\x1b" not in shown
    assert not list(tmp_path.glob("watersmeet*"))
    assert not list(tmp_path.glob("*.parquet"))


@pytest.mark.slow
def test_ctrl_c_is_answered_in_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    demo = started(tmp_path)
    assert demo.stdout is not None
    for line in demo.stdout:
        if "first rows" in line:
            demo.send_signal(signal.SIGINT)
    _, complaints = demo.communicate(timeout=120)
    assert demo.returncode == 130
    assert complaints == "\nwatersmeet: interrupted; spilled files are removed.\n"
    assert not list(tmp_path.glob("watersmeet*"))


class LostForWords:
    """A session whose JVM was interrupted in mid-word: nothing can be asked of it any more."""

    def stop(self) -> None:
        raise ConnectionError("Answer from Java side is empty")


def test_tidying_up_after_ctrl_c_may_fail_and_is_still_an_interruption() -> None:
    with pytest.raises(KeyboardInterrupt), spark_tables.closing_session(LostForWords()):
        raise KeyboardInterrupt
    with pytest.raises(ConnectionError), spark_tables.closing_session(LostForWords()):
        pass

    def interrupted() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            LostForWords().stop()

    with pytest.raises(ConnectionError) as caught:
        interrupted()
    assert spark_tables.was_interrupted(caught.value)
    assert not spark_tables.was_interrupted(ConnectionError())


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name, path=None: None)
    with pytest.raises(WatersmeetError, match="tpchgen-cli") as raised:
        tpch.make_tables(tmp_path, scale=0.01)
    assert "demo --local" in str(raised.value)
