"""How sure, how narrow, how long: what a user says about intervals, checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from watersmeet.errors import InvalidArgument


@dataclass(frozen=True)
class Settings:
    """How sure an interval is to be, and of what: each cell, all of a look, or all looks."""

    confidence: float
    simultaneous: bool
    every_look: bool
    takes_extremes: bool

    @classmethod
    def parse(
        cls,
        confidence: Any,
        *,
        simultaneous: Any,
        every_look: Any,
        heavy_tails: Any,
    ) -> Settings:
        is_number = isinstance(confidence, int | float) and not isinstance(confidence, bool)
        if not is_number or not 0 < confidence < 1:
            raise InvalidArgument(
                f"confidence={confidence!r} is no probability between 0 and 1.",
                remedy="Give for example 0.95.",
            )
        if not isinstance(heavy_tails, str) or heavy_tails not in ("flag", "take-all"):
            raise InvalidArgument(
                f"heavy_tails={heavy_tails!r} is not known.", remedy='Use "flag" or "take-all".'
            )
        for name, given in (("simultaneous", simultaneous), ("every_look", every_look)):
            if not isinstance(given, bool):
                raise InvalidArgument(
                    f"{name}={given!r} is neither true nor false.",
                    remedy=f"Write {name}=True or {name}=False.",
                )
        return cls(float(confidence), simultaneous, every_look, heavy_tails == "take-all")


@dataclass(frozen=True)
class Goal:
    """When to stop: all intervals trusted and so narrow, or time or share used up."""

    relative_error: float | None
    seconds: float | None
    fraction: float | None
    goes_on: bool
    """To the exact answer, if time or share are used up first."""

    @classmethod
    def parse(
        cls,
        relative_error: float | str | None,
        seconds: float | None,
        fraction: float | str | None,
        *,
        otherwise: str,
    ) -> Goal:
        if seconds is not None and not (_is_number(seconds) and seconds > 0):
            raise InvalidArgument(
                f"seconds={seconds!r} is no length of time.", remedy="Give a number above 0."
            )
        if not isinstance(otherwise, str) or otherwise not in ("best", "exact"):
            raise InvalidArgument(
                f"otherwise={otherwise!r} is not known.", remedy='Use "best" or "exact".'
            )
        if relative_error is None and seconds is None and fraction is None:
            raise InvalidArgument(
                "until() has no condition.",
                remedy="Give relative_error, seconds or fraction, or iterate to the exact answer.",
            )
        wanted, part = share(relative_error, "relative_error"), share(fraction, "fraction")
        return cls(wanted, seconds, part, otherwise == "exact")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def share(value: float | str | None, name: str) -> float | None:
    """A part of a whole, as a number or in percent."""
    if value is None:
        return None
    given = value
    if isinstance(value, str):
        try:
            value = float(value.removesuffix("%")) / (100 if value.endswith("%") else 1)
        except ValueError:
            value = math.nan
    if not _is_number(value) or not 0 < value <= 1:
        raise InvalidArgument(
            f"{name}={given!r} is no part of a whole.",
            remedy='Give a number above 0 and up to 1, such as 0.01, or a text such as "1%".',
        )
    return float(value)
