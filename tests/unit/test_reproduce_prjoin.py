"""`watersmeet reproduce pr-join`, end to end at a tiny size, and the rules that judge it."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from watersmeet.errors import InvalidArgument
from watersmeet.model import Side
from watersmeet.reproduce.claim import Claim
from watersmeet.reproduce.prjoin import claims as judged
from watersmeet.reproduce.prjoin import costs, model, rates
from watersmeet.reproduce.prjoin.devices import DISK, DISK_SYNCHRONOUS, SSD, Devices
from watersmeet.reproduce.prjoin.ledger import Ledger
from watersmeet.reproduce.prjoin.relations import (
    draw_keys,
    file_of,
    join_size,
    read_relations,
    write_relations,
)
from watersmeet.reproduce.prjoin.report import reproduce
from watersmeet.reproduce.prjoin.runs import Run, run_case
from watersmeet.reproduce.prjoin.settings import (
    CASES,
    GRACE,
    PR_DISK,
    PR_ESTIMATE,
    RIPPLE,
    Case,
    Parameters,
    Relations,
)
from watersmeet.reproduce.prjoin.streams import ALGORITHMS, STREAMS

TINY = Parameters(scale=0.002)
SMALL = Parameters(scale=0.01)
FIGURES = ("2", "table-2", *map(str, range(8, 16)), "wall")


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# ---- the whole command --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], list[Claim]]:
    out = tmp_path_factory.mktemp("reproduction") / "pr-join"
    said: list[str] = []
    found = reproduce(TINY, out=out, say=said.append)
    return out, said, found


@pytest.mark.slow
def test_a_tiny_run_writes_every_file_and_leaves_no_other(
    written: tuple[Path, list[str], list[Claim]],
) -> None:
    out, said, _ = written
    pictures = {f"figure-{name}.{kind}" for name in FIGURES for kind in ("svg", "png")}
    tables = {"curves.csv", "claims.csv", "io.csv", "index.html"}
    assert {path.name for path in out.iterdir()} == pictures | tables
    assert len(said) == len(CASES) + len(STREAMS) * len(ALGORITHMS)


@pytest.mark.slow
def test_curves_have_every_line_of_every_figure(
    written: tuple[Path, list[str], list[Claim]],
) -> None:
    out, _, _ = written
    rows = table(out / "curves.csv")
    assert list(rows[0]) == ["figure", "setting", "quantity", "algorithm", "time", "value"]
    drawn = {(row["figure"], row["algorithm"]) for row in rows}
    assert {figure for figure, _ in drawn} == set(FIGURES)
    three = {"pr-join", "grace", "ripple"}
    expected = {
        "2": three,
        "8": three | {"c-pr-join", "c-grace", "c-ripple"},
        "9": three,
        "10": {"64KB", "1MB", "4KB", "grace", "ripple"},
        "11": {"gamma-0.5", "gamma-1", "gamma-2"},
        "12": {"pr-join", "no-remapping", "grace"},
        "13": three,
        "14": {"pr-join", "ripple"},
        "15": {"pr-join", "rpj-beside"},
    }
    for figure, algorithms in expected.items():
        assert {name for number, name in drawn if number == figure} == algorithms
    shares: dict[tuple[str, str, str], list[float]] = {}
    for row in rows:
        if row["quantity"].startswith("results (%"):
            key = row["figure"], row["setting"], row["algorithm"]
            shares.setdefault(key, []).append(float(row["value"]))
    for line in shares.values():
        assert np.all(np.diff(line) >= 0)
        assert line[-1] <= 100.0 + 1e-6


@pytest.mark.slow
def test_claims_are_written_as_they_were_judged_and_no_row_is_lost(
    written: tuple[Path, list[str], list[Claim]],
) -> None:
    out, _, found = written
    rows = table(out / "claims.csv")
    assert [row["holds"] for row in rows] == ["yes" if claim.holds else "no" for claim in found]
    assert len({row["claim"] for row in rows}) == len(rows)
    exact = [claim for claim in found if "exact join" in claim.topic]
    assert len(exact) == 4
    assert all(claim.holds for claim in exact)
    bounds = [claim for claim in found if claim.topic.startswith("Eq. 13")]
    assert len(bounds) == 3
    assert all(claim.holds for claim in bounds)


@pytest.mark.slow
def test_the_page_is_whole_by_itself(written: tuple[Path, list[str], list[Claim]]) -> None:
    out, _, found = written
    page = (out / "index.html").read_text(encoding="utf-8")
    assert page.count("data:image/svg+xml;base64,") == len(FIGURES)
    assert not re.search(r'(?:src|href)="(?!data:)', page)
    assert "watersmeet reproduce pr-join --scale 0.002 --seed 2010" in page
    for claim in found:
        if not claim.holds and claim.why_not:
            assert len(claim.why_not) > 40, "a claim that does not hold needs its reason"


@pytest.mark.slow
def test_counted_io_is_what_the_files_took(
    written: tuple[Path, list[str], list[Claim]],
) -> None:
    rows = {row["run"]: row for row in table(written[0] / "io.csv")}
    assert set(rows) == {case.name for case in CASES}
    for row in rows.values():
        # Stamps and headers come on top of the 100 bytes of a record.
        assert int(row["bytes_written"]) > 100 * int(row["rows_written"])
        assert int(row["bytes_read"]) > 100 * int(row["rows_read"])
    ripple, grace = rows[RIPPLE.name], rows[GRACE.name]
    assert int(grace["rows_read"]) == int(grace["rows_written"]) <= int(grace["rows_in"])
    assert int(ripple["rows_read"]) > 15 * int(ripple["rows_written"])


@pytest.mark.parametrize("scale", [0.0, -1.0, 101.0, float("nan")])
def test_a_scale_out_of_range_is_refused_before_anything_runs(scale: float) -> None:
    with pytest.raises(InvalidArgument, match="out of range"):
        Parameters(scale=scale)


def test_an_output_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="--out"):
        reproduce(TINY, out=tmp_path / "file" / "below", say=print)


# ---- relations ----------------------------------------------------------------------------------


def test_relations_are_the_papers(tmp_path: Path) -> None:
    exact = write_relations(SMALL, tmp_path)
    rows = SMALL.rows
    assert exact[Relations.EVEN] == exact[Relations.DOUBLE] == rows
    assert 3 * rows < exact[Relations.SKEWED] < 5 * rows
    for relations in Relations:
        case = Case("pr-join", relations)
        counts = [0, 0]
        for side, batch in read_relations(case, SMALL, tmp_path):
            counts[side] += len(batch)
            assert batch.nbytes == 100 * len(batch)
        assert counts == [rows, 2 * rows if relations is Relations.DOUBLE else rows]
        for side in Side:
            assert file_of(relations, side, tmp_path).stat().st_size > 100 * rows


def test_skewed_keys_fill_a_tenth_of_a_relation_into_one_partition() -> None:
    import pyarrow as pa

    from watersmeet.kernels.hashing import partition_of
    from watersmeet.reproduce.prjoin.relations import SCHEMA, join_schema

    left, right = draw_keys(Relations.SKEWED, SMALL, np.random.default_rng(1))
    assert join_size(left, right) > 3 * SMALL.rows
    nothing = pa.nulls(len(left), pa.float64()), pa.nulls(len(left), pa.binary(88))
    batch = pa.RecordBatch.from_arrays([pa.array(left), *nothing], schema=SCHEMA)
    hashes = join_schema().encode(Side.LEFT, batch).codes
    sizes = np.bincount(partition_of(hashes, SMALL.partitions(CASES[0])))
    assert sizes.max() > 0.1 * len(left)


def test_dbo_reads_half_a_memory_of_one_side_at_a_time(tmp_path: Path) -> None:
    write_relations(TINY, tmp_path)
    read = [(side, len(batch)) for side, batch in read_relations(Case("dbo"), TINY, tmp_path)]
    lengths, last = [0], Side.LEFT
    for side, rows in read:
        if side is not last:
            lengths.append(0)
        lengths[-1] += rows
        last = side
    assert set(lengths[:-2]) == {TINY.memory_rows // 2 // TINY.batch_rows * TINY.batch_rows}


# ---- devices ------------------------------------------------------------------------------------


def ledger(**columns: list[int]) -> Ledger:
    steps = max(map(len, columns.values()))
    names = ("input", "written", "read", "runs_read", "bytes_written", "bytes_read", "results",
             "reports", "generation", "grown")  # fmt: skip
    filled = {name: np.array(columns.get(name, [0] * steps)) for name in names}
    return Ledger(**filled, wall=np.arange(float(steps)))


def test_synchronous_io_adds_up_and_a_run_costs_a_seek() -> None:
    steps = ledger(input=[1, 1, 0], written=[0, 2, 0], read=[0, 0, 4], runs_read=[0, 0, 3])
    devices = Devices(10.0, 20.0, 30.0, seek=5.0, overlapped=False)
    assert devices.times(steps, 0.1, ahead=1).tolist() == pytest.approx([1.0, 6.0, 33.0])
    double = devices.times(steps, 0.1, ahead=1, extents=2.0)
    assert double.tolist() == pytest.approx([1.0, 6.0, 48.0])


def test_overlapped_devices_take_as_long_as_the_slower_one() -> None:
    count = 1000
    steps = ledger(input=[1] * count, written=[1] * count)
    fast_storage = Devices(2.0, 1.0, 1.0).times(steps, 1.0, ahead=50)[-1]
    slow_storage = Devices(1.0, 3.0, 1.0).times(steps, 1.0, ahead=50)[-1]
    assert fast_storage == pytest.approx(2.0 * count, rel=0.01)
    assert slow_storage == pytest.approx(3.0 * count, rel=0.01)


def test_input_runs_ahead_only_as_far_as_memory_lets_it() -> None:
    # One long read in the middle: input may go on for `ahead` rows and then waits for it.
    steps = ledger(input=[1] * 20, read=[0] * 5 + [100] + [0] * 14)
    times = Devices(1.0, 1.0, 1.0).times(steps, 1.0, ahead=5)
    assert times[4] == pytest.approx(5.0)
    assert times[5] == pytest.approx(106.0)
    assert times[-1] == pytest.approx(106.0 + 20 - 10)
    eager = Devices(1.0, 1.0, 1.0).times(steps, 1.0, ahead=50)
    assert eager[-1] == pytest.approx(106.0)


# ---- models and runs ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[Case, Run]:
    directory = tmp_path_factory.mktemp("files")
    write_relations(SMALL, directory)
    return {
        case: run_case(case, parameters=SMALL, directory=directory)
        for case in (GRACE, RIPPLE, PR_DISK, PR_ESTIMATE)
    }


def test_modelled_curves_end_where_the_equations_say() -> None:
    setting = Parameters().model
    assert model.grace(setting)[0][-1] == pytest.approx(costs.grace_total(setting))
    total = costs.ripple_total(model.sequential(setting))
    assert model.ripple(setting)[0][-1] == pytest.approx(total, rel=0.02)
    for gamma in (0.5, 1.0, 2.0):
        times, shares = model.pr_join(setting, partitions=200, gamma=gamma)
        assert costs.grace_total(setting) < times[-1] <= costs.pr_total_bound(setting, gamma=gamma)
        assert shares[-1] == pytest.approx(1.0)
        assert np.all(np.diff(times) >= 0)
        assert np.all(np.diff(shares) >= 0)


@pytest.mark.slow
def test_the_models_foresee_the_counted_io_at_every_depth(runs: dict[Case, Run]) -> None:
    modelled = {
        GRACE: model.grace(SMALL.model),
        RIPPLE: model.ripple(SMALL.model),
        PR_DISK: model.pr_join(SMALL.model, partitions=SMALL.partitions(PR_DISK), gamma=1.0),
    }
    for case, (times, shares) in modelled.items():
        measured, results = runs[case].reported(DISK_SYNCHRONOUS)
        assert measured[-1] == pytest.approx(times[-1], rel=0.06), case.name
        computed = np.interp(measured, times, shares)
        assert np.max(np.abs(computed - results / results[-1])) < 0.12, case.name


@pytest.mark.slow
def test_steps_hold_all_io_and_reports_only_completed_rectangles(runs: dict[Case, Run]) -> None:
    for run in runs.values():
        assert run.ledger.input.sum() == 2 * SMALL.rows
        assert run.ledger.results[-1] == run.found == SMALL.rows
        assert np.all(np.diff(run.ledger.wall) >= 0)
    ripple = runs[RIPPLE].ledger
    later = ripple.reports.astype(bool) & (np.cumsum(ripple.written) > 0)
    assert np.all(ripple.read[later] > 0), "a ripple was reported before it had scanned the disk"
    grace = runs[GRACE].ledger
    assert not grace.reports[: grace.input_end + 1].any()


@pytest.mark.slow
def test_rates_are_counted_in_units_of_c(runs: dict[Case, Run]) -> None:
    steps = np.arange(10, 30)
    measured = np.mean([rates.ripple(runs[RIPPLE], int(k)) for k in steps])
    assert measured == pytest.approx(np.mean((2 * steps + 1) / (steps + 2)), rel=0.1)
    later = [rates.pr_join(runs[PR_DISK], j) for j in (1, 2, 3, 4)]
    assert all(rate is not None for rate in later)
    assert later == sorted(later, key=lambda rate: rate or 0.0)
    assert rates.pr_join(runs[PR_DISK], 9) is None


@pytest.mark.slow
def test_intervals_shrink_to_nothing_around_the_truth(runs: dict[Case, Run]) -> None:
    widths = runs[PR_ESTIMATE].widths
    assert widths is not None
    assert widths.relative[-1] == 0.0
    assert widths.relative[-10] < widths.relative[5]
    truth, half = widths.value[-1], widths.relative * widths.value
    inside = np.abs(widths.value - truth) <= half + 1e-6 * truth
    assert inside.mean() > 0.7
    assert np.all(np.diff(widths.steps) >= 0)


# ---- the rules ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_width_counts_from_when_it_is_kept(runs: dict[Case, Run]) -> None:
    run = runs[PR_ESTIMATE]
    assert run.widths is not None
    relative = np.array([0.5, 0.05, 0.2, 0.05, 0.0])
    seen = replace(run.widths, steps=run.widths.steps[:5], value=np.ones(5), relative=relative)
    made_up = replace(run, widths=seen)
    times = run.times(SSD)[seen.steps]
    assert judged._reached(made_up, 0.1) == times[3]
    assert judged._reached(made_up, 0.01) == times[4]
    assert judged._reached(made_up, 1.0) == times[0]


@pytest.mark.slow
def test_end_to_end_claims_follow_the_times(runs: dict[Case, Run]) -> None:
    ripple, grace = judged._disk(runs)
    assert ripple.holds == (runs[RIPPLE].end(DISK) >= 6.2 * runs[PR_DISK].end(DISK))
    assert grace.holds
    slower = replace(
        runs[PR_DISK], ledger=replace(runs[PR_DISK].ledger, read=10 * runs[PR_DISK].ledger.read)
    )
    assert not any(claim.holds for claim in judged._disk({**runs, PR_DISK: slower}))
