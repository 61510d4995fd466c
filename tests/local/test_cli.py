from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import chdir, redirect_stderr, redirect_stdout
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from tests.local.inputs import SPILLING, SPILLING_ROWS, sides
from tests.local.oracle import expected, rows_of
from watersmeet.cli.__main__ import main

LEFT, RIGHT = sides(2_000)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    pq.write_table(LEFT, tmp_path / "left.parquet")
    pq.write_table(RIGHT, tmp_path / "right.parquet")
    pq.write_table(RIGHT.rename_columns(["key", "b"]), tmp_path / "renamed.parquet")
    return tmp_path


def watersmeet(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "watersmeet.cli", *arguments],
        cwd=cwd,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def joined(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """In this process: another one takes two seconds to load what this one has."""
    command = ["join", "left.parquet", *arguments]
    with chdir(cwd), redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = main(command)
    assert code == 0, err.getvalue()
    return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())


def test_version_and_help_load_no_kernels(tmp_path: Path) -> None:
    assert watersmeet("--version", cwd=tmp_path).stdout == f"watersmeet {wm.__version__}\n"
    shown = watersmeet("--help", cwd=tmp_path).stdout
    assert all(command in shown for command in ("join", "aggregate", "demo", "reproduce"))
    program = (
        "import sys, watersmeet.cli.__main__ as m; m._parser([]); print('numba' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "False\n"


@pytest.mark.parametrize("name", ["out.parquet", "out.arrow", "out.feather", "out.csv"])
def test_rows_go_into_a_file(name: str, files: Path) -> None:
    done = joined("right.parquet", "--on", "k", "-o", name, cwd=files)
    read = {".parquet": pq.read_table, ".csv": csv.read_csv}.get(
        Path(name).suffix, feather.read_table
    )
    assert rows_of(read(files / name)) == expected(LEFT, RIGHT)
    assert done.stdout == ""
    assert f"{sum(expected(LEFT, RIGHT).values()):,} rows in " in done.stderr
    assert not list(files.glob(".*part"))


def test_a_file_of_results_has_few_row_groups(files: Path) -> None:
    joined("right.parquet", "--on", "k", "-o", "out.parquet", cwd=files)
    assert pq.ParquetFile(files / "out.parquet").num_row_groups == 1


def test_rows_go_to_standard_output_as_csv(files: Path) -> None:
    done = watersmeet(
        "join", "left.parquet", "right.parquet", "--on", "k", "--how", "anti", "-o", "-", cwd=files
    )
    assert done.returncode == 0, done.stderr
    table = csv.read_csv(pa.BufferReader(done.stdout.encode()))
    assert rows_of(table) == expected(LEFT, RIGHT, "anti")


def test_who_reads_only_the_first_lines_gets_no_complaint(files: Path) -> None:
    command = f'"{sys.executable}" -m watersmeet.cli join left.parquet right.parquet --on k -o -'
    ran = subprocess.run(
        ["sh", "-c", f"{command} | head -n 1"],
        cwd=files, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert ran.stdout == '"k","a","b"\n'
    assert "Traceback" not in ran.stderr
    assert "BrokenPipe" not in ran.stderr


def test_without_an_output_the_first_rows_are_shown(files: Path) -> None:
    done = joined("renamed.parquet", "--on", "k=key", cwd=files)
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["k", "a", "key", "b"]
    assert len(lines) == 12
    assert all(row.split()[0] == row.split()[2] for row in lines[2:])


def test_no_rows_are_shown_as_such(files: Path) -> None:
    pq.write_table(RIGHT.slice(0, 0), files / "none.parquet")
    done = joined("none.parquet", "--on", "k", cwd=files)
    assert done.stdout.splitlines()[0].split() == ["k", "a", "b"]
    assert done.stderr.startswith("0 rows in ")


def test_json_is_for_machines(files: Path) -> None:
    summary = json.loads(joined("right.parquet", "--on", "k", "--json", cwd=files).stdout)
    assert summary["rows"] == sum(expected(LEFT, RIGHT).values())
    assert summary["columns"] == {"k": "int64", "a": "int64", "b": "int64"}
    assert summary["metrics"]["rows_in"] == [2_000, 2_000]
    assert summary["first_row_s"] <= summary["seconds"]


def test_explain_and_a_small_memory(tmp_path: Path) -> None:
    left, right = sides(SPILLING_ROWS)
    pq.write_table(left, tmp_path / "left.parquet")
    pq.write_table(right, tmp_path / "right.parquet")
    spill = tmp_path / "spill"
    spill.mkdir()
    done = joined(
        "right.parquet", "--on", "k", "--memory", SPILLING, "--spill-dir", "spill",
        "--algorithm", "xjoin", "--explain", "--json", cwd=tmp_path,
    )  # fmt: skip
    assert json.loads(done.stdout)["rows"] == sum(expected(left, right).values())
    assert "xjoin" in done.stderr
    assert "largest partition" in done.stderr
    assert not list(spill.iterdir())


WRONG = [
    (["nowhere.parquet", "--on", "k"], "right='nowhere.parquet' does not exist"),
    (["right.parquet", "--on", "nope"], "no column 'nope'"),
    (["right.parquet", "--on", "k", "--how", "upwards"], "how='upwards'"),
    (["right.parquet", "--on", "k", "--algorithm", "magic"], "algorithm='magic'"),
    (["right.parquet", "--on", "k", "--memory", "much"], "memory='much'"),
    (["right.parquet", "--on", "k", "--memory", "1KB"], "Give at least 1MB"),
    (["right.parquet", "--on", "k", "--spill-dir", "nowhere"], "nowhere"),
    (["right.parquet", "--on", "k", "-o", "out.xyz"], "names no format"),
    (["right.parquet", "--on", "k", "-o", "nowhere/out.csv"], "does not exist"),
]


WRONG += [
    (["right.parquet"], "Neither --on nor --within"),
    (["right.parquet", "--within", "k"], "names no column and width. Write for example"),
    (["right.parquet", "--within", "=5"], "names no column and width"),
    (["right.parquet", "--within", "k,=5"], "names no column and width"),
    (["right.parquet", "--within", "k="], "is no span of time"),
    (["right.parquet", "--within", "k=soon"], "is no span of time"),
    (["right.parquet", "--within", "k=5 parsecs"], "is no unit of time"),
    (["right.parquet", "--within", "k=-5"], "is negative"),
    (["right.parquet", "--within", "k=NaN"], "A band ends at NaN"),
    (["right.parquet", "--within", "k=5 seconds"], "Give a number"),
    (["right.parquet", "--within", "nope=5"], "no column 'nope'"),
    (["right.parquet", "--between", "k"], "does not name the column of a value and the two"),
    (["right.parquet", "--between", "k=v"], "Write for example --between price=low..high"),
    (["right.parquet", "--between", "k=v.."], "does not name the column"),
    (["right.parquet", "--between", "k=nope..k"], "no column 'nope'"),
    (["right.parquet", "--between", "k=k..k"], "Both ends of an interval"),
    (["right.parquet", "--overlaps", "k=v..w"], "does not name the columns of two intervals"),
    (["right.parquet", "--within", "k=5", "--algorithm", "rpj"], "not a band of values"),
]


@pytest.mark.parametrize(("arguments", "says"), WRONG, ids=[says for _, says in WRONG])
def test_errors_are_one_line_with_cause_and_remedy(
    arguments: list[str],
    says: str,
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(files)
    assert main(["join", "left.parquet", *arguments]) == 2
    told = capsys.readouterr()
    assert told.err.startswith("watersmeet: ")
    assert says in told.err
    assert told.err.count("\n") == 1
    assert told.out == ""
    assert not list(files.glob("*out*"))


def close(left: pa.Table, right: pa.Table, condition: str) -> Counter[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.register("l", left)
        connection.register("r", right)
        return Counter(
            connection.execute(f"SELECT l.a, r.b FROM l JOIN r ON {condition}").fetchall()
        )


def test_values_that_are_close(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone, beside a key, with two names, with numbers and with times."""
    number = pa.array(range(500))
    left = pa.table({"k": number, "t": pc.multiply(number, 7), "a": number})
    right = pa.table({"k": pc.bit_wise_and(number, 7), "u": pc.multiply(number, 5), "b": number})
    price = pa.array([Decimal(n).scaleb(-2) for n in range(0, 2000, 4)], pa.decimal128(9, 2))
    at = pc.multiply(number, 10**6).view(pa.timestamp("us"))
    left = left.append_column("price", price).append_column("at", at)
    right = right.append_column("price", price).append_column("at", at)
    pq.write_table(left, tmp_path / "left.parquet")
    pq.write_table(right, tmp_path / "right.parquet")
    monkeypatch.chdir(tmp_path)
    for arguments, condition in (
        (["--within", "t,u=3"], "abs(l.t - r.u) <= 3"),
        (["--within", "price=0.05"], "abs(l.price - r.price) <= 0.05"),
        (["--on", "k", "--within", "at=2 seconds"], "l.k = r.k AND abs(l.b_at - r.b_at) <= 2"),
        (
            ["--within", "at = 1 minute 1 second", "--within", "t , u = 9"],
            "abs(l.b_at - r.b_at) <= 61 AND abs(l.t - r.u) <= 9",
        ),
        (["--between", "t=k..u"], "r.k <= l.t AND l.t <= r.u"),
        (["--on", "k", "--between", "a .. t = u"], "l.k = r.k AND l.a <= r.u AND r.u <= l.t"),
        (["--overlaps", "a..t=b..u"], "l.a <= r.u AND r.b <= l.t"),
    ):
        join = ["join", "left.parquet", "right.parquet", *arguments]
        assert main([*join, "-o", "out.parquet", "--force"]) == 0
        table = pq.read_table("out.parquet")
        got = Counter(zip(*(table.column(name).to_pylist() for name in "ab"), strict=True))
        seconds = [each.append_column("b_at", number) for each in (left, right)]
        assert got == close(seconds[0], seconds[1], condition)


def test_a_damaged_input_leaves_no_output(files: Path) -> None:
    whole = (files / "right.parquet").read_bytes()
    middle = bytes(len(whole) // 2 - 100)
    (files / "right.parquet").write_bytes(whole[:50] + middle + whole[50 + len(middle) :])
    done = watersmeet(
        "join", "left.parquet", "right.parquet", "--on", "k", "-o", "out.csv", cwd=files
    )
    assert done.returncode == 2
    assert done.stderr.startswith("watersmeet: right (right.parquet) failed with")
    assert "Traceback" not in done.stderr
    assert not list(files.glob("*out*"))


@pytest.mark.slow
def test_the_demo_finds_rows_in_the_stall_and_checks_itself(tmp_path: Path) -> None:
    done = watersmeet("demo", "--local", cwd=tmp_path, TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Checked: the same 500,000 rows" in done.stdout
    assert " 0 came in the stall" not in done.stdout
    assert "\x1b" not in done.stdout
    assert not list(tmp_path.iterdir())


def test_threads_give_the_same_rows(files: Path) -> None:
    joined("right.parquet", "--on", "k", "--threads", "2", "-o", "out.parquet", cwd=files)
    assert rows_of(pq.read_table(files / "out.parquet")) == expected(LEFT, RIGHT)
