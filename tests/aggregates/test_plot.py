"""The picture of a run: is everything in it that was known, and nothing else?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.aggregates.run import AggregateRun
from watersmeet.errors import InvalidArgument, MissingPackage

pytest.importorskip("matplotlib")

random = np.random.default_rng(5)
ORDERS = pa.table({"id": range(1_000), "kind": [f"kind {n % 8}" for n in range(1_000)]})
ITEMS = pa.table(
    {
        "id": random.integers(0, 1_000, 400_000),
        "price": random.exponential(10, 400_000),
        "heavy": random.pareto(1.1, 400_000),
    }
)


def asked(group_by: str | None = None, **aggregates: Any) -> AggregateRun:
    return wm.local.aggregate(ITEMS, ORDERS, on="id", group_by=group_by, **aggregates)


def legend(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_a_panel_for_each_aggregate_of_the_first_groups() -> None:
    run = asked("kind", revenue=wm.sum("price"), n=wm.count())
    exact = run.exact()
    figure = run.plot(groups=3)
    axes = figure.axes
    assert len(axes) == 6
    assert [ax.get_title(loc="left") for ax in axes[:3]] == ["kind 0", "kind 1", "kind 2"]
    assert [axes[0].get_ylabel(), axes[3].get_ylabel()] == ["revenue", "n"]
    assert "3 of 8 groups" in figure.get_suptitle()
    # Each panel has the exact value of its own group and aggregate, within its limits.
    keys = exact.keys()
    for number, name in enumerate(("revenue", "n")):
        for place in range(3):
            ax = axes[3 * number + place]
            truth = exact.cells.value[number, keys.index((f"kind {place}",))]
            drawn = {float(line.get_ydata()[0]) for line in ax.lines}
            assert truth in drawn, name
            assert ax.get_ylim()[0] < truth < ax.get_ylim()[1]


def test_every_trusted_interval_is_inside_and_shrinks() -> None:
    run = asked(revenue=wm.sum("price"))
    looks = list(run)
    figure = run.plot()
    (ax,) = figure.axes
    assert ax.get_title(loc="left") == "revenue"
    least, most = ax.get_ylim()
    bands = [band.get_paths()[0].get_extents() for band in ax.collections]
    assert len(bands) == len(looks) - 1
    for look, band in zip(looks[:-1], bands, strict=True):
        assert (band.y0, band.y1) == pytest.approx((look.cells.low[0, 0], look.cells.high[0, 0]))
        assert band.x0 == pytest.approx(look.seconds)
        assert least < band.y0 < band.y1 < most
    assert legend(figure) == ["estimate", "interval", "exact"]


def test_what_is_not_to_be_trusted_is_hatched_hollow_and_in_the_legend() -> None:
    run = asked(total=wm.sum("heavy"))
    first = next(iter(run))
    assert not first.trusted
    figure = run.plot()
    run.close()
    (ax,) = figure.axes
    assert ax.collections[0].get_hatch()
    marker = next(line for line in ax.lines if line.get_marker() == "o")
    assert marker.get_markerfacecolor() == "white"
    assert legend(figure) == ["estimate", "not to be trusted"]


def test_one_look_and_the_exact_answer_alone_can_be_drawn() -> None:
    run = asked("kind", n=wm.count())
    figure = run.plot()
    assert len(run.history) == 1, "the first look was made for it"
    assert len(figure.axes) == 6
    assert "exact" not in legend(figure)
    only = asked("kind", n=wm.count())
    only.exact()
    assert legend(only.plot()) == ["exact"]
    empty = wm.local.aggregate(
        ITEMS, ORDERS, on="id", group_by="kind", where="price < 0", n=wm.count()
    )
    empty.exact()
    assert len(empty.plot().axes) == 1


def test_the_format_is_that_of_the_name(tmp_path: Path) -> None:
    run = asked(n=wm.count(), x=wm.avg("price"))
    run.exact()
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    for kind, start in starts.items():
        run.plot(tmp_path / f"looks.{kind}")
        assert (tmp_path / f"looks.{kind}").read_bytes().startswith(start)
    again = (tmp_path / "looks.svg").read_bytes()
    run.plot(tmp_path / "looks.svg")
    assert (tmp_path / "looks.svg").read_bytes() == again
    with pytest.raises(InvalidArgument, match="names no kind of picture"):
        run.plot(tmp_path / "looks.xls")
    with pytest.raises(InvalidArgument, match="does not exist"):
        run.plot(tmp_path / "nowhere" / "looks.svg")


def test_without_matplotlib_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    run = asked(n=wm.count())
    run.exact()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingPackage, match="pip install matplotlib"):
        run.plot()
