"""Mistakes in letting rows go, made on purpose: the model of promises must notice each of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import Phase, settings

from tests.contract.test_planted_bugs import Bug
from tests.contract.test_promises import (
    ALL_IN_MEMORY,
    FEW_ROWS,
    FORCED,
    check_promises,
    passing,
    play_forced,
    play_model,
)
from watersmeet.kernels import promised
from watersmeet.model import JoinType, Side
from watersmeet.operators.emitter import ResultEmitter
from watersmeet.operators.progressive import history, merging, purging, state
from watersmeet.operators.progressive.arrival import ArrivalStage
from watersmeet.operators.progressive.join import ProgressiveJoin
from watersmeet.operators.progressive.purging import Purging
from watersmeet.operators.progressive.watching import Watching
from watersmeet.operators.progressive.workspace import ProgressiveWorkspace
from watersmeet.testing.family import PublishedJoin
from watersmeet.testing.schedule import Case, End

# To find them all takes minutes.
pytestmark = pytest.mark.slow

BUGS = {
    # ---- saved and restored ----
    "a purged row rises again when a join is restored": Bug(
        "rpj",
        (ProgressiveWorkspace, "was_dropped"),
        "gone |= early &",
        "gone & early &",
    ),
    "the tombstone counts for rows that came later": Bug(
        "rpj",
        (ProgressiveWorkspace, "was_dropped"),
        "piece.ats < self.purged[side][self.memory.partition_of(piece.codes)]",
        "piece.ats >= 0",
    ),
    "promises are lost when a join is restored": Bug(
        "rpj",
        (Watching, "load"),
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
        "intersect(*(watching.promises.of(side, 0) for side in Side))",
        "watching.promises.of(Side.LEFT, 0)",
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
        "waits |= ~alone",
        "waits = ~alone",
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
        (promised, "find_covered"),
        "covered[row] = stop <= ranges[place, 1]",
        "covered[row] = stop < ranges[place, 1]",
    ),
    "a promise counts for the side it is about": Bug(
        "rpj",
        (Watching, "without_partners"),
        "promises.cover(side.other,",
        "promises.cover(side,",
    ),
    "rows in memory go without a word": Bug(
        "rpj",
        (Purging, "_drop"),
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
        (ProgressiveJoin, "_purge_disk"),
        "yield from self.purging.purge_runs(pause)",
        "yield from ()",
    ),
    "rows that owed something when they came stay for ever": Bug(
        "rpj",
        (Purging, "sweep"),
        "watching.is_promised(side.other)",
        "False",
    ),
    # ---- watched predicates, and sweeps that wait ----
    "what was promised since the last sweep counts as swept when a join is restored": Bug(
        "rpj",
        (Watching, "load"),
        "self.promises.copy_of_ranges() if swept is None else Promises.load(swept)",
        "self.promises.copy_of_ranges()",
    ),
    "a sweep in the middle of an arrival takes its rows for stored": Bug(
        "rpj",
        (ArrivalStage, "_make_room_for"),
        "yield from self.make_room(overflow)",
        "yield from self._sweep(); yield from self.make_room(self._memory.overflow(piece))",
    ),
    "rows are never swept when promises are few": Bug(
        "rpj",
        (Purging, "sweep"),
        "0 if anew else",
        "0 if False else",
    ),
    "a run goes unread though the values of some rows are not promised": Bug(
        "rpj",
        (Watching, "no_row_has_partners"),
        "promises.cover(side.other, number, first, last).all()",
        "promises.touch(side.other, number, first, last).any()",
    ),
    "a merged run has the values of its first part only": Bug(
        "rpj",
        (merging, "spans_of"),
        "for run in runs]",
        "for run in runs[:1]]",
    ),
    "a written run knows the values of rows that have gone": Bug(
        "rpj",
        (Watching, "spans"),
        "(int(codes.min()), int(codes.max()))",
        "(int(codes.min()), int(codes.min()))",
    ),
    "all rows in memory count as owing nothing when the last of them does": Bug(
        "rpj",
        (Purging, "_without_partners"),
        "int(stamps[-1]) < int(purged.min())",
        "int(stamps[-1]) < int(purged.max())",
    ),
    "the last code that is promised is left out": Bug(
        "rpj",
        (promised, "find_covered"),
        "if count == 0 or stop > highest:",
        "if count == 0 or stop >= highest:",
    ),
    "a row is looked for only in the range of the row before, and in those before that": Bug(
        "rpj",
        (promised, "find_covered"),
        "if start < ranges[place, 0] or start > ranges[place, 1]:",
        "if start < ranges[place, 0]:",
    ),
    "one predicate that is promised is not enough": Bug(
        "rpj",
        (Watching, "without_partners"),
        "gone | covered",
        "gone & covered",
    ),
    "the reach of a band is forgotten": Bug(
        "rpj",
        (Watching, "without_partners"),
        "first, last = self.predicates[number].reach(side, rows[number])",
        "first = last = rows[number]",
    ),
    # ---- one partner at most ----
    "rows that may have many partners go after the first": Bug(
        "rpj",
        (ResultEmitter, "decides"),
        "if side in self.one_partner:",
        "if self.one_partner:",
    ),
    "rows that have found their only partner stay": Bug(
        "rpj",
        (ResultEmitter, "decides"),
        "if side in self.one_partner:",
        "if False:",
    ),
    "right rows of a semi join are not marked": Bug(
        "rpj",
        (ResultEmitter, "pairs"),
        "if self.marked[Side.RIGHT]:",
        "if False:",
    ),
}


def run_the_model(name: str, directory: Path, *, examples: int = 300) -> None:
    for how in (JoinType.FULL, JoinType.ANTI, JoinType.INNER, JoinType.SEMI):
        for tuning in (FEW_ROWS, ALL_IN_MEMORY):
            case = Case((*passing(), End(Side.LEFT), End(Side.RIGHT)), how, 2**26)
            play_model(PublishedJoin(name, tuning, block_bytes=1), case, directory)
        for mode in FORCED:
            play_forced(name, mode, how, directory)
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
