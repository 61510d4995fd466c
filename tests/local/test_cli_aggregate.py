"""`watersmeet aggregate` as a person and as a program meet it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import redirect_stderr, redirect_stdout
from decimal import Decimal
from io import StringIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from watersmeet.cli.__main__ import main

ROWS = 120_000
KINDS = ("cash", "card", "none")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Enough row groups for several looks, in an order that has nothing to do with the key."""
    folder = tmp_path_factory.mktemp("tables")
    random = np.random.default_rng(7)
    orders = pa.table({"id": range(3_000), "kind": [KINDS[n % 3] for n in range(3_000)]})
    prices = pa.array(random.integers(100, 900, ROWS), pa.int32())
    items = pa.table(
        {
            "order_id": random.integers(0, 3_000, ROWS),
            "price": prices.cast(pa.decimal128(12, 2)),
            "amount": random.integers(1, 5, ROWS),
        }
    )
    pq.write_table(orders, folder / "orders.parquet")
    pq.write_table(items, folder / "items.parquet", row_group_size=400)
    return folder


QUESTION = (
    "items.parquet", "orders.parquet", "--on", "order_id=id", "--group-by", "kind",
    "--sum", "revenue=price * amount", "--count", "n", "--avg", "amount",
)  # fmt: skip


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "watersmeet.cli", "aggregate", *arguments]


def asked(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """In this process: another one takes two seconds to load what this one has."""
    out, err = StringIO(), StringIO()
    with contextlib.chdir(cwd), redirect_stdout(out), redirect_stderr(err):
        code = main(["aggregate", *arguments])
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def truth(files: Path) -> dict[str, tuple[Decimal, int]]:
    """Revenue and count by kind, computed without us."""
    items = pq.read_table(files / "items.parquet")
    kinds = np.array(items["order_id"]) % 3
    price = np.array(items["price"].cast(pa.float64())).astype(np.int64)
    revenue = price * np.array(items["amount"])
    return {
        name: (Decimal(int(revenue[kinds == kind].sum())), int((kinds == kind).sum()))
        for kind, name in enumerate(KINDS)
    }


def test_all_is_read_without_a_limit_and_intervals_are_scored(files: Path) -> None:
    done = subprocess.run(
        command(*QUESTION), cwd=files, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    table, _, score = done.stdout.rpartition("\n\n")
    assert table.startswith("exact after ")
    lines = [line.split() for line in table.splitlines()[3:]]
    found = {name: (Decimal(total.replace(",", "")), n) for name, total, n, _ in lines}
    assert {name: total for name, (total, _) in found.items()} == {
        name: total for name, (total, _) in truth(files).items()
    }
    assert {name: int(n.replace(",", "")) for name, (_, n) in found.items()} == {
        name: n for name, (_, n) in truth(files).items()
    }
    assert "trusted intervals held the exact value" in score
    # Looks are told to whoever watches, and not to whoever reads the result.
    looks = done.stderr.splitlines()
    assert len(looks) >= 2
    assert all(
        re.match(r"after .* 95% intervals within ± .*%; 1% .*, exact in", at) for at in looks
    )


def test_json_tells_estimates_with_their_ends_and_what_each_look_was_worth(files: Path) -> None:
    done = asked(*QUESTION, "--until", "20%", "--json", cwd=files)
    answer = json.loads(done.stdout)
    assert answer["exact"] is False
    assert "score" not in answer
    assert answer["looks"][-1]["relative_error"] <= 0.2
    assert [row["kind"] for row in answer["rows"]] == sorted(KINDS)
    for row in answer["rows"]:
        assert row["n_low"] < row["n"] < row["n_high"]
        assert row["n_trusted"] is True


def test_json_of_the_exact_answer_keeps_every_digit(files: Path) -> None:
    answer = json.loads(
        asked(*QUESTION, "--fraction", "30%", "--exact", "--json", cwd=files).stdout
    )
    assert answer["exact"] is True
    assert {row["kind"]: (Decimal(row["revenue"]), row["n"]) for row in answer["rows"]} == truth(
        files
    )
    assert answer["score"]["shown"] == 9 * (len(answer["looks"]) - 1)
    assert max(look["fraction"] for look in answer["looks"][:-1]) <= 0.3


def test_a_limit_ends_the_reading(files: Path) -> None:
    done = asked(*QUESTION, "--fraction", "15%", cwd=files)
    assert done.returncode == 0
    assert re.match(r"after .* of 120,000 rows", done.stdout)
    assert "held the exact value" not in done.stdout


@pytest.mark.slow
def test_conditions_joins_and_seeds_are_passed_on(files: Path) -> None:
    arguments = ("--how", "semi", "--count", "n", "--where", "amount = 2 AND price > 500", "--json")
    question = ("items.parquet", "orders.parquet", "--on", "order_id=id", *arguments)
    rows = json.loads(asked(*question, cwd=files).stdout)["rows"]
    items = pq.read_table(files / "items.parquet").to_pandas()
    assert rows == [{"n": int(((items.amount == 2) & (items.price > 500)).sum())}]
    first, again, other = (
        json.loads(
            asked(*QUESTION, "--fraction", "10%", "--seed", seed, "--json", cwd=files).stdout
        )
        for seed in ("1", "1", "2")
    )
    assert first["rows"] == again["rows"] != other["rows"]


@pytest.mark.slow
def test_a_plot_is_written(files: Path, tmp_path: Path) -> None:
    for name, start in (("looks.svg", b"<?xml"), ("looks.png", b"\x89PNG")):
        done = asked(*QUESTION, "--until", "5%", "--plot", str(tmp_path / name), cwd=files)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / name).read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--plot", "looks.xls"), "names no kind of picture"),
        (("--plot", "nowhere/looks.svg"), "directory that does not exist"),
        (("--sum", "n=price"), "the name 'n' is taken"),
        (("--sum", "memory=price"), "the name 'memory' is taken"),
        (("--sum", "kind"), "no number"),
        (("--sum", "x=prize"), "prize"),
        (("--where", "prize > 3"), "prize"),
        (("--confidence", "95"), "no probability between 0 and 1"),
        (("--until", "lots"), "no part of a whole"),
        (("--how", "full"), "full join"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    arguments: tuple[str, ...], complaint: str, files: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(files)
    assert main(["aggregate", *QUESTION, *arguments]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("watersmeet: ")
    assert told.err.count("\n") == 1
    assert complaint in told.err


def test_without_an_aggregate_there_is_no_question(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(files)
    assert main(["aggregate", *QUESTION[:4]]) == 2
    assert "There is no aggregate." in capsys.readouterr().err


class Screen:
    """Lines of a terminal, as far as our output moves about on one."""

    def __init__(self) -> None:
        self.lines = [""]
        self._row = self._column = 0

    def feed(self, text: str) -> None:
        for token in re.findall(r"\x1b\[\??\d*[A-Za-z]|\r|\n|[^\x1b\r\n]+", text):
            line = self.lines[self._row]
            if token == "\n":
                self._row, self._column = self._row + 1, 0
                self.lines += [""] * (self._row + 1 - len(self.lines))
            elif token == "\r":
                self._column = 0
            elif up := re.fullmatch(r"\x1b\[(\d+)A", token):
                self._row -= int(up[1])
                assert self._row >= 0, "drawn over what was there before"
            elif token == "\x1b[K":
                self.lines[self._row] = line[: self._column]
            elif token == "\x1b[J":
                self.lines[self._row :] = [line[: self._column]]
            elif not token.startswith("\x1b"):
                end = self._column + len(token)
                self.lines[self._row] = line[: self._column] + token + line[end:]
                self._column = end


def on_a_terminal(*arguments: str, cwd: Path, columns: int, lines: int) -> str:
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    with subprocess.Popen(
        command(*arguments),
        cwd=cwd,
        env=environment | {"TERM": "xterm", "PYTHONIOENCODING": "utf-8"},
        stdin=follower,
        stdout=follower,
        stderr=follower,
    ) as running:
        os.close(follower)
        told = b""
        # A terminal whose other end is closed is an error on Linux.
        with contextlib.suppress(OSError):
            while part := os.read(leader, 65_536):
                told += part
        os.close(leader)
        assert running.wait(120) == 0
    return told.decode().replace("\r\n", "\n")


@pytest.mark.parametrize(("columns", "lines"), [(100, 30), (46, 12)])
def test_on_a_terminal_each_look_is_drawn_over_the_last(
    columns: int, lines: int, files: Path
) -> None:
    told = on_a_terminal(*QUESTION, cwd=files, columns=columns, lines=lines)
    frames = re.split(r"\x1b\[\d+A", told)
    assert len(frames) >= 4, "one of waiting, two looks at least, and the end"
    for frame in frames[:-2]:
        shown = re.sub(r"\x1b\[\??\d*[A-Za-z]", "", frame)
        assert shown.count("\n") < lines, "a frame that does not fit cannot be redrawn"
        assert all(len(line) < columns for line in shown.replace("\r", "").split("\n"))
    screen = Screen()
    screen.feed(told)
    left = "\n".join(screen.lines)
    assert left.startswith("exact after ")
    assert "reading the first" not in left
    assert "±" not in left, "nothing of an earlier look remains"
    assert left.count("kind") == (1 if columns == 100 else 2)
    assert all(left.count(f"  {kind} ") == left.count("kind") for kind in KINDS)
    assert told.count("\x1b[?25l") == told.count("\x1b[?25h") == 1


def test_text_that_other_writers_keep_as_views_is_filtered(tmp_path: Path) -> None:
    """As the generator of TPC-H does."""
    kinds = pa.array([KINDS[n % 3] for n in range(600)], pa.string_view())
    pq.write_table(pa.table({"id": range(600), "kind": kinds}), tmp_path / "orders.parquet")
    pq.write_table(pa.table({"id": range(600)}), tmp_path / "items.parquet")
    question = ("--on", "id", "--count", "n", "--group-by", "kind", "--where", "left.id >= 3")
    for sides in (("orders.parquet", "items.parquet"), ("items.parquet", "orders.parquet")):
        done = asked(*sides, *question, "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert [row["n"] for row in json.loads(done.stdout)["rows"]] == [199] * 3
