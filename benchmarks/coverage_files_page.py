"""The part of the coverage page that real files make."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.coverage_files import FEW, GOOD, Outcome
from benchmarks.coverage_page import PAGE

_BEGIN = "<!-- written by benchmarks/coverage_files.py --publish -->"
_END = "<!-- end of what files have shown -->"
_CONTROLS = "control"
# Fewer cells than this say little: the true share may be five points away.
_ENOUGH = 60


def publish_files(found: dict[str, Sequence[Outcome]], *, runs: int, page: Path = PAGE) -> None:
    before, rest = page.read_text().split(_BEGIN)
    _, after = rest.split(_END)
    lines = [f"{runs:,} runs of each file.", "", *_summary(found)]
    for data, outcomes in found.items():
        lines += ["", f"### Files, data `{data}`", "", *_table(outcomes)]
    inside = "\n".join(lines)
    page.write_text(f"{before}{_BEGIN}\n{inside}\n{_END}{after}")


def _whole(outcomes: Sequence[Outcome]) -> list[Outcome]:
    return [each for each in outcomes if each.look == 0]


def _judged(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Those with enough trusted cells to say how often they hold."""
    return [each for each in outcomes if each.trusted >= max(FEW * each.cells, _ENOUGH)]


def _summary(found: dict[str, Sequence[Outcome]]) -> list[str]:
    lines = [
        "| data | files | aggregates of files | judged | below 93% | least | all trusted cells "
        "that hold | controls flagged |",
        "|---|---|---|---|---|---|---|---|",
    ]
    listed = []
    for data, outcomes in found.items():
        whole = _whole(outcomes)
        judged = _judged(whole)
        below = [each for each in judged if each.coverage < GOOD]
        controls = [each for each in whole if each.situation.startswith(_CONTROLS)]
        # A spread of skewed values is known late, and says so: it is no false alarm.
        flagged = [each for each in controls if each.aggregate != "spread"]
        share = 1 - sum(e.trusted for e in flagged) / max(sum(e.cells for e in flagged), 1)
        held = sum(e.held for e in whole) / max(sum(e.trusted for e in whole), 1)
        lines.append(
            f"| {data} | {len({each.situation for each in whole})} | {len(whole)} | {len(judged)} "
            f"| {len(below)} | {min(each.coverage for each in judged):.1%} | {held:.1%} "
            f"| {share:.1%} |"
        )
        listed += [
            f"- {data}: {each.aggregate}, {each.situation}: {each.coverage:.1%} of "
            f"{each.trusted:,} trusted cells"
            for each in sorted(below, key=lambda each: each.coverage)
        ]
    return [*lines, "", "Below 93%:", "", *listed] if listed else lines


def _table(outcomes: Sequence[Outcome]) -> list[str]:
    whole = _whole(outcomes)
    names = list(dict.fromkeys(each.aggregate for each in whole))
    usual = [name for name in ("n", "total", "mean", "spread") if name in names]
    lines = [
        "| file | " + " | ".join(usual) + " | others |",
        "|---|" + "---|" * (len(usual) + 1),
    ]
    for situation in dict.fromkeys(each.situation for each in whole):
        mine = {each.aggregate: each for each in whole if each.situation == situation}
        others = [f"{name} {_cell(each)}" for name, each in mine.items() if name not in usual]
        cells = [_cell(mine[name]) if name in mine else "" for name in usual]
        lines.append(f"| {situation} | {' | '.join(cells)} | {', '.join(others)} |")
    return lines


def _cell(each: Outcome) -> str:
    if not _judged([each]):
        return f"! {each.flagged:.0%}"
    text = f"{100 * each.coverage:.1f}"
    if each.coverage < GOOD:
        text = f"**{text}**"
    return text if each.flagged < 0.005 else f"{text} !{each.flagged:.0%}"
