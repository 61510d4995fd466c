"""Days and microseconds since 1970 as years, months and hours, in the calendar that has no gaps.

Arrow has these functions too, but only for years of 16 bits. Nothing here knows a time zone: an
instant is looked at in UTC.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.int64]

DAY = 86_400_000_000
"""Microseconds."""
_UNITS = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
}
# Of 400 years, after which the calendar repeats, and the days from 0000-03-01 to 1970-01-01. Years
# are counted from March here, so that a leap day is the last of its year.
_ERA, _MARCH = 146_097, 719_468


def year(days: Whole) -> Whole:
    return _civil(days)[0]


def month(days: Whole) -> Whole:
    return _civil(days)[1]


def day_of_month(days: Whole) -> Whole:
    return _civil(days)[2]


def quarter(days: Whole) -> Whole:
    return (month(days) + 2) // 3


def day_of_year(days: Whole) -> Whole:
    return days - first_day(days, "YEAR") + 1


def day_of_week(days: Whole) -> Whole:
    """Sunday is 1."""
    return (days + 4) % 7 + 1


def weekday(days: Whole) -> Whole:
    """Monday is 0."""
    return (days + 3) % 7


def week_of_year(days: Whole) -> Whole:
    """Weeks belong to the year in which their Thursday is."""
    thursday = days - weekday(days) + 3
    return (thursday - first_day(thursday, "YEAR")) // 7 + 1


def last_day(days: Whole) -> Whole:
    """Of the month."""
    years, months, _ = _civil(days)
    return _days(years + months // 12, months % 12 + 1) - 1


def first_day(days: Whole, unit: str) -> Whole:
    """Of the WEEK, MONTH, QUARTER or YEAR."""
    if unit == "WEEK":
        return days - weekday(days)
    years, months, _ = _civil(days)
    if unit == "YEAR":
        return _days(years, np.ones_like(months))
    return _days(years, months if unit == "MONTH" else (months - 1) // 3 * 3 + 1)


def days(instants: Whole) -> Whole:
    return instants // DAY


def hour(instants: Whole) -> Whole:
    return instants % DAY // _UNITS["HOUR"]


def minute(instants: Whole) -> Whole:
    return instants % _UNITS["HOUR"] // _UNITS["MINUTE"]


def second(instants: Whole) -> Whole:
    return instants % _UNITS["MINUTE"] // _UNITS["SECOND"]


def first_instant(instants: Whole, unit: str) -> Whole:
    """Of a unit of time or of the calendar."""
    if unit in _UNITS:
        return instants - instants % _UNITS[unit]
    if unit == "DAY":
        return instants - instants % DAY
    return first_day(days(instants), unit) * DAY


def date_texts(values: Whole) -> list[str]:
    """As Spark writes days whose year does not have four digits: with a sign."""
    parts = zip(*(part.tolist() for part in _civil(values)), strict=True)
    return [f"{_year_text(year)}-{month:02}-{day:02}" for year, month, day in parts]


def _year_text(year: int) -> str:
    if year > 9999:
        return f"+{year}"
    return f"{year:04}" if year >= 0 else f"-{-year:04}"


def _civil(days: Whole) -> tuple[Whole, Whole, Whole]:
    """Year, month and day: Howard Hinnant's `civil_from_days`."""
    since = days.astype(np.int64) + _MARCH
    era = since // _ERA
    inside = since - era * _ERA
    years = (inside - inside // 1_460 + inside // 36_524 - inside // 146_096) // 365
    rest = inside - (365 * years + years // 4 - years // 100)
    months = (5 * rest + 2) // 153
    day = rest - (153 * months + 2) // 5 + 1
    month = months + np.where(months < 10, 3, -9)
    return np.asarray(years + era * 400 + (month <= 2)), np.asarray(month), np.asarray(day)


def _days(years: Whole, months: Whole) -> Whole:
    """Of the first of a month."""
    years = years - (months <= 2)
    era = years // 400
    inside = years - era * 400
    rest = (153 * (months + np.where(months > 2, -3, 9)) + 2) // 5
    days = inside * 365 + inside // 4 - inside // 100 + rest
    return np.asarray(era * _ERA + days - _MARCH)
