"""Claims about joins on Spark beside Spark's own: the total, and when early rows come."""

from __future__ import annotations

from benchmarks.cases import Claim
from benchmarks.report import percent, times
from benchmarks.spark_measured import SparkMeasured


def total_claim(
    measured: SparkMeasured,
    name: str,
    peer: str,
    *,
    at_most: float,
    claim: str | None = None,
    whose: str = "Spark's own join",
) -> Claim:
    """The total of all rows; `whose` says which peer it is, if the claim does not."""
    ratio = measured.ratio(measured.total(name), peer)
    return Claim(
        claim=claim or f"Total on Spark, {name}",
        target=f"at most {f'{at_most}x {whose}'.rstrip()}, exact",
        measured=times(ratio),
        holds=ratio is not None and ratio <= at_most and measured.exact([name]),
    )


def early_claim(
    claim: str, share: float | None, *, at_most: float, of: str = "Spark's total"
) -> Claim:
    return Claim(
        claim=claim,
        target=f"at most {at_most:.0%} of {of}",
        measured=percent(share),
        holds=share is not None and share <= at_most,
    )
