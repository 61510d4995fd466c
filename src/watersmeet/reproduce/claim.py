"""What a paper says, what was measured, and whether the two agree."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper against one measurement.

    `topic` is the sentence and `where` the setting it was measured in. `check` is the rule that
    decides `holds`, fixed before anything was measured. `why_not` is shown only where the claim
    does not hold.
    """

    topic: str
    where: str
    paper: str
    check: str
    measured: str
    holds: bool
    why_not: str = ""

    @property
    def claim(self) -> str:
        return f"{self.topic} ({self.where})"


def write_claims(claims: Iterable[Claim], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["claim", "paper", "measured", "holds"])
        for claim in claims:
            table.writerow([claim.claim, claim.paper, claim.measured, yes_or_no(claim.holds)])


def yes_or_no(holds: bool) -> str:
    return "yes" if holds else "no"
