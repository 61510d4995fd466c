"""Mistakes in the rectangle joins, made on purpose: a test must notice each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.test_planted_bugs import Bug, run_the_contract
from tests.operators.rectangle.test_io import check_the_stop_constraint
from tests.operators.rectangle.test_memory import spread
from watersmeet.kernels import rectangles
from watersmeet.operators.rectangle import ripple, state
from watersmeet.operators.rectangle.algorithm import RECTANGLE, JoinsOnArrival, RectangleAlgorithm
from watersmeet.operators.rectangle.cover import Cover
from watersmeet.operators.rectangle.join import RectangleJoin
from watersmeet.operators.rectangle.partition import PartitionJoin
from watersmeet.operators.rectangle.workspace import RectangleWorkspace
from watersmeet.policies import invoke

BUGS = {
    # ---- old and new ----
    "an old row looks for old ones too": Bug(
        "pr-join",
        (PartitionJoin, "_new_pairs"),
        "since=2 * corner[build] - 1",
        "since=0",
    ),
    "the last old row is taken for new": Bug(
        "pr-join",
        (PartitionJoin, "_new_pairs"),
        "since=2 * corner[build] - 1",
        "since=2 * corner[build] - 3",
    ),
    "old rows are not looked at": Bug(
        "pr-join",
        (PartitionJoin, "_new_pairs"),
        "np.searchsorted(piece.ats, 2 * corner[build.other])",
        "np.searchsorted(piece.ats, 2 * corner[build.other] + 2)",
    ),
    "a joined partition does not become old": Bug(
        "pr-join",
        (Cover, "complete_corner"),
        "max(strip.high, right)",
        "strip.high",
    ),
    "old rows are not read though the other side has new ones": Bug(
        "pr-join",
        (PartitionJoin, "run"),
        "not corner or new[build.other] or self._reports(build)",
        "not corner or self._reports(build)",
    ),
    "rows that have met some count as having met all": Bug(
        "pr-join",
        (PartitionJoin, "_met_by_all"),
        "last + 1",
        "last",
    ),
    "an interrupted join has joined all of its chunk": Bug(
        "pr-join",
        (PartitionJoin, "_scan"),
        "int(piece.ats[-1] >> 1) + 1",
        "self.workspace.progress.numbers[probe]",
    ),
    "strips are told by the row before": Bug(
        "sms",
        (rectangles, "drop_covered"),
        "if stops[middle] > left:",
        "if stops[middle] >= left:",
    ),
    "later rows meet those that have left": Bug(
        "dbo",
        (Cover, "right_departs"),
        "self._open.append((left, right))",
        "self._open.append((left, 0))",
    ),
    "a row meets nothing that comes after it": Bug(
        "sms",
        (Cover, "strips_at"),
        "Strip(stop, low, right)",
        "Strip(stop, low, low)",
    ),
    "a full memory is not joined with itself": Bug(
        "ripple",
        (ripple, "_join_memory"),
        "range(0, len(right), size)",
        "range(size, len(right), size)",
    ),
    "left rows meet right rows that are not kept": Bug(
        "hash-ripple",
        (RectangleJoin, "_meet"),
        "if workspace.kept:",
        "if False:",
    ),
    "what was kept and leaves at last is put behind newer rows": Bug(
        "hash-ripple",
        (RectangleWorkspace, "_flush_side"),
        "0 if in_front else len(runs)",
        "len(runs)",
    ),
    # ---- partitions ----
    "partitions are remapped although rows have been spilled": Bug(
        "pr-join",
        (RectangleJoin, "_arrive"),
        "if not (workspace.full or self._remapped):",
        "if not self._remapped or workspace.full:",
    ),
    "a restored join has the partitions of a new one": Bug(
        "pr-join",
        (state, "load"),
        'np.array(manifest["slots"], np.uint16)',
        "workspace.memory.slots",
    ),
    # ---- rows without a partner, and memory ----
    "rows count as alone when they have met one chunk": Bug(
        "grace",
        (PartitionJoin, "_scan"),
        "if self.last and not more:",
        "if self.last:",
    ),
    "partitions that are done are forgotten before they are": Bug(
        "grace",
        (RectangleWorkspace, "drop_before"),
        "gone[p:] = 0",
        "gone[p + 1:] = 0",
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_the_contract_notices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[name].plant(monkeypatch)
    with pytest.raises(AssertionError):
        run_the_contract(BUGS[name].algorithm)


@pytest.mark.slow
def test_a_join_too_near_the_end_is_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No result is wrong then, but the reads are more than eq. 13 allows."""
    bug = Bug("pr-join", (invoke, "expanding"), "if invocation.stops and", "if False and")
    bug.plant(monkeypatch)
    wrong = RectangleAlgorithm(
        "pr-join",
        "",
        JoinsOnArrival.UNTIL_FULL,
        invoke.larger_halves,
        invoke=invoke.expanding,
    )
    monkeypatch.setitem(RECTANGLE, "pr-join", wrong)
    with pytest.raises(AssertionError):
        check_the_stop_constraint(tmp_path)


def test_rows_counted_in_the_partitions_they_had_are_noticed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Results are right then too, but estimates by partition are not."""
    right, wrong = "workspace.progress.arrived[:] = workspace.memory.rows", "pass"
    Bug("pr-join", (RectangleJoin, "_remap"), right, wrong).plant(monkeypatch)
    with pytest.raises(AssertionError):
        spread(tmp_path, remaps=True)
