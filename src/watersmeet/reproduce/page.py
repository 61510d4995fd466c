"""One HTML page with figures, claims, parameters and the command that made them."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from string import Template

from watersmeet.reproduce.claim import Claim


@dataclass(frozen=True)
class PageFigure:
    """A figure on the page, and a sentence on what the paper's own figure shows."""

    svg: Path
    title: str
    paper_shows: str


def write_page(
    path: Path,
    *,
    title: str,
    lead: str,
    plates: Sequence[PageFigure],
    claims: Sequence[Claim],
    parameters: Mapping[str, str],
    command: str,
) -> None:
    """Write one file that needs no others: figures are inside it."""
    template = files("watersmeet.reproduce").joinpath("page.html").read_text(encoding="utf-8")
    held = sum(claim.holds for claim in claims)
    text = Template(template).substitute(
        title=escape(title),
        lead=escape(lead),
        held=held,
        failed=len(claims) - held,
        all=len(claims),
        plates="\n".join(_plate(plate) for plate in plates),
        claims="\n".join(_topic(list(same)) for _, same in groupby(claims, attrgetter("topic"))),
        reasons=_reasons(claims),
        parameters="\n".join(
            f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>"
            for name, value in parameters.items()
        ),
        command=escape(command),
    )
    path.write_text(text, encoding="utf-8")


def _plate(plate: PageFigure) -> str:
    picture = base64.b64encode(plate.svg.read_bytes()).decode("ascii")
    return (
        f'<figure><img alt="{escape(plate.title)}" src="data:image/svg+xml;base64,{picture}">'
        f"<figcaption>{escape(plate.paper_shows)}</figcaption></figure>"
    )


def _topic(claims: Sequence[Claim]) -> str:
    """A sentence of the paper, and below it a line for every setting it was measured in."""
    first = claims[0]
    held = sum(claim.holds for claim in claims)
    kind = _kind(held == len(claims))
    rows = "\n".join(_row(claim) for claim in claims)
    return (
        f'<section class="topic"><header><h3>{escape(first.topic)}</h3>'
        f'<span class="verdict {kind}">{held} of {len(claims)}</span></header>'
        f"<p>The paper: {escape(first.paper)}. <i>Holds if {escape(first.check)}.</i></p>"
        f"<table><tbody>{rows}</tbody></table></section>"
    )


def _row(claim: Claim) -> str:
    word = "holds" if claim.holds else "does not hold"
    return (
        f"<tr><th>{escape(claim.where)}</th><td>{escape(claim.measured)}</td>"
        f'<td><span class="verdict {_kind(claim.holds)}">{word}</span></td></tr>'
    )


def _kind(holds: bool) -> str:
    return "yes" if holds else "no"


def _reasons(claims: Sequence[Claim]) -> str:
    """Why claims do not hold; an explanation of several claims is written once."""
    reasons = dict.fromkeys(claim.why_not for claim in claims if claim.why_not and not claim.holds)
    if not reasons:
        return ""
    paragraphs = "".join(f"<p>{escape(reason)}</p>" for reason in reasons)
    return f'<section class="reasons"><h2>Why some do not hold</h2>{paragraphs}</section>'
