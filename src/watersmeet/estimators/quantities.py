"""Aggregates as functions of a group's moments, with the gradients the delta method needs."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import numpy as np

from watersmeet.estimators.moments import Floats, LinearForm


class Kind(StrEnum):
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    VARIANCE = "variance"
    VAR_POP = "var_pop"
    STDDEV = "stddev"
    STDDEV_POP = "stddev_pop"

    @property
    def is_total(self) -> bool:
        """Scales with the data; the others are ratios and need no sizes."""
        return self in (Kind.COUNT, Kind.SUM)

    @property
    def is_spread(self) -> bool:
        return not self.is_total and self is not Kind.AVG

    @property
    def is_root(self) -> bool:
        return self in (Kind.STDDEV, Kind.STDDEV_POP)

    @property
    def of_sample(self) -> bool:
        """Divides by n - 1, as SQL's VARIANCE and STDDEV do."""
        return self in (Kind.VARIANCE, Kind.STDDEV)


class Quantity(NamedTuple):
    """One aggregate: its kind, and which expression; None is COUNT(*)."""

    kind: Kind
    expression: int | None = None

    def evaluate(self, moments: Floats, *, centre: float = 0.0) -> tuple[Floats, LinearForm]:
        """Value per group, and the gradient; NaN where SQL says null.

        Variance of the value = the gradient's quadratic form of the covariance.
        """
        kind, number = self.kind, self.expression
        if number is None:
            return moments[:, 0].copy(), LinearForm(np.ones(len(moments)), expression=None)
        n, s, q = moments[:, 1 + 3 * number : 4 + 3 * number].T
        one, none = np.ones_like(n), np.zeros_like(n)
        if kind is Kind.COUNT:
            return n.copy(), LinearForm(np.stack([one, none, none], axis=1), expression=number)
        if kind is Kind.SUM:
            return s + centre * n, LinearForm(
                np.stack([centre * one, one, none], axis=1), expression=number
            )
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = s / n
            if kind is Kind.AVG:
                gradient = np.stack([-mean, one, none], axis=1) / n[:, None]
                return centre + mean, LinearForm(gradient, expression=number)
            value = np.maximum(q / n - mean**2, 0.0)
            gradient = np.stack([mean**2 - value, -2 * mean, one], axis=1) / n[:, None]
            if kind.of_sample:
                bessel = np.where(n > 1, n / (n - 1), np.nan)
                value, gradient = value * bessel, gradient * bessel[:, None]
            if kind.is_root:
                value = np.sqrt(value)
                gradient = gradient / (2 * value[:, None])
        return value, LinearForm(gradient, expression=number)
