"""How results are shown: Markdown tables for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.cases import Claim
from benchmarks.measured import Measured

Row = Mapping[str, str]

_BEGIN = "<!-- written by benchmarks/run.py --publish -->"
_END = "<!-- end of what is written -->"


@dataclass(frozen=True, kw_only=True)
class Section:
    """One benchmark's part of the report."""

    name: str
    title: str
    note: str
    rows: Sequence[Row]
    claims: Sequence[Claim]
    measured: Measured = field(repr=False)


def markdown(sections: Sequence[Section], machine: Mapping[str, str]) -> str:
    """The whole report: what was measured on, targets first, then every table."""
    lines = ["# Measured", ""]
    lines += [", ".join(f"{name} {value}" for name, value in machine.items()) + ".", ""]
    claims = [asdict(claim) for section in sections for claim in section.claims]
    for claim in claims:
        claim["holds"] = "yes" if claim["holds"] else "**no**"
    lines += ["## Targets", "", *_table(claims), ""]
    for section in sections:
        lines += [f"## {section.title}", "", section.note, "", *_table(section.rows), ""]
    return "\n".join(lines)


def write(sections: Sequence[Section], machine: Mapping[str, str], *, folder: Path) -> str:
    """Write `latest.md` and `latest.json`; give the Markdown back."""
    text = markdown(sections, machine)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "latest.md").write_text(text)
    (folder / "latest.json").write_text(json.dumps(_plain(sections, machine), indent=1) + "\n")
    return text


def publish(text: str, *, page: Path) -> None:
    """Replace the measured part of a page, which lies between two marks, by `text`."""
    before, rest = page.read_text().split(_BEGIN)
    _, after = rest.split(_END)
    # One level deeper: the page has a title of its own.
    inside = "\n".join("#" + line if line.startswith("#") else line for line in text.splitlines())
    page.write_text(f"{before}{_BEGIN}\n{inside}\n{_END}{after}")


def seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f} s"


def million_per_second(value: float) -> str:
    return f"{value / 1e6:.2f} M/s"


def megabytes(value: float) -> str:
    return f"{value / 2**20:.0f} MB"


def times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return ["(nothing measured)"]
    heads = list(rows[0])
    cells = [heads, *([str(row[head]) for head in heads] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(heads))]
    lines = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |"
        for line in cells
    ]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]


def _plain(sections: Sequence[Section], machine: Mapping[str, str]) -> dict[str, Any]:
    return {
        "machine": dict(machine),
        "benchmarks": {
            section.name: {
                "title": section.title,
                "table": [dict(row) for row in section.rows],
                "claims": [asdict(claim) for claim in section.claims],
                "cases": {
                    name: {
                        "case": asdict(case),
                        "exact": section.measured.exact(name),
                        "runs": [asdict(run) for run in section.measured.outcomes(name)],
                    }
                    for name, case in section.measured.cases.items()
                },
            }
            for section in sections
        },
    }
