"""What every sampling design hands over: estimated totals, and how they vary together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from watersmeet.estimators.moments import Floats


class Reading(NamedTuple):
    """How far one sampled input has been read, in the units that were drawn at random."""

    read: int
    of: int | None
    noun: str = "blocks"

    @property
    def complete(self) -> bool:
        return self.read == self.of

    @property
    def fraction(self) -> float:
        """0 if the whole is unknown: then nothing is taken off for what was read."""
        return self.read / self.of if self.of else 0.0


class ResidualMoments(NamedTuple):
    """Second and third moments of the units' residuals, to see whether they are skewed."""

    second: Floats  # [G, 1 + 6 E]
    third: Floats  # [G, 1 + 10 E]
    reading: Reading


class Totals(NamedTuple):
    """Per group the estimated totals of the moments and their covariance.

    Of the covariance matrix only the products that an aggregate needs are kept, packed as
    `moments.packed` says: [G, 1 + 6 E].
    """

    value: Floats  # [G, J]
    covariance: Floats  # [G, 1 + 6 E]
    degrees: float  # of freedom of that covariance
    exact: bool  # everything was read: the covariance is exactly zero
    seen: Floats  # [G, J] as read, before any scaling up
    readings: tuple[Reading, ...] = ()
    shapes: tuple[ResidualMoments, ...] = ()
    # A variance below this form's is an accident of a tiny sample (two-sided designs).
    floor: Floats | None = None
    contributing: Floats | None = None  # [G] units with anything of the group
    largest: Floats | None = None  # [G, J]: most that one unit contributed, scaled up
    scaled: bool = True  # False: the inputs' sizes are unknown, only ratios mean anything
    fraction: float = 0.0  # share of all pairs of rows that was looked at
    # Where there are several strata, each one's part of the covariance, as the second moments.
    strata: tuple[ResidualMoments, ...] = ()

    @property
    def of_rows(self) -> bool:
        """The units that were drawn are single rows."""
        return all(reading.noun.endswith("rows") for reading in self.readings)

    @property
    def groups(self) -> int:
        return len(self.value)

    def padded(self, groups: int) -> Totals:
        """With groups of which nothing was found, if there are more: all their totals are 0."""
        more = groups - self.groups
        if more <= 0:
            return self

        def longer(array: Floats) -> Floats:
            return np.concatenate([array, np.zeros((more, *array.shape[1:]))])

        arrays: dict[str, Any] = {
            name: longer(array)
            for name, array in self._asdict().items()
            if isinstance(array, np.ndarray)
        }
        shapes, strata = (
            tuple(
                ResidualMoments(longer(each.second), longer(each.third), each.reading)
                for each in several
            )
            for several in (self.shapes, self.strata)
        )
        return self._replace(shapes=shapes, strata=strata, **arrays)


def take_all(exact: Floats, rest: Totals) -> Totals:
    """A stratum that was joined completely, plus the sampled rest.

    The remedy for heavy tails: the few largest values are joined exactly, so what is sampled
    has a tail that the sample can see. Only the rest varies.
    """
    return rest._replace(value=rest.value + exact, seen=rest.seen + exact)
