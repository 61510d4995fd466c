"""The directory that a reproduction writes to, and the page in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from watersmeet.drawing import require_matplotlib
from watersmeet.errors import InvalidArgument
from watersmeet.reproduce.chart import Figure, draw
from watersmeet.reproduce.claim import Claim, write_claims
from watersmeet.reproduce.curve import write_lines
from watersmeet.reproduce.page import PageFigure, write_page


def prepare(out: Path) -> None:
    """Make the directory, and find out before anything runs whether figures can be drawn."""
    require_matplotlib()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgument(
            f"--out {out} cannot be written to ({error.strerror}).",
            remedy="Name a directory that can be created.",
        ) from error


def publish(
    out: Path,
    *,
    figures: Sequence[Figure],
    claims: Sequence[Claim],
    paper_shows: Mapping[str, str],
    title: str,
    lead: str,
    parameters: Mapping[str, str],
    command: str,
    curves: bool = True,
) -> None:
    """Write claims.csv, the figures as SVG and PNG, and index.html; and the figures' curves, if
    they have not been written with more columns. `paper_shows` says for each number of a figure
    what the paper's own shows."""
    if curves:
        write_lines(figures, out / "curves.csv")
    write_claims(claims, out / "claims.csv")
    plates = [
        PageFigure(draw(figure, out)[0], figure.title, paper_shows[figure.number])
        for figure in figures
    ]
    write_page(
        out / "index.html",
        title=title,
        lead=lead,
        plates=plates,
        claims=claims,
        parameters=parameters,
        command=command,
    )
