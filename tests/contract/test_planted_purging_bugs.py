"""Mistakes in letting rows go, made on purpose: the model of promises must notice each of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tests.contract.test_planted_bugs import Bug
from tests.contract.test_promises import (
    ALL_IN_MEMORY,
    FEW_ROWS,
    check_promises,
    passing,
    play_model,
)
from watersmeet.model import JoinType, Side
from watersmeet.operators.progressive import history, purging, state
from watersmeet.operators.progressive.arrival import ArrivalStage
from watersmeet.operators.progressive.join import ProgressiveJoin
from watersmeet.operators.progressive.purging import Purging
from watersmeet.operators.progressive.workspace import ProgressiveWorkspace
from watersmeet.rows.promises import Promises
from watersmeet.testing.family import PublishedJoin
from watersmeet.testing.schedule import Case, End

# To find them all takes minutes.
pytestmark = pytest.mark.slow

BUGS = {
    # ---- saved and restored ----
    "a purged row rises again when a join is restored": Bug(
        "rpj",
        (ProgressiveWorkspace, "was_dropped"),
        "gone |= early",
        "pass",
    ),
    "the tombstone counts for rows that came later": Bug(
        "rpj",
        (ProgressiveWorkspace, "was_dropped"),
        "stamps < self.purged[side][self.memory.partition_of(codes)]",
        "stamps >= 0",
    ),
    "promises are lost when a join is restored": Bug(
        "rpj",
        (Purging, "load"),
        'Promises.load(saved["promises"])',
        "Promises()",
    ),
    "up to where rows were purged is lost when a join is restored": Bug(
        "shj",
        (Purging, "load"),
        'self._workspace.purged[:] = saved["purged"]',
        "pass",
    ),
    "a promise is forgotten though what it has purged is in a segment": Bug(
        "shj",
        (state, "save"),
        "saved.begin_anew()",
        "pass",
    ),
    "a promise is forgotten that only one side has given": Bug(
        "shj",
        (Purging, "find_spent"),
        "intersect(*(workspace.promises.of(side, 0) for side in Side))",
        "workspace.promises.of(Side.LEFT, 0)",
    ),
    # ---- rows that owe pairs ----
    "rows go although they owe pairs with what is on disk": Bug(
        "rpj",
        (Purging, "_owing_nothing"),
        "if debt is not None and debt.md(side):",
        "if False:",
    ),
    "arrivals go although they owe pairs with what is on disk": Bug(
        "rpj",
        (ArrivalStage, "_undecided"),
        "waits |= ~workspace",
        "waits = ~workspace",
    ),
    "PMJ lets go of rows that have not met memory": Bug(
        "pmj",
        (Purging, "_owing_nothing"),
        "if not workspace.algorithm.joins_on_arrival:",
        "if False:",
    ),
    "what was merged is forgotten while the merged runs are there": Bug(
        "hmj",
        (history, "_any_of"),
        "d[0] <= departed[1] and departed[0] <= d[1]",
        "d[1] < departed[0]",
    ),
    # ---- which rows, and what they are in the result ----
    "a code equal to the end of a range is left out": Bug(
        "rpj",
        (Promises, "cover"),
        "last <= ranges",
        "last < ranges",
    ),
    "a promise counts for the side it is about": Bug(
        "rpj",
        (ProgressiveWorkspace, "without_partners"),
        "self.promises.cover(side.other,",
        "self.promises.cover(side,",
    ),
    "rows in memory go without a word": Bug(
        "rpj",
        (Purging, "_sweep_side"),
        "yield from workspace.emitter.unmatched(side, table, index, table.stamps)",
        "yield from ()",
    ),
    "rows on disk go without a word": Bug(
        "rpj",
        (Purging, "_rewritten"),
        "yield from self._workspace.emitter.unmatched(side, piece.source, index, piece.ats)",
        "yield from ()",
    ),
    "rows on disk are never looked at": Bug(
        "rpj",
        (ProgressiveJoin, "_purge"),
        "yield from self.purging.purge_runs()",
        "yield from ()",
    ),
    "rows that owed something when they came stay for ever": Bug(
        "rpj",
        (Purging, "sweep"),
        "self._workspace.is_promised(side.other)",
        "False",
    ),
}


def run_the_model(name: str, directory: Path, *, examples: int = 100) -> None:
    for how in (JoinType.FULL, JoinType.ANTI, JoinType.INNER, JoinType.SEMI):
        for tuning in (FEW_ROWS, ALL_IN_MEMORY):
            case = Case((*passing(), End(Side.LEFT), End(Side.RIGHT)), how, 2**26)
            play_model(PublishedJoin(name, tuning, block_bytes=1), case, directory)
        once = settings(max_examples=examples, phases=[Phase.generate], report_multiple_bugs=False)
        check_promises(name, how, directory, search=once)


@pytest.mark.parametrize("name", BUGS)
def test_the_model_notices(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(purging, "_MANY_SPENT", 1)
    BUGS[name].plant(monkeypatch)
    with pytest.raises(AssertionError):
        run_the_model(BUGS[name].algorithm, tmp_path)


def test_the_model_notices_nothing_where_nothing_is_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(purging, "_MANY_SPENT", 1)
    for name in ("rpj", "pmj"):
        run_the_model(name, tmp_path, examples=5)
