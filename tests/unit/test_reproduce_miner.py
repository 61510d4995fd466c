"""`watersmeet reproduce miner`, end to end at a tiny size, and the rules that judge its claims."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.unit.test_reproduce_diner import Written, table
from watersmeet.reproduce.diner.settings import Parameters
from watersmeet.reproduce.miner import claims as judged
from watersmeet.reproduce.miner.bound import (
    most_in_best_parts,
    most_in_equal_parts,
    most_online,
    most_with_keys,
)
from watersmeet.reproduce.miner.relations import arrivals_of, join_size, relations, schema_of
from watersmeet.reproduce.miner.report import PAPER_SHOWS, described, reproduce
from watersmeet.reproduce.miner.runs import Run, Runs, run_algorithm, tuning_of
from watersmeet.reproduce.miner.settings import (
    HERE,
    MINER,
    MJOIN,
    Experiments,
    Workload,
)
from watersmeet.sim.trace import Trace

TINY = Parameters(scale=0.01)
EXPERIMENTS = Experiments(TINY)
FULL = Experiments(Parameters())


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    out = tmp_path_factory.mktemp("reproduction") / "miner"
    said: list[str] = []
    found = reproduce(TINY, out=out, say=said.append)
    return out, said, found


@pytest.mark.slow
def test_a_tiny_run_writes_every_file(written: Written) -> None:
    out, said, _ = written
    pictures = {f"figure-{number}.{kind}" for number in PAPER_SHOWS for kind in ("svg", "png")}
    assert {path.name for path in out.iterdir()} == pictures | {
        "curves.csv",
        "claims.csv",
        "index.html",
    }
    assert len(said) == len(EXPERIMENTS.plan())
    assert len({len(line) for line in said}) == 1, "progress lines are not aligned"
    page = (out / "index.html").read_text(encoding="utf-8")
    assert page.count("data:image/svg+xml;base64,") == len(PAPER_SHOWS)
    assert "watersmeet reproduce miner --scale 0.01 --seed 2010" in page


@pytest.mark.slow
def test_claims_are_written_as_they_were_judged_and_all_joins_are_exact(written: Written) -> None:
    out, _, found = written
    rows = table(out / "claims.csv")
    assert [row["holds"] for row in rows] == ["yes" if claim.holds else "no" for claim in found]
    assert len({row["claim"] for row in rows}) == len(rows)
    exact = [claim for claim in found if "exact join" in claim.topic]
    assert len(exact) == 2
    assert all(claim.holds for claim in exact)


@pytest.mark.slow
def test_the_claims_of_the_full_size_hold_as_they_are_published(tmp_path: Path) -> None:
    """Some 20 minutes. docs/reproduction-miner.md has the table of this run."""
    found = reproduce(Parameters(), out=tmp_path, say=print)
    page = Path(__file__).parents[2] / "docs" / "reproduction-miner.md"
    text = page.read_text(encoding="utf-8")
    for claim in found:
        verdict = "yes" if claim.holds else "**no**"
        assert f"| {claim.claim} | {claim.measured} | {verdict} |" in text


def test_the_sizes_are_the_papers() -> None:
    largest = FULL.largest
    assert [largest.input_rows * 200, largest.memory_rows * 200] == [44_000_000, 8_800_000]
    assert [FULL.chains[inputs][0].workload.input_rows for inputs in (2, 3, 4)] == [
        200_000,
        210_000,
        220_000,
    ]
    assert "100,000" in described(FULL.parameters)["rows of a relation"]


def test_keys_are_there_once_and_foreign_keys_follow_zipf() -> None:
    data = relations(20_000, 1_000, 1)
    for number, name in ((1, "a1"), (4, "a3")):
        assert np.array_equal(np.sort(data[number][name]), np.arange(1, 1_001))
    for number, name in ((2, "a1"), (2, "a2"), (3, "a2"), (3, "a3")):
        counts = np.bincount(data[number][name])
        assert counts.argmax() == 1
        # H(1000) = 7.49: the first value has 13% of the rows, the second half of that.
        assert counts[1] / 20_000 == pytest.approx(1 / 7.49, rel=0.1)
        assert counts[2] / counts[1] == pytest.approx(1 / 2, rel=0.15)
    assert abs(np.corrcoef(data[2]["a1"], data[2]["a2"])[0, 1]) < 0.05


def test_every_chain_has_the_attributes_that_it_joins() -> None:
    columns = {
        inputs: [table.schema.names for table in arrivals_of(points[0].workload, 1).tables]
        for inputs, points in EXPERIMENTS.chains.items()
    }
    assert columns == {
        2: [["a2"], ["a2"]],
        3: [["a1"], ["a1", "a2"], ["a2"]],
        4: [["a1"], ["a1", "a2"], ["a2", "a3"], ["a3"]],
    }
    star = EXPERIMENTS.stars[4][0].workload
    assert [each.schema.names for each in arrivals_of(star, 1).tables] == [["a"]] * 4
    assert schema_of(star).output.names == ["a"]


def test_memory_and_algorithm_do_not_change_what_arrives() -> None:
    first, *others = (point.workload for point in EXPERIMENTS.chains[4])
    arrivals = arrivals_of(first, 1)
    for other in others:
        again = arrivals_of(other, 1)
        assert np.array_equal(arrivals.inputs, again.inputs)
        assert arrivals.tables == again.tables


@pytest.mark.parametrize("name", [MINER, HERE, MJOIN])
def test_a_small_join_ends_with_all_its_results(name: str) -> None:
    for workload in EXPERIMENTS.checked:
        if name == MJOIN and not workload.star:
            continue
        run = run_algorithm(name, workload, parameters=TINY)
        assert run.trace.total == run.exact == join_size(workload, TINY.seed)


def test_results_do_not_depend_on_the_number_of_inputs() -> None:
    """Every row of R2 and R3 has one partner in R1 and in R4, so that figures can be compared."""
    small = Workload(4, 0.5, rows=60, keys=8, to_the_end=True)
    totals = [
        run_algorithm(HERE, replace(small, inputs=inputs), parameters=TINY).trace.total
        for inputs in (2, 3, 4)
    ]
    assert totals == [join_size(small, TINY.seed)] * 3


@pytest.mark.slow
def test_with_two_inputs_miner_is_near_what_is_possible_and_nearer_if_it_remembers() -> None:
    parameters = Parameters(scale=0.05)
    workload = Experiments(parameters).chains[2][1].workload
    plain, here = (
        run_algorithm(name, workload, parameters=parameters).share for name in (MINER, HERE)
    )
    # A choice of rows may be lucky: 5% for that.
    assert 0.6 < plain / most_online(workload) < here / most_online(workload) < 1.05


@pytest.mark.slow
def test_the_same_seed_reproduces_the_same_run_and_another_seed_does_not() -> None:
    workload = EXPERIMENTS.delays[2].workload
    first, again, other = (
        run_algorithm(MINER, workload, parameters=replace(TINY, seed=seed)) for seed in (1, 1, 2)
    )
    assert np.array_equal(first.trace.time, again.trace.time)
    assert np.array_equal(first.trace.results, again.trace.results)
    assert not np.array_equal(first.trace.time, other.trace.time)


def test_what_is_possible_is_all_if_everything_fits_memory() -> None:
    whole = Workload(4, 1.0, rows=2_000, keys=100)
    assert most_online(whole) == pytest.approx(1.0, abs=1e-3)
    assert most_in_equal_parts(whole) == pytest.approx(1.0, abs=1e-3)
    assert most_with_keys(whole, 0) == 0.0
    # Of three inputs only the rows of R2 look for one in R1.
    assert most_with_keys(replace(whole, inputs=3), 0) == pytest.approx(0.5, abs=1e-3)


def test_what_is_possible_is_in_order() -> None:
    for points in FULL.chains.values():
        for point in points:
            equal, best, free = (
                most(point.workload)
                for most in (most_in_equal_parts, most_in_best_parts, most_online)
            )
            assert equal <= best + 1e-9 <= free + 2e-9


def test_of_one_value_memory_meets_what_arrives() -> None:
    """n rows of either side, m of them in memory: 2mn - m^2 of n^2 pairs, m a half of memory."""
    workload = Workload(2, 0.05, rows=1_000, keys=1)
    assert most_online(workload) == pytest.approx(2 * 0.05 - 0.05**2, rel=0.01)


def test_loaded_blocks_are_taken_from_memory_only_where_there_are_stalls() -> None:
    steady, delayed = FULL.chains[4][0].workload, FULL.delays[0].workload
    assert tuning_of(MINER, steady, FULL.parameters).memory_rows == 11_000
    assert tuning_of(MINER, delayed, FULL.parameters).memory_rows == 11_000 - 22 * 50
    assert tuning_of(MINER, steady, FULL.parameters).flush_share == pytest.approx(50 / 11_000)


def made_up(
    workload: Workload, algorithm: str, *, online: int, waiting: int = 0, index_bytes: int = 0
) -> Run:
    trace = Trace(
        time=np.array([1.0, 10.0, 20.0]),
        results=np.array([online // 10, online, 1000]),
        work=np.array([1.0, 2.0, 3.0]),
        first_flush=0.5,
        transmission_end=10.0,
        cleanup_start=10.0,
        most_waiting=waiting,
    )
    return Run(workload, algorithm, trace, 1000, 0.0, index_bytes)


def made_up_runs(
    *, online: int = 600, four: int = 500, mjoin: int = 10, delayed: int = 600, **others: int
) -> Runs:
    def found(workload: Workload, name: str) -> int:
        if name == MJOIN:
            return mjoin
        if workload.pause:
            return delayed
        return four if workload.inputs == 4 else online

    return {
        (workload, name): made_up(workload, name, online=found(workload, name), **others)
        for workload, name in EXPERIMENTS.plan()
    }


def verdicts(runs: Runs, topic: str) -> list[bool]:
    return [claim.holds for claim in judged.claims(EXPERIMENTS, runs) if topic in claim.topic]


def test_the_share_of_four_inputs_is_judged_by_the_papers_numbers() -> None:
    assert verdicts(made_up_runs(four=549), "four-way chain") == [False, False]
    assert verdicts(made_up_runs(four=550), "four-way chain") == [True, False]
    assert verdicts(made_up_runs(four=800), "four-way chain") == [True, True]


def test_a_fifth_less_is_modest_and_more_is_not() -> None:
    assert all(verdicts(made_up_runs(online=600, four=480), "modest decrease"))
    assert not any(verdicts(made_up_runs(online=600, four=470), "modest decrease"))


def test_miner_must_not_be_behind_mjoin_and_is_60_times_ahead() -> None:
    assert all(verdicts(made_up_runs(mjoin=500), "at least as much online as MJoin"))
    behind = verdicts(made_up_runs(mjoin=520), "at least as much online as MJoin")
    assert behind == [True] * 8 + [False] * 4  # only four inputs have fewer
    assert verdicts(made_up_runs(mjoin=8), "60 times") == [True]
    assert verdicts(made_up_runs(mjoin=9), "60 times") == [False]


def test_a_buffer_of_more_than_a_few_blocks_too_many_fails() -> None:
    assert all(verdicts(made_up_runs(waiting=TINY.max_new), "input buffer stays small"))
    assert not any(verdicts(made_up_runs(waiting=TINY.max_new + 20), "input buffer stays small"))


def test_indexes_and_delays_are_judged() -> None:
    # 440 rows of 200 bytes.
    assert verdicts(made_up_runs(index_bytes=1_750), "indexes") == [True]
    assert verdicts(made_up_runs(index_bytes=1_770), "indexes") == [False]
    assert verdicts(made_up_runs(delayed=450), "in spite of delays") == [True] * 2
    assert verdicts(made_up_runs(delayed=449), "in spite of delays") == [False] * 2
    assert not any(verdicts(made_up_runs(), "the more memory"))
