"""Mistakes that are easy to make, made on purpose: the contract test must notice each of them.

A contract that passes proves something only as far as it fails when it should. A bug here is a
piece of the real code and what it is replaced by. Some of them were found in it.
"""

from __future__ import annotations
import __future__

import inspect
import textwrap
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import Phase, settings

from tests.contract.test_every_operator import (
    MODES,
    check_mode,
    check_restored_with_other_tuning,
    search,
)
from watersmeet.kernels import matching
from watersmeet.model import JoinType
from watersmeet.operators.leaving import OldestFirst
from watersmeet.operators.memory import MemoryPart
from watersmeet.operators.progressive import reactive, state
from watersmeet.operators.progressive.arrival import ArrivalStage
from watersmeet.operators.progressive.history import MdRecord
from watersmeet.operators.progressive.join import ProgressiveJoin
from watersmeet.operators.progressive.merging import Merging
from watersmeet.operators.progressive.reactive import ReactiveStage
from watersmeet.operators.progressive.tasks import DdTask, MdTask
from watersmeet.operators.saved import SavedRows
from watersmeet.operators.workspace import Workspace
from watersmeet.rows.predicates import EqualKeys
from watersmeet.rows.schema import JoinSchema
from watersmeet.store.index import PairBuffer
from watersmeet.store.marks import Marks
from watersmeet.store.runs import RunWriter
from watersmeet.store.spill import SpillArea
from watersmeet.testing.contract import check_schedules
from watersmeet.testing.strategies import published_joins


@dataclass(frozen=True)
class Bug:
    """`right` becomes `wrong` in one function; the contract is run for one algorithm."""

    algorithm: str
    place: tuple[Any, str]
    right: str
    wrong: str

    def plant(self, patch: pytest.MonkeyPatch) -> None:
        function = getattr(*self.place)
        function = getattr(function, "py_func", function)  # a kernel is run as plain Python
        source = textwrap.dedent(inspect.getsource(function))
        source = source[source.index("def ") :]
        assert source.count(self.right) == 1, f"not in the code (once): {self.right}"
        wrong: dict[str, Any] = {}
        flags = __future__.annotations.compiler_flag
        exec(
            compile(source.replace(self.right, self.wrong), "<planted bug>", "exec", flags),
            function.__globals__,
            wrong,
        )
        patch.setattr(*self.place, wrong[self.place[1]])


BUGS = {
    # ---- who has met whom ----
    "rows that met in memory are joined again": Bug(
        "xjoin",
        (matching, "drop_met"),
        "if arrived_l < departed_r and arrived_r < departed_l:",
        "if False:",
    ),
    "overlap is tested at one end only": Bug(
        "hmj",
        (matching, "drop_met"),
        "if arrived_l < departed_r and arrived_r < departed_l:",
        "if arrived_l < departed_r:",
    ),
    "an md-task of the left side is forgotten": Bug(
        "rpj-md",
        (matching, "drop_met"),
        "while not met and low < scans_l.shape[0] and",
        "while False and",
    ),
    "an md-task of the right side counts for rows that came after it": Bug(
        "rpj-md",
        (matching, "drop_met"),
        "if scans_r[middle, 0] > arrived_r:",
        "if True:",
    ),
    "matching runs are forgotten": Bug(
        "rpj-dd",
        (matching, "drop_met"),
        "while not met and n < merges.shape[0]:",
        "while False:",
    ),
    "an interrupted md-task claims the whole run": Bug(
        "xjoin",
        (MdTask, "step"),
        "(first, last)",
        "(0, LAST_CODE)",
    ),
    "a second scan at one stamp erases the first": Bug(
        "xjoin",
        (MdRecord, "then"),
        "if whole_runs and self.departed[1] < following.departed[0]:",
        "if whole_runs:",
    ),
    "rows that came while an md-task was interrupted count as used by it": Bug(
        "xjoin",
        (ReactiveStage, "_step"),
        "began=running.began",
        "began=stamp",
    ),
    "a merge claims runs that were flushed while it was interrupted": Bug(
        "hmj",
        (DdTask, "_install"),
        "DdRecord(left, right)",
        "DdRecord(left, (right[0], 2**62))",
    ),
    "PMJ stamps arrivals before the flush that makes room for them": Bug(
        "pmj",
        (ArrivalStage, "flush"),
        "stamp = self._workspace.draw()",
        "stamp = self._workspace.draw() + 50",
    ),
    "PMJ joins memory again for a flush at the end": Bug(
        "pmj",
        (ProgressiveJoin, "finish"),
        "yield from self.reactive.complete()",
        "yield from self.arrivals.join_memory()",
    ),
    "PMJ flushes a part of memory that has shrunk": Bug(
        "pmj",
        (ArrivalStage, "make_room"),
        "share * max(self._memory.capacity, self._memory.used)",
        "share * self._memory.capacity",
    ),
    # ---- runs, merges, blocks ----
    "the second half of the runs is not merged": Bug(
        "rpj-dd",
        (Merging, "__init__"),
        "for run in side]",
        "for run in side[: (len(side) + 1) // 2]]",
    ),
    "the last block of a run is lost": Bug(
        "xjoin",
        (RunWriter, "cut"),
        "self._out.path.name, self._blocks",
        "self._out.path.name, self._blocks[:-1] or self._blocks",
    ),
    "rows of a hash that goes on in the next block are taken for all": Bug(
        "hmj",
        (Merging, "step"),
        "bound = min(bounds, default=None)",
        "bound = min(bounds, default=-1) + 1 or None",
    ),
    "a frequent key's first block pair is skipped": Bug(
        "hmj",
        (Merging, "_one_code"),
        "number = 0",
        "number, self.substeps = 0, max(self.substeps, 1)",
    ),
    "a restored merge begins anew": Bug(
        "hmj",
        (DdTask, "save"),
        "now.position if now else None",
        "0 if now else None",
    ),
    "a restored merge forgets how far its frequent key had come": Bug(
        "hmj",
        (DdTask, "save"),
        "now.substeps if now else 0",
        "0",
    ),
    "a restored merge reads other runs than before": Bug(
        "hmj",
        (DdTask, "__init__"),
        'begun["fan_in"]',
        "self._fan_in",
    ),
    "merged runs are left on disk": Bug(
        "rpj",
        (SpillArea, "release"),
        "<= 0",
        "< 0",
    ),
    # ---- rows in memory ----
    "evicted rows stay in memory": Bug(
        "xjoin",
        (ArrivalStage, "_flush_side"),
        "self._memory.drop(side, keep, taken)",
        "many = taken > 1; keep[leaving[starts[many]]] = True; "
        "self._memory.drop(side, keep, taken - many)",
    ),
    "rows are let go while partners wait on disk": Bug(
        "rpj",
        (ArrivalStage, "drop_complete_rows"),
        "on_disk[side.other] == 0",
        "on_disk[side.other] >= 0",
    ),
    "arrivals are dropped though partners wait on disk": Bug(
        "rpj",
        (ArrivalStage, "_undecided"),
        "on_disk[self._memory.partition_of(coded[0])] > 0",
        "on_disk[self._memory.partition_of(coded[0])] < 0",
    ),
    "an md-task goes on with the table it began with": Bug(
        "xjoin",
        (MdTask, "_join"),
        "table = self._memory.tables[self._side]",
        "table = vars(self).setdefault('table', self._memory.tables[self._side])",
    ),
    "a null key is read as a value": Bug(
        "shj",
        (JoinSchema, "encode"),
        "if encoded.valid is not None:",
        "if False:",
    ),
    "equal hashes are taken for equal keys": Bug(
        "shj",
        (EqualKeys, "verifier"),
        "if self.codes_decide:",
        "if True:",
    ),
    # ---- outer, semi and anti joins ----
    "partners are not marked": Bug(
        "rpj",
        (Marks, "mark"),
        "matching.mark(self.bits, self.base, stamps)",
        "pass",
    ),
    "marks are lost when a join is restored": Bug(
        "hmj",
        (SavedRows, "_load_marks"),
        'Marks.load(saved["base"], bits)',
        'Marks.load(saved["base"], bits[:0])',
    ),
    "a semi join reports a row for every partner": Bug(
        "rpj",
        (Marks, "mark_new"),
        "return fresh",
        "return np.ones_like(fresh)",
    ),
    "rows count as alone after their first merge": Bug(
        "hmj",
        (reactive, "report"),
        "elif last:",
        "else:",
    ),
    # ---- what a runtime relies on ----
    "chunks are larger than allowed": Bug(
        "shj",
        (PairBuffer, "__init__"),
        "np.empty((2, size)",
        "np.empty((2, 2 * size)",
    ),
    "a closed join still holds memory": Bug(
        "rpj",
        (Workspace, "report_memory"),
        "self.account.hold(self.memory.nbytes",
        "self.account.hold(self.memory.nbytes or self.account.used",
    ),
    "a stall that is over is not noticed": Bug(
        "rpj",
        (ReactiveStage, "_work"),
        "and pause():",
        "and pause() and pause():",
    ),
    "a saved join goes on counting": Bug(
        "rpj",
        (state, "save_counters"),
        "copy(getattr(metrics, name))",
        "getattr(metrics, name)",
    ),
    "the oldest row is lost when a join is restored": Bug(
        "rpj",
        (OldestFirst, "here"),
        "piece.ats >= self._oldest[input][partitions]",
        "piece.ats > self._oldest[input][partitions]",
    ),
    "a row is saved in one segment too few": Bug(
        "rpj",
        (SavedRows, "_save_segment"),
        "int(table.stamps[-1]) + 1",
        "int(table.stamps[-1]) + 2",
    ),
    "a saved state refers to files that it does not name": Bug(
        "rpj",
        (SavedRows, "save"),
        "names |= {*self._names.values(), *bits}",
        "names |= {*list(self._names.values())[1:], *bits}",
    ),
}


def run_the_contract(name: str) -> None:
    """What tests/contract/test_every_operator.py runs for one algorithm, without shrinking."""
    for mode in reversed(MODES):  # the last ones notice most
        check_mode(name, mode)
    check_restored_with_other_tuning(name)
    for how in JoinType:
        once = settings(search(), phases=[Phase.generate], report_multiple_bugs=False)
        check_schedules(published_joins(name), how, search=once)


# To find these takes a quarter of a minute each.
RARE = {
    "a restored merge forgets how far its frequent key had come",
    "equal hashes are taken for equal keys",
    "a restored merge begins anew",
    "a null key is read as a value",
    "a row is saved in one segment too few",
    "arrivals are dropped though partners wait on disk",
    "a restored merge reads other runs than before",
}


# Rows are copied to new tables only when memory is larger than it ever was, which is rarely so in
# the middle of a task. What has to notice it is shown a join that copies them at every change.
NEW_TABLES = {"an md-task goes on with the table it began with"}
ALWAYS_COPIED = Bug("xjoin", (MemoryPart, "resize"), "if capacity <= self._made_for:", "if False:")


def test_a_join_that_always_copies_its_rows_keeps_the_contract(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ALWAYS_COPIED.plant(monkeypatch)
    check_mode(ALWAYS_COPIED.algorithm, "memory shrinks and grows")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name in RARE else ()) for name in BUGS],
)
def test_the_contract_notices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in NEW_TABLES:
        ALWAYS_COPIED.plant(monkeypatch)
    BUGS[name].plant(monkeypatch)
    with pytest.raises(AssertionError):
        run_the_contract(BUGS[name].algorithm)
