"""`watersmeet demo`: two tables on a local Spark, joined and aggregated by us and by Spark."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import watersmeet as wm
from watersmeet.cli.demo import spark_aggregate
from watersmeet.cli.demo.tpch import Table, make_tables
from watersmeet.cli.preview import layout
from watersmeet.cli.spark_tables import closing_session, leave, was_interrupted

if TYPE_CHECKING:
    from watersmeet.spark.tables.progress import Wave
    from watersmeet.spark.tables.run import JoinRun

_COLUMNS = {
    "orders": (
        "o_orderkey AS orderkey",
        "o_custkey AS custkey",
        "o_orderdate AS orderdate",
        "o_totalprice AS total",
    ),
    "lineitem": (
        "l_orderkey AS orderkey",
        "l_partkey AS partkey",
        "l_quantity AS quantity",
        "l_extendedprice AS price",
    ),
}
_KEY = "orderkey"
_MEMORY = "1GB"
_SAMPLE = 3
_WIDTH = 78
_BOLD = "\x1b[1m{}\x1b[0m"


def run(*, scale: float) -> int:
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, leave)
    print()
    with tempfile.TemporaryDirectory(prefix="watersmeet-demo-") as scratch:
        tables = _make_tables(Path(scratch), scale)
        spark = _start_spark()
        # After the session has started, since Spark installs its own handler for Ctrl-C.
        signal.signal(signal.SIGINT, leave)
        try:
            with closing_session(spark):
                return _Race(spark, tables, scratch).run()
        except Exception as error:
            if was_interrupted(error):
                raise KeyboardInterrupt from None
            raise


def _make_tables(directory: Path, scale: float) -> tuple[Table, Table]:
    _begin("tables")
    began = time.monotonic()
    tables = make_tables(directory, scale=scale)
    _end(f"TPC-H at scale {scale:g}, made in {time.monotonic() - began:.1f} s")
    for table in tables:
        _begin("")
        _end(f"{table.name:<8} {table.rows:>10,} rows {table.nbytes / 1e6:>6,.0f} MB")
    return tables


def _start_spark() -> Any:
    _begin("Spark")
    began = time.monotonic()
    # The default of 200 is made for clusters, and would slow down Spark's own join here.
    settings: dict[str, Any] = {"spark.sql.shuffle.partitions": 2 * (os.cpu_count() or 1)}
    spark = wm.session(**settings)
    tasks = spark.sparkContext.defaultParallelism
    _end(f"{spark.version}, {tasks} tasks at a time, started in {time.monotonic() - began:.1f} s")
    return spark


@dataclass(frozen=True)
class _Tally:
    """The number of rows of a join, and a checksum of all their columns."""

    rows: int
    checksum: int

    @classmethod
    def of(cls, rows: Any) -> _Tally:
        columns = ", ".join(sorted(rows.columns))
        # 32 bits of each hash: the sum of 64 might overflow.
        checksum = f"coalesce(sum(xxhash64({columns}) & 4294967295), 0)"
        found = rows.selectExpr("count(*) AS rows", f"{checksum} AS checksum").first()
        return cls(found["rows"], found["checksum"])

    def __add__(self, other: _Tally) -> _Tally:
        return _Tally(self.rows + other.rows, self.checksum + other.checksum)


class _Seconds(NamedTuple):
    """How long each join took to its first rows, and to all."""

    first: float
    all: float
    spark_first: float
    spark_all: float


def _verdict(ours: _Tally, spark: _Tally, seconds: _Seconds) -> str:
    if ours != spark:
        return f"\n  WRONG: {ours} is not what Spark's own join gives, {spark}.\n"
    first, theirs = seconds.first, seconds.spark_first
    early = max(theirs, first) / min(theirs, first)
    text = (
        f"First rows after {first:.1f} s, {early:.1f} times "
        f"{'earlier' if first <= theirs else 'later'} than Spark's own join ({theirs:.1f} s); "
        f"all rows, wave by wave, after {seconds.all:.1f} s (Spark's: {seconds.spark_all:.1f} s). "
        f"The same {ours.rows:,} rows (checked: count and checksum)."
    )
    return _in_bold(text)


class _Race:
    """Both joins of the same files, in the same session, into the same sink."""

    def __init__(self, spark: Any, tables: tuple[Table, Table], scratch: str) -> None:
        self._spark = spark
        self._tables = tables
        self._scratch = scratch
        self._first_s: float | None = None

    def run(self) -> int:
        self._warm()
        print(f'\n  wm.join(orders, lineitem, on="{_KEY}", memory="{_MEMORY}")\n', flush=True)
        began = time.monotonic()
        ours = self._ours(began)
        all_s = time.monotonic() - began
        print(f'\n  orders.join(lineitem, "{_KEY}")\n', flush=True)
        theirs = self._frames()
        began = time.monotonic()
        # A job of its own: a DataFrame gives its first rows or all, not one after the other.
        self._spark_join(*theirs).take(_SAMPLE)
        spark_first_s = time.monotonic() - began
        print(f"  first rows after {spark_first_s:.1f} s\n", flush=True)
        began = time.monotonic()
        spark = _Tally.of(self._spark_join(*theirs))
        spark_s = time.monotonic() - began
        rows = sum(table.rows for table in self._tables)
        _line(f"{spark_s:.1f} s", f"{rows:,}", f"{spark.rows:,}")
        seconds = _Seconds(self._first_s or all_s, all_s, spark_first_s, spark_s)
        print(_verdict(ours, spark, seconds), flush=True)
        if ours != spark:
            return 1
        same, verdict = spark_aggregate.run(self._tables_of)
        print(_in_bold(verdict), flush=True)
        return 0 if same else 1

    def _warm(self) -> None:
        """Each join once before it is timed, so that neither starts workers or compiles then."""
        _begin("warm-up")
        frames = self._frames(files=1)
        _Tally.of(self._spark_join(*frames))
        with self._join(*frames) as run:
            for wave in run:
                _Tally.of(wave.rows)
        share = len(self._tables[0].files)
        _end(f"each of the two joins once, on a {share}th of the rows")

    def _ours(self, began: float) -> _Tally:
        total = _Tally(0, 0)
        with self._join(*self._frames()) as run:
            for wave in run:
                if self._first_s is None and wave.progress.rows_out:
                    self._show_first(wave, began)
                total += _Tally.of(wave.rows)
                seconds = time.monotonic() - began
                _line(f"{seconds:.1f} s", f"{sum(wave.progress.rows_read):,}", f"{total.rows:,}")
        return total

    def _show_first(self, wave: Wave, began: float) -> None:
        rows = [[str(value) for value in row] for row in wave.rows.take(_SAMPLE)]
        self._first_s = time.monotonic() - began
        print(f"  first rows after {self._first_s:.1f} s\n")
        for line in layout(wave.rows.columns, rows, width=_WIDTH - 4):
            print(f"    {line}")
        print()
        _line("time", "rows read", "result rows")

    def _frames(self, *, files: int | None = None) -> tuple[Any, Any]:
        """Four columns of each of the two tables, or of some of their files."""
        orders, lineitem = self._tables_of(files)
        return orders.selectExpr(*_COLUMNS["orders"]), lineitem.selectExpr(*_COLUMNS["lineitem"])

    def _tables_of(self, files: int | None) -> tuple[Any, Any]:
        orders, lineitem = (
            self._spark.read.parquet(*map(str, table.files[:files])) for table in self._tables
        )
        return orders, lineitem

    def _join(self, orders: Any, lineitem: Any) -> JoinRun:
        place = self._scratch
        return wm.join(orders, lineitem, on=_KEY, memory=_MEMORY, storage=place, spill_dir=place)

    @staticmethod
    def _spark_join(orders: Any, lineitem: Any) -> Any:
        return orders.join(lineitem, _KEY)


def _in_bold(text: str) -> str:
    """A paragraph that stands out on a terminal."""
    lines = textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")
    bold = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return "\n" + "\n".join(_BOLD.format(line) if bold else line for line in lines) + "\n"


def _begin(name: str) -> None:
    """Print the beginning of a line, so that a person sees what the demo is waiting for."""
    print(f"  {name:<9}", end="", flush=True)


def _end(text: str) -> None:
    print(text, flush=True)


def _line(time_s: str, read: str, found: str) -> None:
    print(f"  {time_s:>10} {read:>14} {found:>14}", flush=True)
