"""How long will it take: to intervals that are narrow enough, and to the exact answer?"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from watersmeet.aggregates.answer.estimate import Estimate
from watersmeet.estimators import Forecast
from watersmeet.words import seconds_text

_NOT_EVERYTHING = 0.6
# So many make the worst of them hard to know.
_MANY = 20


@dataclass(frozen=True)
class Outlook:
    """Seconds of reading, all from the beginning. Without `seconds`, only the exact answer is
    narrow enough. What has come true is `reached` or `exact`."""

    relative_error: float
    seconds: float | None
    exact_seconds: float
    groups: int
    reached: bool = False
    exact: bool = False

    def __str__(self) -> str:
        """
        >>> print(Outlook(0.01, 3.9, 31.2, groups=5))
        1% in about 3.9 s, exact in about 31 s
        >>> print(Outlook(0.01, None, 31.2, groups=1000))
        1% needs everything: 1,000 groups; exact in about 31 s
        >>> print(Outlook(0.01, 3.9, 31.2, groups=5, reached=True))
        1% after 3.9 s, exact in about 31 s
        """
        wanted = f"{100 * self.relative_error:g}%"
        end = _after(self.exact_seconds, known=self.exact)
        if self.seconds is not None:
            return f"{wanted} {_after(self.seconds, known=self.reached)}, exact {end}"
        groups = f": {self.groups:,} groups; exact " if self.groups > _MANY else ", exact "
        return f"{wanted} needs everything{groups}{end}"


def outlook(
    history: Sequence[Estimate],
    forecasts: Sequence[Forecast],
    *,
    relative_error: float,
    confidence: float,
    share_at: Callable[[float], float | None],
    bytes_at: Callable[[float], float],
) -> Outlook:
    """What the looks so far let us expect.

    `share_at` is what a look has read that comes at a share or after it, None for the last;
    `bytes_at` the bytes that are read by then.
    """
    latest = history[-1]
    groups = latest.cells.value.shape[1]
    end = pace(history)(bytes_at(1.0))
    narrow = next((look for look in history if look.relative_error <= relative_error), None)
    if narrow is not None or latest.exact:
        seconds = narrow.seconds if narrow is not None and not narrow.exact else None
        return Outlook(
            relative_error, seconds, end, groups=groups, reached=True, exact=latest.exact
        )
    needed = [
        each.fraction_needed(relative_error=relative_error, confidence=confidence)
        for each in forecasts
    ]
    share = float(max((np.max(each) for each in needed if len(each)), default=1.0))
    # The worst of many forecasts is too dark: a little past the last look may well be at it.
    look = share_at(share) or (share if share < _NOT_EVERYTHING else None)
    seconds = None if look is None else pace(history)(bytes_at(look))
    return Outlook(relative_error, seconds, end, groups=groups)


def pace(history: Sequence[Estimate]) -> Callable[[float], float]:
    """Seconds for so many bytes, if the next cost what the last ones did."""
    first, latest = history[0].progress, history[-1].progress
    read = latest.bytes_read - first.bytes_read
    if read > 0 and latest.seconds > first.seconds:
        slope = (latest.seconds - first.seconds) / read
    else:
        slope = latest.seconds / max(latest.bytes_read, 1)
    return lambda nbytes: latest.seconds + slope * (nbytes - latest.bytes_read)


def _after(seconds: float, *, known: bool) -> str:
    if math.isnan(seconds):
        return "when the inputs end"
    return f"after {seconds_text(seconds)}" if known else f"in about {seconds_text(seconds)}"
