"""The page of the coverage matrix: what lies between its marks is written from the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.coverage import LAYOUTS, POPULATIONS, Outcome
from benchmarks.coverage_extras import Extremes, Stopped

PAGE = Path(__file__).parents[1] / "docs" / "coverage.md"
_BEGIN = "<!-- written by benchmarks/coverage.py --publish -->"
_END = "<!-- end of what is written -->"
WIDE = 0.97
TITLES = {
    "cluster": "Blocks of one input, the other complete",
    "key ranges": "Ranges of keys of both inputs",
    "ripple": "Blocks of both inputs",
}
AGGREGATES = ("count", "sum", "avg", "stddev")


def publish(
    seeds: Mapping[int, Sequence[Outcome]],
    extremes: Sequence[Extremes],
    stopped: Sequence[Stopped],
    *,
    runs: int,
    page: Path = PAGE,
) -> None:
    before, rest = page.read_text().split(_BEGIN)
    _, after = rest.split(_END)
    lines = [*_summary(seeds, runs), *_widths(seeds)]
    for seed, outcomes in seeds.items():
        for design, title in TITLES.items():
            some = [outcome for outcome in outcomes if outcome.design == design]
            if some:
                lines += ["", f"### {title}, seed {seed}", "", *_matrix(some)]
    lines += [*_extremes(extremes), *_stopped(stopped)]
    inside = "\n".join(lines)
    page.write_text(f"{before}{_BEGIN}\n{inside}\n{_END}{after}")


def _silent(outcome: Outcome) -> bool:
    return not outcome.good and not outcome.warned


def _summary(seeds: Mapping[int, Sequence[Outcome]], runs: int) -> list[str]:
    lines = [
        f"{runs:,} runs per cell.",
        "",
        "| seed | cells | below 93% without a flag | good cells that are flagged | in range or "
        "flagged | above 97% without a flag | no width at all | most unflagged misses in a cell |",
        "|---|---|---|---|---|---|---|---|",
    ]
    listed = []
    for seed, outcomes in seeds.items():
        good = [o for o in outcomes if o.good]
        alarms = sum(o.warned for o in good)
        still = [o for o in good if o.width < 1e-9]
        wide = [o for o in good if o.coverage > WIDE and not o.warned and o not in still]
        silent = [o for o in outcomes if _silent(o)]
        kept = len(outcomes) - len(wide) - len(silent)
        lines.append(
            f"| {seed} | {len(outcomes)} | {len(silent)} | {alarms} of {len(good)} "
            f"({alarms / len(good):.1%}) | {kept} | {len(wide)} | {len(still)} | "
            f"{max(o.silent for o in outcomes):.1%} |"
        )
        listed += [
            f"- seed {seed}: {o.aggregate}, {o.population}, {o.layout}, {o.depth} blocks, "
            f"{o.design}: {o.coverage:.1%}, flagged in {o.flagged:.0%} of the runs"
            for o in silent
        ]
    shares = [f"{_alarms(outcomes)} (seed {seed})" for seed, outcomes in seeds.items()]
    lines += ["", "Good cells that are flagged, by design: " + "; ".join(shares) + "."]
    if listed:
        lines += ["", "Below 93% and not flagged in most runs:", "", *listed]
    return lines


def _alarms(outcomes: Sequence[Outcome]) -> str:
    parts = []
    for design in TITLES:
        good = [o for o in outcomes if o.design == design and o.good]
        parts.append(f"{design} {sum(o.warned for o in good)} of {len(good)}")
    return ", ".join(parts)


def _widths(seeds: Mapping[int, Sequence[Outcome]]) -> list[str]:
    lines = [
        "",
        "### Width over the classic ripple formula",
        "",
        "Median over the runs, same quantile, both inputs sampled, random order; all seeds.",
        "",
        "| population | " + " | ".join(AGGREGATES) + " |",
        "|---" * (1 + len(AGGREGATES)) + "|",
    ]
    for name in POPULATIONS:
        cells = []
        for aggregate in AGGREGATES:
            ratios = [
                o.classic
                for outcomes in seeds.values()
                for o in outcomes
                if (o.population, o.layout, o.aggregate) == (name, "random", aggregate)
                and o.classic is not None
                and np.isfinite(o.classic)
            ]
            cells.append(f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else "")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def _cell(outcome: Outcome) -> str:
    text = f"{100 * outcome.coverage:.1f}"
    if outcome.width < 1e-9:
        return "exact"
    if outcome.flagged >= 0.995:
        text += " !"
    elif outcome.flagged >= 0.005:
        text += f" !{outcome.flagged:.0%}" if outcome.flagged >= 0.01 else " !<1%"
    return f"**{text}**" if _silent(outcome) else text


def _matrix(outcomes: Sequence[Outcome]) -> list[str]:
    columns = sorted(
        {(o.layout, o.depth) for o in outcomes}, key=lambda c: (LAYOUTS.index(c[0]), c[1])
    )
    found = {(o.population, o.aggregate, o.layout, o.depth): o for o in outcomes}
    lines = [
        "| | " + " | ".join(f"{layout} {depth}" for layout, depth in columns) + " |",
        "|---" * (1 + len(columns)) + "|",
    ]
    for name in POPULATIONS:
        for aggregate in AGGREGATES:
            texts = [_cell(found[name, aggregate, *column]) for column in columns]
            lines.append(f"| {aggregate}, {name} | " + " | ".join(texts) + " |")
    return lines


def _extremes(rows: Sequence[Extremes]) -> list[str]:
    lines = [
        "",
        "### Pareto 1.5 with the extremes set apart",
        "",
        "| population | layout | aggregate | blocks | sampled like the rest | set apart |",
        "|---|---|---|---|---|---|",
    ]
    found = {(r.population, r.layout, r.aggregate, r.depth, r.taken): r for r in rows}
    for population, layout, aggregate, depth, taken in found:
        if taken:
            continue
        texts = []
        for each in (False, True):
            row = found[population, layout, aggregate, depth, each]
            flag = f" !{row.flagged:.0%}" if row.flagged >= 0.005 else ""
            texts.append(f"{100 * row.coverage:.1f}{flag} (±{row.width:.1%})")
        lines.append(
            f"| {population} | {layout} | {aggregate} | {depth} | " + " | ".join(texts) + " |"
        )
    return lines


def _stopped(rows: Sequence[Stopped]) -> list[str]:
    lines = [
        "",
        "### At the moment of stopping",
        "",
        "| population | layout | aggregate | target | stopped early | their coverage | "
        "blocks of 200, median |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        coverage = "" if row.coverage is None else f"{100 * row.coverage:.1f}"
        blocks = "" if row.blocks is None else f"{row.blocks:.0f}"
        lines.append(
            f"| {row.population} | {row.layout} | {row.aggregate} | {row.target:.0%} | "
            f"{row.early:.0%} | {coverage} | {blocks} |"
        )
    return lines
