"""`watersmeet reproduce rpj`, end to end at a tiny size, and the rules that judge its claims."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from watersmeet.errors import InvalidArgument
from watersmeet.operators.stage import Stage
from watersmeet.reproduce.claim import Claim, write_claims
from watersmeet.reproduce.rpj import claims as judged
from watersmeet.reproduce.rpj.report import described, reproduce
from watersmeet.reproduce.rpj.runs import Run, Runs, plan, run_algorithm, schedule_of
from watersmeet.reproduce.rpj.settings import Network, Parameters, Pattern, Setting
from watersmeet.sim.trace import Trace

HARMONY = Setting(Network.UNRELIABLE, Pattern.HARMONY, 1)
# Large flushes make few runs, and more patience makes fewer stalls: at this size they are what
# takes the time.
TINY = Parameters(scale=0.001, flush_share=0.5, patience=0.028)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], list[Claim]]:
    out = tmp_path_factory.mktemp("reproduction") / "rpj"
    said: list[str] = []
    found = reproduce(TINY, out=out, say=said.append)
    return out, said, found


@pytest.mark.slow
def test_a_tiny_run_writes_every_file(written: tuple[Path, list[str], list[Claim]]) -> None:
    out, said, _ = written
    pictures = {f"figure-{n}.{kind}" for n in range(8, 13) for kind in ("svg", "png")}
    assert {path.name for path in out.iterdir()} == pictures | {
        "curves.csv",
        "claims.csv",
        "index.html",
    }
    assert len(said) == 4 * 3 + 4 * 5  # one line per run
    assert len({len(line) for line in said}) == 1, "progress lines are not aligned"


@pytest.mark.slow
def test_curves_have_the_columns_and_every_line_of_every_panel(
    written: tuple[Path, list[str], list[Claim]],
) -> None:
    out, _, _ = written
    header = (out / "curves.csv").read_text(encoding="utf-8").splitlines()[0]
    assert header == "figure,setting,algorithm,time,results,cost"
    rows = table(out / "curves.csv")
    lines: dict[tuple[str, str, str], list[dict[str, str]]] = {}
    for row in rows:
        lines.setdefault((row["figure"], row["setting"], row["algorithm"]), []).append(row)
    panels = {"harmony-1:1", "reverse-1:1", "harmony-5:1", "reverse-5:1"}
    rivals, variants = {"rpj", "hmj", "xjoin"}, {"rpj", "rpj-dd", "rpj-md"}
    drawn = {"8": rivals, "9": rivals, "10": rivals, "11": variants, "12": variants}
    assert set(lines) == {
        (figure, panel, name)
        for figure, names in drawn.items()
        for panel in panels
        for name in names
    }
    for line in lines.values():
        assert np.all(np.diff([float(row["time"]) for row in line]) > 0)
        assert np.all(np.diff([int(row["results"]) for row in line]) >= 0)
        assert all(float(row["cost"]) > 0 for row in line if int(row["results"]))
        assert all(row["cost"] == "" for row in line if not int(row["results"]))
        assert int(line[-1]["results"]) > 0


@pytest.mark.slow
def test_claims_are_written_as_they_were_judged(
    written: tuple[Path, list[str], list[Claim]],
) -> None:
    out, _, found = written
    header = (out / "claims.csv").read_text(encoding="utf-8").splitlines()[0]
    assert header == "claim,paper,measured,holds"
    rows = table(out / "claims.csv")
    assert [row["holds"] for row in rows] == ["yes" if claim.holds else "no" for claim in found]
    assert len({row["claim"] for row in rows}) == len(rows)
    exact = [claim for claim in found if "exact join" in claim.topic]
    assert len(exact) == 8
    assert all(claim.holds for claim in exact)


@pytest.mark.slow
def test_the_page_is_whole_by_itself(written: tuple[Path, list[str], list[Claim]]) -> None:
    out, _, found = written
    page = (out / "index.html").read_text(encoding="utf-8")
    assert page.count("data:image/svg+xml;base64,") == 5
    assert not re.search(r'(?:src|href)="(?!data:)', page)
    assert "$" not in re.sub(r"base64,[^\"]*", "", page)
    for claim in found:
        assert claim.where in page
    assert "watersmeet reproduce rpj --scale 0.001 --seed 2005" in page


def test_the_same_seed_reproduces_the_same_run_and_another_seed_does_not() -> None:
    first, again, other = (
        run_algorithm("rpj", HARMONY, parameters=replace(TINY, seed=seed)) for seed in (1, 1, 2)
    )
    assert np.array_equal(first.trace.time, again.trace.time)
    assert np.array_equal(first.trace.results, again.trace.results)
    assert not np.array_equal(first.trace.time, other.trace.time)


def test_settings_do_not_share_their_dice() -> None:
    keys = {tuple(schedule_of(setting, TINY).keys[:50]) for setting, _ in plan()}
    assert len(keys) == 8


@pytest.mark.parametrize("scale", [0.0, -1.0, 1.5, float("nan")])
def test_a_scale_out_of_range_is_refused_before_anything_runs(scale: float) -> None:
    with pytest.raises(InvalidArgument, match="out of range"):
        Parameters(scale=scale)


def test_an_output_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="--out"):
        reproduce(TINY, out=tmp_path / "file" / "below", say=print)


def test_scale_shrinks_memory_pages_and_access_times_together() -> None:
    full, tenth = Parameters(), Parameters(scale=0.1)
    assert (full.rows, full.memory_rows, full.disk.page_rows) == (2_000_000, 100_000, 102)
    assert (tenth.rows, tenth.memory_rows, tenth.disk.page_rows) == (200_000, 10_000, 10)
    assert tenth.disk.random == pytest.approx(full.disk.random / 10)
    assert "2,000,000" in described(full)["rows of both relations"]


def made_up(algorithm: str, *, results: list[int], setting: Setting = HARMONY) -> Run:
    """A run of ten seconds: `results[i]` by second i+1, then clean-up to 1000."""
    time = np.arange(1.0, len(results) + 1)
    trace = Trace(
        time=np.append(time, 20.0),
        results=np.array([*results, 1000]),
        work=np.append(time * 0.1, 4.0),
        first_flush=2.0,
        transmission_end=10.0,
        cleanup_start=10.0,
    )
    return Run(setting, algorithm, trace, results={}, flushes=1, exact=1000, seconds=0.0)


def made_up_runs(**results: list[int]) -> Runs:
    runs: Runs = {}
    for setting, algorithm in plan():
        line = results.get(algorithm.replace("-", "_"), [10 * i for i in range(1, 11)])
        run = made_up(algorithm, results=line, setting=setting)
        runs[setting, algorithm] = replace(run, results={Stage.MM: 1})
    return runs


def verdicts(runs: Runs, topic: str) -> list[bool]:
    return [claim.holds for claim in judged.claims(runs) if topic in claim.topic]


def test_one_instant_behind_is_enough_to_fail() -> None:
    level = [10 * i for i in range(1, 11)]
    assert all(verdicts(made_up_runs(), "never behind"))
    once_ahead = [*level[:5], 75, *level[6:]]
    assert not any(verdicts(made_up_runs(hmj=once_ahead), "never behind"))
    # Before the first flush all do the same, and the check does not look there.
    early = [99, *[max(99, results) for results in level[1:]]]
    assert not any(verdicts(made_up_runs(xjoin=early), "never behind"))


def test_shares_are_judged_by_what_was_reported_before_cleanup() -> None:
    assert not any(verdicts(made_up_runs(), "RPJ has reported most"))  # 100 of 1000
    assert all(verdicts(made_up_runs(rpj=[60 * i for i in range(1, 11)]), "RPJ has reported most"))
    assert all(verdicts(made_up_runs(), "about 20%"))
    assert verdicts(made_up_runs(hmj=[90 * i for i in range(1, 11)]), "about 20%").count(False) == 4


def test_the_cheaper_variant_is_the_one_with_more_results_for_the_same_work() -> None:
    rising = [20 * i for i in range(1, 11)]
    level = [10 * i for i in range(1, 11)]
    cheap_md = made_up_runs(rpj_md=rising, rpj_dd=level)
    assert all(verdicts(cheap_md, "RPJ-md is cheaper"))
    assert not any(verdicts(cheap_md, "RPJ-dd is cheaper"))
    assert not any(verdicts(cheap_md, "RPJ-dd has reported more than RPJ-md"))
    assert not any(verdicts(cheap_md, "RPJ has reported more than RPJ-dd and RPJ-md"))
    equal = made_up_runs(rpj_dd=level, rpj_md=level)
    assert all(verdicts(equal, "has reported more than RPJ-"))


def test_a_missing_result_is_no_exact_join() -> None:
    runs = made_up_runs()
    runs[HARMONY, "hmj"] = replace(runs[HARMONY, "hmj"], exact=1001)
    broken = {
        key: replace(run, exact=1001) if key[0] == HARMONY else run for key, run in runs.items()
    }
    assert verdicts(runs | broken, "exact join").count(False) == 1


def test_claims_with_commas_survive_the_file(tmp_path: Path) -> None:
    claim = Claim("a, b", "c", paper='says "d"', check="e", measured="1, 2", holds=False)
    write_claims([claim], tmp_path / "claims.csv")
    assert table(tmp_path / "claims.csv") == [
        {"claim": "a, b (c)", "paper": 'says "d"', "measured": "1, 2", "holds": "no"}
    ]
