"""Er of md- and dd-tasks: the three cases of RPJ 5.3, Lemma 2 and |S_bfr|, by hand and by count."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.meters.expected import ExpectedResults
from watersmeet.model import Side

L, R = Side


def arrive(er: ExpectedResults, side: Side, *counts: int) -> None:
    er.arrived(side, np.array(counts))


def stamps(*ats: int) -> np.ndarray:
    return np.array(ats, np.int64)


def test_case_1_an_arrival_adds_what_lies_on_the_other_disk() -> None:
    er = ExpectedResults(2)
    er.flushed(R, 0, stamps(1, 2, 3, 4, 5, 6, 7), 10)
    arrive(er, L, 3, 100)
    assert er.md.tolist() == [[21, 0], [0, 0]]


def test_case_2_a_row_that_leaves_unused_takes_its_share_along_to_the_dd_task() -> None:
    er = ExpectedResults(1)
    er.flushed(R, 0, stamps(1, 2, 3), 10)
    arrive(er, L, 2)  # at 11 and 12
    er.flushed(L, 0, stamps(11), 13)
    assert er.md[L, 0] == 3
    assert er.dd[0] == 3


def test_case_3_a_flush_on_the_other_side_changes_nothing() -> None:
    er = ExpectedResults(1)
    er.flushed(R, 0, stamps(1, 2, 3), 10)
    arrive(er, L, 2)
    before = er.md.copy()
    er.flushed(R, 0, stamps(4, 5, 6), 13)
    assert er.md.tolist() == before.tolist()
    assert er.dd[0] == 0


def test_lemma_2_a_row_that_an_md_task_has_used_owes_nothing_when_it_leaves() -> None:
    er = ExpectedResults(1)
    er.flushed(R, 0, stamps(1, 2, 3), 10)
    arrive(er, L, 1)  # at 11
    er.md_done(L, 0, began=12, reported=3)
    assert er.md[L, 0] == 0
    arrive(er, L, 1)  # at 13
    er.flushed(L, 0, stamps(11, 13), 14)
    assert er.md[L, 0] == 0
    assert er.dd[0] == 3


def test_s_bfr_is_what_was_flushed_before_the_row_arrived() -> None:
    """T_flush = 10, 20, 30 and n_flush = 4, 5, 6."""
    for ats, expected in ((5, 0), (15, 4), (25, 9), (35, 15)):
        er = ExpectedResults(1)
        for flushed_at, rows in ((10, 4), (20, 5), (30, 6)):
            er.flushed(R, 0, np.arange(rows), flushed_at)
        er.flushed(L, 0, stamps(ats), 40)
        assert er.dd[0] == expected


def test_a_dd_task_leaves_nothing_but_what_came_while_it_was_interrupted() -> None:
    er = ExpectedResults(1)
    er.flushed(R, 0, stamps(1, 2), 10)
    er.flushed(L, 0, stamps(11), 12)
    owed_when_it_began = float(er.dd[0])
    er.flushed(L, 0, stamps(13), 14)
    er.dd_done(0, reported=owed_when_it_began)
    assert er.dd[0] == 2


@dataclass
class Ledger:
    """The same numbers by the definition: every candidate pair that has not met, one by one."""

    clock: int = 0
    rows: list[dict[str, int]] = field(default_factory=list)
    met: set[tuple[int, int]] = field(default_factory=set)

    def tick(self) -> int:
        self.clock += 1
        return self.clock

    def in_memory(self, side: Side) -> list[int]:
        return [n for n, row in enumerate(self.rows) if row["side"] == side and not row["dts"]]

    def on_disk(self, side: Side) -> list[int]:
        return [n for n, row in enumerate(self.rows) if row["side"] == side and row["dts"]]

    def unmet(self, some: list[int], others: list[int]) -> int:
        return sum((min(a, b), max(a, b)) not in self.met for a in some for b in others)

    def meet(self, some: list[int], others: list[int]) -> None:
        self.met |= {(min(a, b), max(a, b)) for a in some for b in others}


EVENTS = st.tuples(st.sampled_from(["arrive", "arrive", "flush", "md"]), st.sampled_from(Side)) | (
    st.tuples(st.just("dd"), st.just(L))
)


@given(st.lists(EVENTS, max_size=40))
def test_er_is_the_number_of_candidate_pairs_that_have_not_met(
    events: list[tuple[str, Side]],
) -> None:
    er, ledger = ExpectedResults(1), Ledger()
    for kind, side in events:
        stamp = ledger.tick()
        if kind == "arrive":
            arrive(er, side, 1)
            ledger.rows.append({"side": side, "ats": stamp, "dts": 0})
            ledger.meet([len(ledger.rows) - 1], ledger.in_memory(side.other))
        elif kind == "flush":
            going = ledger.in_memory(side)[:2]
            if going:
                er.flushed(side, 0, stamps(*(ledger.rows[n]["ats"] for n in going)), stamp)
            for n in going:
                ledger.rows[n]["dts"] = stamp
        elif kind == "md":
            er.md_done(side, 0, began=stamp, reported=float(er.md[side, 0]))
            ledger.meet(ledger.in_memory(side), ledger.on_disk(side.other))
        else:
            er.dd_done(0, reported=float(er.dd[0]))
            ledger.meet(ledger.on_disk(L), ledger.on_disk(R))
        for each in Side:
            assert er.md[each, 0] == ledger.unmet(
                ledger.in_memory(each), ledger.on_disk(each.other)
            )
            assert er.on_disk[each, 0] == len(ledger.on_disk(each))
        assert er.dd[0] == ledger.unmet(ledger.on_disk(L), ledger.on_disk(R))


def test_saved_numbers_go_on_elsewhere_and_stay_as_they_were() -> None:
    er = ExpectedResults(2)
    er.flushed(R, 1, stamps(1, 2, 3), 10)
    saved = er.save()
    as_text = json.dumps(saved)
    er.flushed(R, 1, stamps(4), 11)
    assert json.dumps(saved) == as_text
    other = ExpectedResults(2)
    other.load(json.loads(as_text))
    other.flushed(R, 1, stamps(4), 11)
    assert other.save() == er.save()
