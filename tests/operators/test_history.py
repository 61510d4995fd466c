"""Who has met whom: XJoin's, HMJ's and RPJ's rules against duplicates."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from tests.operators.inputs import COSTS, batch, make, numbered
from watersmeet.kernels import matching
from watersmeet.model import Side
from watersmeet.operators.progressive.history import LAST_CODE, DdRecord, History, MdRecord
from watersmeet.operators.stage import Stage
from watersmeet.operators.tuning import Tuning
from watersmeet.store.runs import STILL_HERE

L, R = Side
HASH = 7


def have_met(
    history: History, left: tuple[int, int], right: tuple[int, int], code: int = HASH
) -> bool:
    """Whether two rows with these stays in memory have met."""
    codes = np.array([code], np.uint64)
    ats_l, dts_l, ats_r, dts_r = (np.array([stamp], np.int64) for stamp in (*left, *right))
    rows_l, rows_r = np.zeros((2, 1), np.int64)
    kept = matching.drop_met(
        codes, ats_l, dts_l, ats_r, dts_r, matching.NEITHER, *history.arrays(), rows_l, rows_r, 1
    )
    return not kept


# ---- XJoin's example (RPJ 2.1): t1 arrives at 0 and leaves at 10, t2 arrives at 5 and leaves at 20


def test_xjoins_pair_is_reported_at_5_and_neither_at_15_nor_in_the_dd_stage() -> None:
    history = History()
    assert have_met(history, (0, 10), (5, STILL_HERE))  # the md-stage at 15 finds it again
    history.scanned(R, MdRecord(15, (10, 10)))
    assert have_met(history, (0, 10), (5, 20))  # and so does the dd-stage


def test_the_md_stage_at_15_counts_for_a_row_that_arrived_between() -> None:
    """t3 of R2 arrives at 12, after t1 has left: the md-stage at 15 is what joins them."""
    history = History()
    assert not have_met(history, (0, 10), (12, STILL_HERE))
    history.scanned(R, MdRecord(15, (10, 10)))
    assert have_met(history, (0, 10), (12, STILL_HERE))
    assert have_met(history, (0, 10), (12, 20))
    assert not have_met(history, (0, 10), (16, 20))  # arrived after that md-stage
    assert not have_met(history, (11, 13), (14, 20))  # was not on disk at 15 in that run


def test_xjoins_example_through_the_operator(tmp_path: Path) -> None:
    """One partition and memory for four rows. Row 0 of R1 is t1, row 0 of R2 is t2."""
    join = make("xjoin", tmp_path, Tuning(partitions=1, memory_rows=4, flush_share=0, costs=COSTS))
    assert not numbered(join.push(L, batch(L, [1])))
    at_5 = list(join.push(R, batch(R, [1])))
    assert [matches.stage for matches in at_5] == [Stage.MM]
    assert numbered(at_5) == {(0, 0): 1}
    # t1 is flushed with the larger side, t2 stays. Another row of t2's key comes after that.
    list(join.push(L, batch(L, [2, 3, 4], first=1)))
    assert [(record.side, record.rows) for record in join.metrics.flushes] == [(L, 3)]
    list(join.push(R, batch(R, [1], first=1)))
    at_15 = numbered(join.idle(lambda: False))
    assert join.metrics.md_tasks == 1
    assert at_15 == {(0, 1): 1}
    # Both leave, and the clean-up meets t1 and t2 on disk.
    later = numbered(join.push(R, batch(R, [5, 6, 7], first=2)))
    assert join.metrics.flushes[-1].side is R
    for side in Side:
        later += numbered(join.end(side))
    later += numbered(join.finish())
    assert later == {}
    join.close()


# ---- HMJ: equal run numbers (RPJ 2.2) -----------------------------------------------------------


@pytest.mark.parametrize(("k1", "k2"), list(product(range(3), repeat=2)))
def test_hmjs_rule_of_equal_run_numbers_is_the_rule_of_stamps(k1: int, k2: int) -> None:
    """Both sides of a partition leave together, so a row's run says when it was in memory."""
    flushes = [10, 20, 30]
    arrivals = [(2, 9), (11, 19), (25, 21)]  # one row of each side in each run
    left, right = (arrivals[k1][0], flushes[k1]), (arrivals[k2][1], flushes[k2])
    assert have_met(History(), left, right) == (k1 == k2)


# ---- RPJ: md-tasks and matching runs (RPJ 5.1, 5.2) ---------------------------------------------


def test_an_md_task_joins_rows_in_memory_at_its_time_with_rows_that_had_left_before() -> None:
    history = History()
    history.scanned(L, MdRecord(50, (10, 30)))
    assert have_met(history, (40, 60), (5, 30))
    assert have_met(history, (40, STILL_HERE), (5, 30))
    assert not have_met(history, (51, 60), (5, 30))  # had not arrived
    assert not have_met(history, (40, 45), (5, 30))  # had left
    assert not have_met(history, (40, 60), (32, 35))  # of a run that was not read
    assert not have_met(history, (5, 30), (40, 60))  # it was the left side that was in memory


def test_rows_from_matching_runs_have_met() -> None:
    """One merge of runs r5_1 and r4_2 (Figure 6b): departures 10 to 20 on either side."""
    history = History()
    history.merged(DdRecord((10, 20), (12, 18)))
    assert have_met(history, (1, 10), (11, 12))
    assert have_met(history, (13, 20), (11, 12))
    assert not have_met(history, (1, 10), (21, 22))  # of a run that came later
    assert not have_met(history, (21, 22), (11, 12))


def test_a_merge_takes_the_place_of_those_that_made_its_runs() -> None:
    history = History()
    history.merged(DdRecord((1, 4), (2, 5)))
    history.merged(DdRecord((6, 8), (7, 9)))
    history.merged(DdRecord((1, 8), (2, 9)))
    assert len(history.save()["merges"]) == 1
    history.merged(DdRecord((11, 12), (2, 9)))
    assert len(history.save()["merges"]) == 2


# ---- interrupted tasks --------------------------------------------------------------------------


def test_an_interrupted_scan_counts_as_far_as_it_came() -> None:
    history = History()
    history.scanned(L, MdRecord(50, (10, 10), (0, 100)))
    assert have_met(history, (40, 60), (5, 10), 100)
    assert not have_met(history, (40, 60), (5, 10), 101)
    history.scanned(L, MdRecord(55, (10, 10), (101, LAST_CODE)))
    assert have_met(history, (40, 60), (5, 10), 101)
    assert not have_met(history, (52, 60), (5, 10), 100)
    assert have_met(history, (52, 60), (5, 10), LAST_CODE)


def entries(history: History, side: Side) -> int:
    return len(history.save()["scans"][side])


def test_steps_of_one_scan_become_one_entry() -> None:
    history = History()
    for codes in ((0, 4), (5, 9), (10, LAST_CODE)):
        history.scanned(L, MdRecord(50, (10, 10), codes))
    assert entries(history, L) == 1
    for departed in ((20, 25), (30, 30)):
        history.scanned(L, MdRecord(50, departed))
    assert entries(history, L) == 1
    assert have_met(history, (40, 60), (5, 10), 3)
    assert have_met(history, (40, 60), (5, 30), 3)


def test_a_scan_that_begins_again_at_the_same_stamp_erases_nothing() -> None:
    """Found as a bug: run 1 at stamp 50; resumed at 60 with run 2, then all again at 60."""
    history = History()
    history.scanned(R, MdRecord(50, (10, 10)))
    history.scanned(R, MdRecord(60, (20, 20)))
    history.scanned(R, MdRecord(60, (10, 10)))
    assert have_met(history, (11, 20), (30, STILL_HERE))
    assert have_met(history, (1, 10), (55, STILL_HERE))


def test_a_history_survives_json() -> None:
    history = History()
    history.scanned(L, MdRecord(50, (10, 10), (0, 100)))
    history.scanned(R, MdRecord(60, (20, 20), (2**63, LAST_CODE)))
    history.merged(DdRecord((10, 10), (20, 20), (0, LAST_CODE)))
    saved = json.dumps(history.save())
    assert json.dumps(History.load(json.loads(saved)).save()) == saved
