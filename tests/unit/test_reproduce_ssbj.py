"""`watersmeet reproduce ssbj` at a tiny size, and the rules that judge its claims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.test_reproduce_diner import table
from watersmeet.local.service_costs import Measured
from watersmeet.policies.service import ServiceCosts, ServiceSizes
from watersmeet.reproduce.ssbj import claims as judged
from watersmeet.reproduce.ssbj.data import Flights, Zipf, lay, tables
from watersmeet.reproduce.ssbj.figures import figures
from watersmeet.reproduce.ssbj.model import MostGain, loop_seconds
from watersmeet.reproduce.ssbj.report import PAPER_SHOWS, reproduce, write
from watersmeet.reproduce.ssbj.runs import Rows, Run, Runs, laid, run_algorithm
from watersmeet.reproduce.ssbj.settings import (
    HERE,
    HISTORY,
    MESHJOIN,
    SSBJ,
    WEATHER,
    ZIPF,
    Data,
    Experiments,
    Parameters,
    Workload,
)

TINY = Parameters(scale=0.005)
EXPERIMENTS = Experiments(TINY)
SMALL = Data(ZIPF, 20_000, 1.0)


@pytest.fixture(scope="module")
def masters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("masters")
    lay(tables(SMALL, TINY, directory), laid(SMALL, directory))
    return directory


def run(name: str, workload: Workload, directory: Path) -> Run:
    return run_algorithm(name, workload, parameters=TINY, directory=directory)


def test_the_synthetic_data_are_the_papers() -> None:
    made = Zipf(10_000, 1.0, 1)
    (batch,) = Rows(made, 0).take(40_000)
    assert (batch.nbytes / len(batch), _master_bytes(made)) == (20, 120)
    counts = np.bincount(batch.column(0).to_numpy())
    # H(10000) = 9.79: the first value has a tenth of the rows, the second half of that.
    assert counts[0] / 40_000 == pytest.approx(1 / 9.79, rel=0.05)
    assert counts[1] / counts[0] == pytest.approx(1 / 2, rel=0.1)
    keys = np.concatenate([each.column(0).to_numpy() for each in made.master()])
    assert len(keys) == 10_000
    assert len(np.unique(keys)) == pytest.approx(10_000 * (1 - 1 / np.e), rel=0.03)
    partners = np.bincount(keys, minlength=10_000)[batch.column(0).to_numpy()].sum()
    assert made.partners(batch) == partners


def _master_bytes(made: Zipf) -> float:
    (batch,) = made.master()
    return float(batch.nbytes) / len(batch)


def test_flights_have_the_published_numbers_of_partners() -> None:
    weather, history = Flights(WEATHER), Flights(HISTORY)
    (flights,) = pa.Table.from_batches(Rows(weather, 0).take(336_776)).combine_chunks().to_batches()
    assert weather.partners(flights) == 335_220
    assert history.partners(flights) == 336_776 - 2_512
    assert sum(map(len, weather.master())) == 26_115


@pytest.mark.parametrize("name", [SSBJ, MESHJOIN, HERE])
def test_a_small_run_is_exact_and_counts_what_it_does(name: str, masters: Path) -> None:
    found = run(name, Workload(SMALL, 0.5), masters)
    assert found.exact
    assert found.rows > 0
    assert found.memory > 0
    assert found.rate < found.rate_here, "a disk takes time"
    assert (found.hits > 0) == (name != MESHJOIN)
    assert (found.measured is None) == (name == HERE)


def test_at_a_rate_as_many_rows_are_served_as_arrive(masters: Path) -> None:
    workload = Workload(SMALL, 4.0, rate=100_000)
    mesh = run(MESHJOIN, workload, masters)
    assert mesh.exact
    assert mesh.rate == pytest.approx(100_000, rel=0.1)
    # Every row waits for one cycle.
    assert mesh.waiting == pytest.approx(mesh.rows_a_cycle, rel=0.15)


def test_a_larger_disk_buffer_leaves_less_for_rows(masters: Path) -> None:
    small, large = (
        run(MESHJOIN, Workload(SMALL, 0.5, portion=portion), masters) for portion in (0.1, 0.6)
    )
    assert small.steps / small.cycles > 3 * large.steps / large.cycles
    assert large.waiting < small.waiting


def test_nobody_can_reach_the_papers_numbers_with_its_own_data() -> None:
    most = MostGain(100_000_000, 1.0)
    gains = [most.in_memory(share * 100e6 * 120) for share in (0.01, 0.1)]
    assert gains == pytest.approx([4.0, 6.3], abs=0.1)
    assert [most.memory(rows) for rows in (5e6, 50e6)] == pytest.approx([3.4, 4.6], abs=0.1)
    assert most.in_memory(100e6 * 60) > 7, "there are sizes of memory at which it would be possible"
    # Without skew all that can be gained are values without a partner, if they cost nothing.
    steady = replace(MostGain(10**6, 0.0), sizes=ServiceSizes(24, 120, 24))
    assert steady.in_memory(10**6) == pytest.approx(1)


# ---- made up runs -------------------------------------------------------------------------------

MEASURED = Measured(
    ServiceCosts(
        read=1e-9, find=1e-8, collect=1e-9, arrive=1e-8, look_up=1e-8, append=1e-7, expire=1e-8,
        output=1e-7, serve=1e-8,
    ),
    ServiceSizes(56, 131, 72),
)  # fmt: skip


def made_up(workload: Workload, name: str, **changes: Any) -> Run:
    whole = Run(
        workload,
        name,
        master_rows=80_000,
        master_bytes=10**7,
        limit=10**6,
        rows=300_000,
        hits=200_000 if name != MESHJOIN else 0,
        results=300_000,
        cycles=3,
        steps=300,
        bytes_read=3 * 10**7,
        skipped=0,
        cpu=1.0,
        memory=1e6,
        waiting=50_000,
        cache_bytes=1e5,
        exact=True,
        measured=MEASURED,
        seconds=1.0,
    )
    # One that costs what it should.
    whole = replace(whole, cpu=loop_seconds(whole) * whole.steps)
    return replace(whole, **changes)


def made_up_runs(
    change: Callable[[Workload, str], dict[str, float]] = lambda workload, name: {},
) -> Runs:
    return {
        (workload, name): made_up(workload, name, **change(workload, name))
        for workload, name in EXPERIMENTS.plan()
    }


def verdicts(runs: Runs, topic: str) -> list[bool]:
    return [claim.holds for claim in judged.claims(EXPERIMENTS, runs) if topic in claim.topic]


def served(times: float) -> Callable[[Workload, str], dict[str, float]]:
    """SSBJ serves so many times MESHJOIN's rows with the same reads, in the same time."""
    return lambda workload, name: {
        "rows": int(300_000 * times) if name == SSBJ else 300_000,
        "cpu": 0.1,
    }


def test_rates_are_judged_by_the_papers_numbers() -> None:
    topic = "several times MESHJOIN's rate"
    assert verdicts(made_up_runs(served(5.6)), topic) == [False] * 4
    assert verdicts(made_up_runs(served(5.8)), topic) == [False, False, False, True]
    assert verdicts(made_up_runs(served(7.1)), topic) == [True, False, True, True]
    assert verdicts(made_up_runs(served(8.1)), topic) == [True] * 4
    assert verdicts(made_up_runs(served(3.5)), "TPC-H") == [True, False]
    assert verdicts(made_up_runs(served(0.96)), "loses nothing") == [True]
    assert verdicts(made_up_runs(served(0.94)), "loses nothing") == [False]
    assert all(verdicts(made_up_runs(served(1.01)), "real data"))
    assert not any(verdicts(made_up_runs(served(0.99)), "real data"))


def test_memory_is_judged_at_equal_rates_only() -> None:
    def less(times: float) -> Callable[[Workload, str], dict[str, float]]:
        return lambda _, name: {"memory": 1e6 / times if name == SSBJ else 1e6, "cpu": 1.0}

    topic = "several times SSBJ's memory"
    rates, sizes = len(EXPERIMENTS.rates), len(EXPERIMENTS.sizes_at_rate)
    assert verdicts(made_up_runs(less(4.9)), topic) == [False] * (rates + sizes)
    assert verdicts(made_up_runs(less(5.1)), topic) == [False] * rates + [True] * sizes
    assert verdicts(made_up_runs(less(7.1)), topic) == [True] * (rates + sizes)
    slower = made_up_runs(lambda _, name: {"memory": 1e5 if name == SSBJ else 1e6,
                                           "cpu": 2.0 if name == SSBJ else 1.0})  # fmt: skip
    assert not any(verdicts(slower, topic))


def test_a_model_that_is_a_quarter_off_fails() -> None:
    topic = "calculated c_loop"
    assert verdicts(made_up_runs(), topic) == [True] * 4
    for factor in (0.75, 1.3):
        wrong = {key: replace(each, cpu=each.cpu * factor) for key, each in made_up_runs().items()}
        assert verdicts(wrong, topic) == [False] * 4


def test_the_best_factor_and_the_best_buffer_are_judged() -> None:
    def best(x: float) -> Runs:
        fast = {p.workload for p in (*EXPERIMENTS.factors, *EXPERIMENTS.portions) if p.x == x}
        return made_up_runs(lambda workload, _: {"cpu": 0.5 if workload in fast else 1.0})

    assert verdicts(best(1.0), "switching factor") == [True]
    assert verdicts(best(2.0), "switching factor") == [False]
    buffers = EXPERIMENTS.portions
    assert verdicts(best(buffers[2].x), "disk buffer") == [True]
    assert verdicts(best(buffers[-1].x), "disk buffer") == [False]


def test_one_wrong_run_is_named() -> None:
    runs = made_up_runs()
    first = next(iter(runs))
    runs[first] = replace(runs[first], exact=False)
    assert verdicts(runs, "exact join") == [False]
    assert verdicts(made_up_runs(), "exact join") == [True]


def test_every_figure_has_a_line_for_each_algorithm_it_compares() -> None:
    drawn = figures(EXPERIMENTS, made_up_runs())
    assert [figure.number for figure in drawn] == list(PAPER_SHOWS)
    names = [[line.algorithm for line in panel.lines] for panel in drawn[1].panels]
    assert names == [[SSBJ, MESHJOIN, HERE]] * 6 + [[SSBJ, HERE], [SSBJ, MESHJOIN, HERE]]
    calculated = drawn[2].panels[2].lines
    assert np.allclose(calculated[0].y, calculated[1].y), "these runs cost what they should"


@pytest.mark.slow
def test_every_file_is_written(tmp_path: Path) -> None:
    found = write(EXPERIMENTS, made_up_runs(), out=tmp_path)
    pictures = {f"figure-{number}.{kind}" for number in PAPER_SHOWS for kind in ("svg", "png")}
    files = {"curves.csv", "claims.csv", "runs.csv", "index.html"}
    assert {path.name for path in tmp_path.iterdir()} == pictures | files
    rows = table(tmp_path / "claims.csv")
    assert [row["holds"] for row in rows] == ["yes" if claim.holds else "no" for claim in found]
    assert len({row["claim"] for row in rows}) == len(rows)
    assert len(table(tmp_path / "runs.csv")) == len(EXPERIMENTS.plan())


@pytest.mark.slow
def test_a_tiny_reproduction_is_exact_in_every_run(tmp_path: Path) -> None:
    """Some minutes: memory is so small there that steps are many."""
    said: list[str] = []
    found = reproduce(TINY, out=tmp_path, say=said.append)
    assert len(said) == len(EXPERIMENTS.plan())
    assert len({len(line) for line in said}) == 1, "progress lines are not aligned"
    assert [claim.holds for claim in found if "exact join" in claim.topic] == [True]
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "watersmeet reproduce ssbj --scale 0.005 --seed 2018" in page
