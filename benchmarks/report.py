"""How results are shown: Markdown tables for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks.cases import Claim

Row = Mapping[str, str]

_BEGIN = "<!-- written by benchmarks/run.py --publish -->"
_END = "<!-- end of what is written -->"


class Measurements(Protocol):
    """The runs behind a section."""

    def broken(self) -> list[str]:
        """What was wrong, or failed where it must not."""

    def plain(self) -> dict[str, Any]:
        """Every single run, for the JSON."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """One benchmark's part of the report."""

    name: str
    title: str
    note: str
    rows: Sequence[Row]
    claims: Sequence[Claim]
    measured: Measurements = field(repr=False)

    def plain(self, machine: Mapping[str, str]) -> dict[str, Any]:
        return {
            "machine": dict(machine),
            "title": self.title,
            "note": self.note,
            "claims": [asdict(claim) for claim in self.claims],
            "table": [dict(row) for row in self.rows],
        }


def write(sections: Sequence[Section], machine: Mapping[str, str], *, folder: Path) -> str:
    """Write `latest.md` and `latest.json`; give the Markdown back."""
    shown = {section.name: section.plain(machine) for section in sections}
    text = markdown(shown)
    runs = {section.name: {"cases": section.measured.plain()} for section in sections}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "latest.md").write_text(text)
    _write_json({name: shown[name] | runs[name] for name in shown}, folder / "latest.json")
    return text


def publish(
    sections: Sequence[Section],
    machine: Mapping[str, str],
    *,
    page: Path,
    record: Path,
    order: Sequence[str],
) -> None:
    """Replace these sections of a page; those of earlier runs, which `record` keeps, remain.

    What is measured lies between two marks of the page, in the order of the names in `order`.
    """
    shown = json.loads(record.read_text()) | {
        section.name: section.plain(machine) for section in sections
    }
    shown = {name: shown[name] for name in order if name in shown}
    _write_json(shown, record)
    before, rest = page.read_text().split(_BEGIN)
    _, after = rest.split(_END)
    # One level deeper: the page has a title of its own.
    lines = markdown(shown).splitlines()
    inside = "\n".join("#" + line if line.startswith("#") else line for line in lines)
    page.write_text(f"{before}{_BEGIN}\n{inside}\n{_END}{after}")


def markdown(shown: Mapping[str, Mapping[str, Any]]) -> str:
    """The whole report: what was measured on, targets first, then every table."""
    machines = [section["machine"] for section in shown.values()]
    common = {
        name: value
        for name, value in machines[0].items()
        if all(machine.get(name) == value for machine in machines)
    }
    lines = ["# Measured", "", _facts(common), ""]
    claims = [claim for section in shown.values() for claim in section["claims"]]
    lines += ["## Targets", "", *_table([claim | _yes_or_no(claim) for claim in claims]), ""]
    for section in shown.values():
        own = {name: v for name, v in section["machine"].items() if name not in common}
        note = f"{section['note']} Measured with {_facts(own)}" if own else section["note"]
        lines += [f"## {section['title']}", "", note, "", *_table(section["table"]), ""]
    return "\n".join(lines)


def seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f} s"


def million_per_second(value: float) -> str:
    return f"{value / 1e6:.2f} M/s"


def megabytes(value: float) -> str:
    return f"{value / 2**20:.0f} MB"


def times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"


def percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f}%"


def _facts(machine: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in machine.items()) + "."


def _yes_or_no(claim: Mapping[str, Any]) -> dict[str, str]:
    return {"holds": "yes" if claim["holds"] else "**no**"}


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


def _write_json(what: Mapping[str, Any], path: Path) -> None:
    path.write_text(json.dumps(what, indent=1) + "\n")
