"""`watersmeet reproduce mjoin` at a tiny size, its streams, and the rules that judge its claims."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from watersmeet.reproduce.mjoin import claims as judged
from watersmeet.reproduce.mjoin.figures import figures
from watersmeet.reproduce.mjoin.report import PAPER_SHOWS, reproduce
from watersmeet.reproduce.mjoin.runs import Curve, Curves, Planned, run_one
from watersmeet.reproduce.mjoin.settings import (
    GRID,
    PRIORITY,
    TUPLES,
    Experiments,
    Parameters,
    Variant,
    Workload,
)
from watersmeet.reproduce.mjoin.streams import ACCESSES, LIVE, NewsStreams

TINY = Experiments(Parameters(scale=0.001, runs=1))


# ---- the streams (6.1) --------------------------------------------------------------------------


def test_between_two_punctuations_only_the_live_items_are_accessed() -> None:
    made = NewsStreams.make(5_000, displaced=0, seed=1)
    starts = np.concatenate([[0], made.ends[:-1]])
    seen = set()
    for oldest, (start, end) in enumerate(zip(starts, made.ends, strict=True)):
        some = made.accesses[start:end]
        assert oldest <= some.min()
        assert some.max() < oldest + LIVE
        seen |= set((some - oldest).tolist())
    assert seen == set(range(LIVE)), "each of the ten is accessed"
    assert len(made.accesses) / len(made.ends) == pytest.approx(ACCESSES, rel=0.01)
    assert set(made.accesses) <= set(made.news)


def test_punctuations_come_once_and_after_the_last_access_to_their_item() -> None:
    made = NewsStreams.make(2_000, displaced=0, seed=2)
    heard = [made.punctuations(s, s + 7) for s in range(0, len(made.accesses), 7)]
    assert np.concatenate(heard).tolist() == list(range(len(made.ends)))
    for start, items in zip(range(0, len(made.accesses), 7), heard, strict=True):
        assert not np.isin(made.accesses[start + 7 :], items).any()


def test_news_are_ordered_displaced_or_in_any_order() -> None:
    ordered, displaced, any_order = (
        NewsStreams.make(20_000, displaced=most, seed=3).news for most in (0, 100, None)
    )
    items = np.arange(len(ordered))
    assert (ordered == items).all()
    assert 50 < np.abs(np.argsort(displaced) - items).max() <= 100
    assert np.abs(np.argsort(any_order) - items).max() > 1_000


def test_rows_have_the_papers_columns() -> None:
    made = NewsStreams.make(100, displaced=0, seed=1)
    news, accesses = made.tables(1)
    assert news.schema.names == ["sno", "title", "keyword"]
    assert news.column("title")[7].as_py() == "News item 7"
    assert accesses.column("ipaddr")[0].as_py().count(".") == 3


# ---- the joins ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "planned", [Planned(w, v, 1) for w, v in TINY.plan()[::4]], ids=lambda p: p.workload.words
)
def test_every_join_of_the_figures_is_exact(planned: Planned) -> None:
    found = run_one(planned)
    assert found.exact
    assert len(found.seconds) == len(found.rows) == GRID
    assert (np.diff(found.seconds) >= 0).all()


def test_purged_state_is_that_of_the_live_items() -> None:
    workload = next(w for w in TINY.timed if w.grain is TUPLES)
    at_once = run_one(Planned(workload, Variant(True, purge_every=1), 1))
    everything = run_one(Planned(workload, Variant(False), 1))
    # News of a turn that are not live yet, and accesses of a turn whose item has not come.
    assert at_once.rows.max() <= 100
    assert everything.rows.max() == everything.stored > 2_000
    assert at_once.stored < 0.6 * everything.stored


# ---- made up curves -----------------------------------------------------------------------------


def made_up(
    seconds: Callable[[Workload, Variant], float] = lambda workload, variant: 1.0,
    rows: Callable[[Variant], float] = lambda variant: 1.0,
) -> Curves:
    """Each join takes so many seconds for each result, and keeps so many rows."""
    steps = np.arange(1.0, GRID + 1)
    return {
        (workload, variant): Curve(
            results=100 * steps,
            seconds=seconds(workload, variant) * steps,
            rows=np.full(GRID, rows(variant)) if variant.promises else 100 * steps,
            nbytes=steps,
            end=1.0,
            stored=1.0 if variant.schedule == PRIORITY else 2.0,
            exact=True,
            runs=1,
        )
        for workload, variant in TINY.plan()
    }


def verdicts(curves: Curves, topic: str) -> set[bool]:
    return {claim.holds for claim in judged.claims(TINY, curves) if topic in claim.topic}


def test_schedules_are_judged_by_time_and_by_stored_rows() -> None:
    quick = made_up(lambda _, variant: 1.0 if variant.schedule == PRIORITY else 1.01)
    assert verdicts(quick, "in order") == {True}
    assert verdicts(made_up(), "in order") == {False}
    assert verdicts(quick, "fewer rows are stored") == {True}


def test_a_break_even_is_where_one_stays_ahead() -> None:
    slow = made_up(lambda _, variant: 1.5 if variant.promises else 1.0)
    fast = made_up(lambda _, variant: 0.9 if variant.promises else 1.0)
    assert verdicts(slow, "past a break-even") == {False}
    assert verdicts(slow, "at first") == {True}
    assert verdicts(fast, "past a break-even") == {True}
    assert verdicts(fast, "at first") == {False}
    first = next(iter(slow.values()))
    crossing = Curve(**{**vars(first), "seconds": np.where(first.results > 2_000, 0.0, 1e9)})
    assert judged.break_even(crossing, first) == 2_100


def test_memory_must_be_small_and_flat() -> None:
    assert verdicts(made_up(rows=lambda _: 300.0), "reduces memory") == {True}
    assert verdicts(made_up(rows=lambda _: 500.0), "reduces memory") == {False}
    assert verdicts(made_up(), "stays as it is") == {True}


def test_batch_purging_must_be_faster_and_immediate_purging_smaller() -> None:
    right = made_up(lambda _, v: 2.0 if v.purge_every == 1 else 1.0, lambda v: float(v.purge_every))
    assert verdicts(right, "is faster than after each") == {True}
    assert verdicts(right, "least memory") == {True}
    assert verdicts(made_up(), "is faster than after each") == {False}


def test_every_figure_has_its_lines() -> None:
    drawn = figures(TINY, made_up())
    assert [figure.number for figure in drawn] == list(PAPER_SHOWS)
    assert all(len(panel.lines) >= 2 for figure in drawn for panel in figure.panels)


@pytest.mark.slow
def test_a_tiny_reproduction_writes_every_file(tmp_path: Path) -> None:
    said: list[str] = []
    found = reproduce(TINY.parameters, out=tmp_path, say=said.append)
    assert len(said) == len(TINY.plan())
    assert [claim.holds for claim in found if "exact join" in claim.topic] == [True]
    pictures = {f"figure-{number}.{kind}" for number in PAPER_SHOWS for kind in ("svg", "png")}
    files = {"curves.csv", "claims.csv", "index.html"}
    assert {path.name for path in tmp_path.iterdir()} == pictures | files
