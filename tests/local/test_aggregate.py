"""local.aggregate: exact in the end, whichever way and in whatever order it is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

import watersmeet as wm
from tests.aggregates.oracle import Answer, assert_same, by_group
from tests.aggregates.questions import Question, questions
from tests.aggregates.readings import blocks_of
from tests.parquet.opens import count_opens
from watersmeet.aggregates import allowance
from watersmeet.aggregates.answer.estimate import Estimate
from watersmeet.aggregates.sampling import looks, planner
from watersmeet.aggregates.sampling.designs import COMPLETE, DESIGNS, RANGES, RIPPLE, Design
from watersmeet.expressions.numbers import ArithmeticFailed
from watersmeet.rows.schema import JoinSchema

DESIGNS = DESIGNS


@contextmanager
def forced(
    design: Design, *, same_hash: bool = False, memory: int = 60
) -> Iterator[dict[str, Any]]:
    """Have tables of a few rows read as large ones would be: by this design, in many looks.

    `memory` is so little that the rows do not fit, but not so little that each byte of them
    becomes a partition.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(looks, "FEWEST_BLOCKS", 2)
        patch.setattr(allowance, "SMALLEST_MEMORY", 0)
        if design is RANGES:
            patch.setattr(planner, "_MOST_NEEDED", 1000)
            patch.setattr(planner, "_MOST_SHARE", 1.0)
        if same_hash:
            resolve = JoinSchema.resolve
            patch.setattr(
                JoinSchema,
                "resolve",
                lambda *inputs, **options: resolve(
                    *inputs, **options, rehash=lambda hashes: np.zeros_like(hashes)
                ),
            )
        yield {"memory": memory} if design is RIPPLE else {}


def written(table: pa.Table, path: Path, design: Design) -> Path:
    """As Parquet in row groups of a few rows; clustered on the key where ranges are asked for."""
    clustered = design is RANGES
    table = table.sort_by("k") if clustered else table
    pq.write_table(table, path, row_group_size=3, write_statistics=clustered)
    return path


def answer(estimate: Estimate) -> Answer:
    assert estimate.exact
    return by_group(estimate.answer.to_pylist(), estimate.group_names)


def check(question: Question, design: Design, *, seed: int = 0, same_hash: bool = False) -> None:
    with TemporaryDirectory() as folder, forced(design, same_hash=same_hash) as options:
        left = written(question.left, Path(folder, "l.parquet"), design)
        right = written(question.right, Path(folder, "r.parquet"), design)
        with question.run(left, right, seed=seed, **options) as run:
            note(f"{blocks_of(run).plan.design}: {blocks_of(run).plan.reason}")
            *earlier, last = run
        assert not any(estimate.exact for estimate in earlier)
        assert_same(answer(last), question.expected())


@pytest.mark.parametrize("design", DESIGNS)
@given(question=questions(), seed=st.integers(0, 3))
@settings(max_examples=40)
def test_inner_joins_equal_the_oracle(design: Design, question: Question, seed: int) -> None:
    check(question, design, seed=seed)


@pytest.mark.parametrize("design", [RANGES, COMPLETE])
@given(question=questions(hows=["left", "right", "semi", "anti"]))
@settings(max_examples=50)
def test_other_joins_equal_the_oracle(design: Design, question: Question) -> None:
    check(question, design)


@given(question=questions(hows=["inner", "left", "semi", "anti"]), data=st.data())
@settings(max_examples=50)
def test_keys_are_compared_where_all_hashes_are_equal(question: Question, data: Any) -> None:
    inner = question.how == "inner"
    check(question, data.draw(st.sampled_from(DESIGNS if inner else DESIGNS[:2])), same_hash=True)


@given(
    question=questions(),
    design=st.sampled_from(DESIGNS),
    acts=st.lists(st.sampled_from(["look", "stop", "look on", "latest", "exact"]), max_size=6),
)
@settings(max_examples=40)
def test_stopped_and_resumed_anywhere(question: Question, design: Design, acts: list[str]) -> None:
    with TemporaryDirectory() as folder, forced(design) as options:
        left = written(question.left, Path(folder, "l.parquet"), design)
        right = written(question.right, Path(folder, "r.parquet"), design)
        with question.run(left, right, **options) as run:
            for act in acts:
                before = len(run.history)
                match act:
                    case "look":
                        next(iter(run), None)
                    case "stop":
                        run.stop()
                        # What is complete can be had again.
                        assert list(run) == run.history[-1:] if run.complete else list(run) == []
                        assert len(run.history) == before
                    case "look on":
                        next(iter(run.resume()), None)
                        assert run.complete or len(run.history) == before + 1
                    case "latest":
                        assert run.latest is run.history[-1]
                    case "exact":
                        run.exact()
            last = run.exact()
            assert run.exact() is last
        assert [estimate.progress.look for estimate in run.history] == [
            number + 1 for number in range(len(run.history))
        ]
        assert_same(answer(last), question.expected())


# ---- each of these was, or could be, wrong where no random table shows it -----------------------


def test_an_unmatched_row_cannot_fail() -> None:
    """Spark computes an expression for joined rows; a divisor of zero elsewhere is no error."""
    left = pa.table({"k": [1, 2, 3, 3], "a": [1, 5, 6, 6], "zero": [1, 0, 3, 2]})
    right = pa.table({"k": [1, 3, 3, 4], "b": [1, 2, 4, 0]})
    for one, other in ((left, right), (right, left)):
        run = wm.local.aggregate(
            one, other, on="k", mine=wm.sum("a / zero"), product=wm.sum("a / b"), n=wm.count()
        )
        assert run.exact().answer.to_pylist() == [{"mine": 11.0, "product": 10.0, "n": 5}]


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_joined_row_that_fails_is_an_error(side: str) -> None:
    left = pa.table({"k": [1, 2], "a": [1, 0 if side == "left" else 1]})
    right = pa.table({"k": [1, 2, 2], "b": [1, 1, 0 if side == "right" else 1]})
    run = wm.local.aggregate(
        left, right, on="k", s=wm.sum("1 / a + 0 * b" if side == "left" else "a / b")
    )
    with pytest.raises(ArithmeticFailed, match="by zero"):
        run.exact()


def test_a_left_row_without_partner_is_computed_and_may_fail() -> None:
    left, right = pa.table({"k": [1, 2], "a": [1, 0]}), pa.table({"k": [1]})
    with pytest.raises(ArithmeticFailed):
        wm.local.aggregate(left, right, on="k", how="left", s=wm.sum("1 / a")).exact()
    semi = wm.local.aggregate(left, right, on="k", how="semi", s=wm.sum("1 / a"))
    assert semi.exact().answer["s"].to_pylist() == [1.0]


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64()])
@pytest.mark.parametrize("rows", [1, 2], ids=["alone", "several of a key"])
def test_a_product_of_both_sides_that_does_not_fit_its_type(kind: pa.DataType, rows: int) -> None:
    """Sums of factors are exact in any size, but Spark's product of two rows has a type."""
    most = 2 ** (kind.bit_width - 1) - 1
    right = pa.table({"k": pa.array([1] * rows + [2]), "b": pa.array([-1] * rows + [3], kind)})
    for value, fits in ((most, True), (-most - 1, False)):
        left = pa.table({"k": [1, 3], "a": pa.array([value, most], kind)})
        for one, other in ((left, right), (right, left)):
            run = wm.local.aggregate(
                one, other, on="k", s=wm.avg("a * b"), d=wm.avg("a * b * 1.5e0")
            )
            if fits:
                assert run.exact().answer["s"].to_pylist() == [-float(most)]
            else:
                with pytest.raises(ArithmeticFailed, match="does not fit"):
                    run.exact()


@pytest.mark.parametrize("partners", [1, 3])
def test_a_spread_that_is_small_beside_its_mean(partners: int) -> None:
    """Squares about zero of numbers near 1e9 have lost everything about a spread of one."""
    values = 1e9 + np.arange(6.0)
    right = pa.table({"k": np.repeat(np.arange(6), partners), "y": np.repeat(values, partners)})
    # The first blocks have no partners: nothing may be chosen by them.
    left = pa.table(
        {"k": [*([-1] * 50), *range(6)], "one": [1.0] * 56, "x": [0.0] * 50 + [*values]}
    )
    for one, other in ((left, right), (right, left)):
        run = wm.local.aggregate(
            one, other, on="k", seed=3,
            y=wm.var_pop("y"), x=wm.var_pop("x"), product=wm.var_pop("y * one"),
        )  # fmt: skip
        (row,) = run.exact().answer.to_pylist()
        assert row == pytest.approx({name: np.var(np.arange(6)) for name in row}, rel=1e-6)


def test_a_key_belongs_to_the_side_whose_rows_stay() -> None:
    left = pa.table({"k": [1, 2, None], "a": [10, 20, 30]})
    right = pa.table({"k": [2, 5, None], "b": [7, 8, None]})
    wanted = {"left": [{"sum_k": 3, "filled": 1 + 7, "n": 3}],
              "right": [{"sum_k": 7, "filled": 7 + 8, "n": 3}]}  # fmt: skip
    for how, rows in wanted.items():
        asked: Any = {"sum_k": wm.sum("k"), "filled": wm.sum("coalesce(b, k)"), "n": wm.count()}
        run = wm.local.aggregate(left, right, on="k", how=how, **asked)
        assert run.exact().answer.to_pylist() == rows


def test_a_key_has_the_left_type_whichever_side_is_sampled() -> None:
    few = pa.table({"k": pa.array([1, 2], pa.int32())})
    many = pa.table({"k": pa.array([1, 2, 2, 2**40] * 50, pa.int64())})
    for left, right in ((few, many), (many, few)):
        found = wm.local.aggregate(left, right, on="k", group_by="k", n=wm.count()).exact().answer
        assert found.schema.field("k").type == left.schema.field("k").type
        assert sorted(map(tuple, (row.values() for row in found.to_pylist()))) == [
            (1, 50),
            (2, 100),
        ]


def test_sums_of_what_is_no_number() -> None:
    inf = float("inf")
    left = pa.table({"k": [1, 2, 3, 4], "g": ["a", "b", "b", "c"], "x": [1.0, inf, -inf, 4.0]})
    right = pa.table({"k": [1, 2, 3, 4, 4], "y": [float("nan"), 1.0, 1.0, 2.0, 3.0]})
    run = wm.local.aggregate(
        left, right, on="k", group_by="g", x=wm.sum("x"), y=wm.sum("y"), v=wm.variance("x * y")
    )
    found = {row["g"]: row for row in run.exact().answer.to_pylist()}
    assert np.isnan([found["a"]["y"], found["b"]["x"], found["b"]["v"]]).all()
    assert (found["c"]["x"], found["c"]["y"], found["c"]["v"]) == (8.0, 5.0, 8.0)


def test_encoded_text_as_groups() -> None:
    words = pa.array(["u", None, "v", "u"]).dictionary_encode()
    left = pa.table({"k": [1, 2, 3, 4], "g": words})
    right = pa.table({"k": [1, 2, 3, 4], "h": words})
    run = wm.local.aggregate(left, right, on="k", group_by=["g", "h"], n=wm.count())
    assert by_group(run.exact().answer.to_pylist(), ["g", "h"]) == {
        ("u", "u"): (2,), ("v", "v"): (1,), (None, None): (1,)
    }  # fmt: skip


def test_many_groups_of_both_sides_take_no_room_for_those_that_do_not_occur() -> None:
    """30,000 of each side would be 900 million together."""
    count = 30_000
    left = pa.table({"k": np.arange(count), "g": np.arange(count)})
    right = pa.table({"k": np.arange(count), "h": -np.arange(count)})
    run = wm.local.aggregate(left, right, on="k", group_by=["g", "h"], n=wm.count())
    found = run.exact().answer
    assert len(found) == count
    assert found["g"].to_numpy().tolist() == (-found["h"].to_numpy()).tolist()
    assert set(found["n"].to_pylist()) == {1}


def test_wide_decimals_to_the_last_digit() -> None:
    value = Decimal("99999999999999999.99")
    left = pa.table({"k": [1] * 4, "p": pa.array([value] * 4, pa.decimal128(19, 2))})
    right = pa.table({"k": [1] * 3, "q": pa.array([value] * 3, pa.decimal128(19, 2))})
    run = wm.local.aggregate(left, right, on="k", p=wm.sum("p"), both=wm.sum("p + q"))
    assert run.exact().answer.to_pylist() == [{"p": 12 * value, "both": 24 * value}]


@pytest.mark.parametrize("design", DESIGNS)
def test_the_same_seed_gives_the_same_estimates(tmp_path: Path, design: Design) -> None:
    keys = np.arange(600) // 2
    left, right = (
        written(pa.table({"k": keys, name: np.arange(600.0)}), tmp_path / f"{name}.parquet", design)
        for name in "xy"
    )
    with forced(design, memory=6_000) as options:
        looked = []
        for seed in (5, 5, 6):
            with wm.local.aggregate(
                left, right, on="k", seed=seed, s=wm.sum("x * y"), **options
            ) as run:
                assert blocks_of(run).plan.design is design
                looked.append([estimate.cells.value.tolist() for estimate in run])
    assert len(looked[0]) > 2
    # Threads may add up in another order.
    np.testing.assert_allclose(looked[0], looked[1], rtol=1e-12)
    assert abs(looked[0][0][0][0] / looked[2][0][0][0] - 1) > 1e-6


@pytest.mark.parametrize("units", [("ms", "us"), ("us", "ns"), ("s", "s")])
def test_ranges_of_times_in_different_units(tmp_path: Path, units: tuple[str, str]) -> None:
    times = [datetime(2024, 1, 1 + day) for day in range(28) for _ in range(20)]
    for name, unit in zip("lr", units, strict=True):
        table = pa.table({"k": pa.array(times, pa.timestamp(unit))})
        # Seconds are written as milliseconds.
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=20, version="2.6")
    with wm.local.aggregate(
        tmp_path / "l.parquet", tmp_path / "r.parquet", on="k", n=wm.count()
    ) as run:
        assert blocks_of(run).plan.design is RANGES
        assert run.exact().answer["n"].to_pylist() == [28 * 400]


def test_each_footer_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = np.arange(2000)
    for name in ("l", "r"):
        pq.write_table(pa.table({"k": keys, name: keys}), tmp_path / f"{name}.parquet")
    opens = count_opens(monkeypatch)
    with wm.local.aggregate(
        tmp_path / "l.parquet", tmp_path / "r.parquet", on="k", n=wm.sum("l + r")
    ) as run:
        assert run.exact().answer["n"].to_pylist() == [2 * keys.sum()]
    assert opens == {"l.parquet": 1, "r.parquet": 1}


def test_a_date_meets_a_time_though_their_ranges_cannot_be_compared(tmp_path: Path) -> None:
    days = [datetime(2024, 1, 1 + day) for day in range(28) for _ in range(20)]
    for name, kind in (("l", pa.date32()), ("r", pa.timestamp("us"))):
        pq.write_table(
            pa.table({"k": pa.array(days, kind)}), tmp_path / f"{name}.parquet", row_group_size=20
        )
    with wm.local.aggregate(
        tmp_path / "l.parquet", tmp_path / "r.parquet", on="k", n=wm.count()
    ) as run:
        assert run.exact().answer["n"].to_pylist() == [28 * 400]


def test_a_field_of_a_struct_is_not_the_key_of_the_same_name(tmp_path: Path) -> None:
    keys = np.arange(2000)
    other = [{"k": int(-key)} for key in keys]
    pq.write_table(pa.table({"s": other, "k": keys}), tmp_path / "l.parquet", row_group_size=50)
    pq.write_table(pa.table({"k": keys}), tmp_path / "r.parquet", row_group_size=50)
    with wm.local.aggregate(
        tmp_path / "l.parquet", tmp_path / "r.parquet", on="k", n=wm.count()
    ) as run:
        assert blocks_of(run).plan.design is RANGES
        assert run.exact().answer["n"].to_pylist() == [2000]
