"""Publishing one benchmark's table leaves the others on the page as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.cases import Claim
from benchmarks.report import Section, publish

PAGE = (
    "# Title\n\n<!-- written by benchmarks/run.py --publish -->\n"
    "<!-- end of what is written -->\n\nThe end.\n"
)


class Nothing:
    def broken(self) -> list[str]:
        return []

    def plain(self) -> dict[str, Any]:
        return {}


def section(name: str, speed: str) -> Section:
    claim = Claim(claim=f"{name} is fast", target="fast", measured=speed, holds=speed == "fast")
    return Section(
        name=name,
        title=f"About {name}",
        note="A note.",
        rows=[{"engine": name, "speed": speed}],
        claims=[claim],
        measured=Nothing(),
    )


def test_only_the_sections_of_this_run_are_replaced(tmp_path: Path) -> None:
    page, record = tmp_path / "page.md", tmp_path / "published.json"
    page.write_text(PAGE)
    record.write_text("{}")
    order = ("first", "second", "third")

    def published(*sections: Section, machine: dict[str, str]) -> str:
        publish(sections, machine, page=page, record=record, order=order)
        return page.read_text()

    published(section("third", "slow"), section("first", "slow"), machine={"cores": "2", "on": "1"})
    text = published(section("third", "fast"), machine={"cores": "2", "on": "2"})

    assert text.startswith("# Title\n\n<!-- written")
    assert text.endswith("<!-- end of what is written -->\n\nThe end.\n")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "| first is fast | fast | slow | **no** |" in lines
    assert "| third is fast | fast | fast | yes |" in lines
    assert "| first | slow |" in lines
    assert "| third | fast |" in lines
    assert "| third | slow |" not in lines
    assert lines.index("### About first") < lines.index("### About third")
    # What both were measured on stands once, the rest with each.
    assert "cores 2." in lines
    assert "A note. Measured with on 1." in lines
    assert "A note. Measured with on 2." in lines
    assert list(json.loads(record.read_text())) == ["first", "third"]
