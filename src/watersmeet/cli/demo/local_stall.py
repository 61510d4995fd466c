"""`watersmeet demo --local`: one of two inputs stalls, their join is watched live and checked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet import local
from watersmeet.cli.demo.timeline import Timeline, Track
from watersmeet.operators.stage import Stage
from watersmeet.words import megabytes

_ORDERS = 300_000
_PAYMENTS = 500_000
_BATCH = 1_000
_MEMORY = "8MB"

# Seconds: orders and payments arrive from 0 on, payments not during the stall.
_ORDERS_END = 3.5
_STALL_BEGINS = 3.6
_STALL_ENDS = 6.6
_PAYMENTS_END = 8.6
_SPAN = 10.5
_COLUMNS = 63
_STALL = 1.0  # Seconds of silence after which the picture says that an input stalls.

_GREEN, _YELLOW, _CYAN, _BOLD = "32", "33", "36", "1"
_COLOURS: dict[str, str] = {
    Stage.MM: _GREEN,
    Stage.MD: _YELLOW,
    Stage.DD: _YELLOW,
    Stage.CLEANUP: _CYAN,
}


def run() -> int:
    orders, payments = _tables(_ORDERS, _PAYMENTS)
    few = _tables(10, 10)
    local.join(*few, on="order_id").read_all()  # Loads the kernels before the clock starts.
    print(
        f"\n  {_ORDERS:,} orders and {_PAYMENTS:,} payments arrive over slow lines.\n"
        f"  The join may hold {_MEMORY}; the rest is spilled, and joined when nothing arrives.\n"
    )
    scene = _Scene(orders, payments)
    result = scene.play()
    exact = _is_exact(result, orders, payments)
    print(scene.summary(result.num_rows, exact=exact))
    return 0 if exact else 1


class _Scene:
    """Two inputs that arrive by the clock, their join, and the picture of both."""

    def __init__(self, orders: pa.Table, payments: pa.Table) -> None:
        slice_s = _SPAN / _COLUMNS
        stall_s = _STALL_ENDS - _STALL_BEGINS
        moving_s = _PAYMENTS_END - stall_s
        rate = _PAYMENTS / moving_s
        self._orders = Track("orders", full=1.6 * rate * slice_s)
        self._payments = Track("payments", full=1.6 * rate * slice_s)
        self._results = Track("results", full=1.2 * rate * slice_s)
        self._found: dict[str, int] = dict.fromkeys(Stage, 0)
        self._timeline = Timeline(
            [self._orders, self._payments, self._results],
            seconds=_SPAN,
            columns=_COLUMNS,
            status=self._status,
        )
        due_orders = np.linspace(0, _ORDERS_END, _ORDERS // _BATCH)
        due_payments = np.linspace(0, moving_s, _PAYMENTS // _BATCH)
        due_payments[due_payments > _STALL_BEGINS] += stall_s
        self._join = local.join(
            self._arriving(orders, self._orders, due_orders),
            self._arriving(payments, self._payments, due_payments),
            on="order_id",
            memory=_MEMORY,
        )
        self._first_s = 0.0
        self._last_s = 0.0

    def play(self) -> pa.Table:
        result = []
        with self._timeline, self._join:
            for batch in self._join:
                self._first_s = self._first_s or self._timeline.now
                result.append(batch)
                self._timeline.add(self._results, len(batch), colour=self._stage_colour())
            self._last_s = self._timeline.now
        return pa.Table.from_batches(result, schema=self._join.schema)

    def summary(self, rows: int, *, exact: bool) -> str:
        metrics = self._join.metrics
        in_stall = metrics.results[Stage.MD] + metrics.results[Stage.DD]
        verdict = (
            f"Checked: the same {rows:,} rows as pyarrow's own join of the two tables."
            if exact
            else f"WRONG: {rows:,} rows, and not those that pyarrow's own join returns."
        )
        return (
            f"\n  First row after {self._first_s:.2f} s, the last after {self._last_s:.1f} s; "
            f"{in_stall:,} came in the stall.\n"
            f"  Memory at most {megabytes(metrics.memory_peak)}; "
            f"{megabytes(metrics.bytes_spilled)} went to disk and are removed.\n"
            f"  {self._timeline.paint(verdict, _BOLD)}\n"
        )

    def _arriving(
        self, table: pa.Table, track: Track, due: np.ndarray[Any, np.dtype[np.float64]]
    ) -> Iterator[pa.RecordBatch]:
        line = threading.Event()
        for batch, second in zip(table.to_batches(max_chunksize=_BATCH), due, strict=True):
            silence = second - self._timeline.now
            if silence > _STALL:
                self._timeline.note(track, "stalled")
            line.wait(max(0.0, silence))
            self._timeline.add(track, len(batch))
            yield batch
        self._timeline.complete(track)

    def _stage_colour(self) -> str:
        """The colour of the stage that has just found rows."""
        now = self._join.metrics.results
        stages = [stage for stage, rows in now.items() if rows > self._found[stage]]
        self._found = dict(now)
        return _COLOURS.get(stages[0], "") if stages else ""

    def _status(self, now: float) -> list[str]:
        found, paint = self._found, self._timeline.paint
        in_stall = found[Stage.MD] + found[Stage.DD]
        counts = [
            paint(f"{found[Stage.MM]:,} on arrival", _GREEN),
            paint(f"{in_stall:,} in the stall", _YELLOW),
            paint(f"{found[Stage.CLEANUP]:,} at the end", _CYAN),
        ]
        return [f"  {sum(found.values()):,} rows: {', '.join(counts)}", f"  {self._moment(now)}"]

    def _moment(self, now: float) -> str:
        if self._last_s:
            return "Done."
        if self._orders.complete and self._payments.complete:
            return "Both inputs are complete: joining what is left."
        if _STALL_BEGINS < now < _STALL_ENDS:
            return "Payments have stalled: joining what was spilled."
        if self._orders.complete:
            return "Orders are complete, payments arrive."
        return "Orders and payments arrive."


def _tables(orders: int, payments: int) -> tuple[pa.Table, pa.Table]:
    """Every payment is for one of the orders."""
    rng = np.random.default_rng(7)
    totals, paid = rng.integers(1, 9999, orders), rng.integers(1, 9999, payments)
    return (
        pa.table({"order_id": rng.permutation(orders), "total": totals}),
        pa.table({"order_id": rng.integers(0, orders, payments), "paid": paid}),
    )


def _is_exact(result: pa.Table, orders: pa.Table, payments: pa.Table) -> bool:
    names = ["order_id", "total", "paid"]
    order = [(name, "ascending") for name in names]
    truth = orders.join(payments, "order_id", join_type="inner").select(names).sort_by(order)
    return bool(result.select(names).sort_by(order).equals(truth))
