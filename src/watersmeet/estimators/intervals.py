"""From an estimate and its variance to an interval: which formula fits how much was seen.

scipy.special is imported where it is used, because importing it takes longer than a first
estimate should.
"""

from __future__ import annotations

import math

import numpy as np

from watersmeet.errors import InvalidArgument
from watersmeet.estimators.moments import Floats

# The look at which an unlimited sequence of looks is tightest, in units read.
_BEST_LOOK = 40.0


def tail_probability(
    confidence: float, *, statements: int = 1, looks: int | None = 1, units: float = math.inf
) -> float:
    """The error left to one interval: of several groups at once (Bonferroni), looked at again.

    With a planned number of looks the error is shared out evenly. `looks=None` is a
    confidence sequence: it holds at every look at once, however many, and its width depends on
    the units read so far (counted as `units` of an infinite population).

    References
    ----------
    Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, "Time-uniform central limit theory and
    asymptotic confidence sequences", Annals of Statistics 2024, eq. 2 and section B.2.
    """
    if not 0 < confidence < 1:
        raise InvalidArgument(
            f"confidence={confidence} is no probability.",
            remedy="Give a number between 0 and 1, such as 0.95.",
        )
    error = (1 - confidence) / max(statements, 1)
    if looks is not None:
        return error / max(looks, 1)
    from scipy.special import log_ndtr  # type: ignore[import-untyped]

    width = -2 * math.log(error)
    time = min(units, 1e12) * (width + math.log(width + 1)) / _BEST_LOOK
    radius = math.sqrt(2 * (time + 1) / time * (math.log(time + 1) / 2 - math.log(error)))
    return float(2 * np.exp(log_ndtr(-radius)))


def t_quantile(tail: float, degrees: Floats) -> Floats:
    """Student's quantile that leaves `tail` on both sides together; infinite without degrees."""
    from scipy.special import ndtri, stdtrit

    # Many groups share few degrees of freedom, and the quantile is dear.
    some, which = np.unique(degrees, return_inverse=True)
    quantile = -stdtrit(np.clip(some, 1, 1e6), tail / 2)
    quantile = np.where(some > 1e6, -ndtri(tail / 2), np.where(some < 1, np.inf, quantile))
    return np.asarray(quantile[which])


def gamma_interval(
    estimate: Floats, variance: Floats, *, largest: Floats, tail: float
) -> tuple[Floats, Floats]:
    """For few rows of non-negative values: a total that is a weighted sum of Poisson counts.

    `largest` is the most that one unit contributes. Exact limits for a Poisson count x take the
    gamma laws of shape x below and x + 1 above, and hold the truth more often than promised,
    97-98% below 30 rows. Shape x + 1/2 for both (Jeffreys) keeps the promise on average.

    References
    ----------
    Fay and Feuer, "Confidence intervals for directly standardized rates", Stat. Med. 1997.
    Brown, Cai and DasGupta, "Interval estimation in exponential families", Stat. Sinica 2003.
    """
    from scipy.special import gammainccinv, gammaincinv

    with np.errstate(divide="ignore", invalid="ignore"):
        mean, spread = estimate + largest / 2, variance + largest**2 / 2
        low = spread / mean * gammaincinv(mean**2 / spread, tail / 2)
        high = spread / mean * gammainccinv(mean**2 / spread, tail / 2)
    still = variance <= 0
    return np.where(still, estimate, low), np.where(still, estimate, high)


def zero_match_bound(tail: float, fractions: tuple[float, ...]) -> float:
    """No pair has been seen: how many may there be? The rule of three.

    `fractions` are the parts of each sampled side that were read. Where nothing was read there
    is no bound.
    """
    found = math.prod(fractions)
    return -math.log(tail / 2) / found if found else math.inf
