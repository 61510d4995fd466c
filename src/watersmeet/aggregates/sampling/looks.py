"""Which blocks are read before the next estimate?

About as many as were read before: then all looks together cost about twice the last one, and each
makes intervals a third narrower. When most has been read, the rest follows in one go.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from watersmeet.aggregates.sampling.draw import FEWEST_DRAWN
from watersmeet.aggregates.sampling.plan import ReadPlan
from watersmeet.model import Side

FEWEST_BLOCKS = 24
"""Of a first look. With fewer than 20 an interval misses more often than it says."""

_GROWTH = 2.0
_FIRST_SHARE = 0.02
# Of both sides of a rectangle, where a part f of each holds f * f of the result.
_FIRST_SHARE_OF_BOTH = 0.05
# From here on the rest is read at once: one more estimate would save little.
_LAST_SHARE = 0.45


@dataclass(frozen=True)
class Look:
    """Blocks that are read before the next estimate, by side. After the `last`, all are."""

    blocks: tuple[tuple[int, ...], tuple[int, ...]]
    last: bool


class Looks(ABC):
    """The blocks of a plan, look by look."""

    def __init__(self, plan: ReadPlan) -> None:
        self.plan = plan
        self._done = [0, 0]
        self.stops = _stops(
            len(plan.orders[plan.sampled]), certain=plan.certain, at_once=plan.at_once
        )
        """After how many blocks of the sampled side there is a look; about, for a rectangle."""

    @property
    def most(self) -> int:
        """About how many looks there are in all."""
        return len(self.stops)

    def share_at(self, share: float) -> float | None:
        """What part has been read at the first look with so much of it; None if it is the last."""
        count = max(self.stops[-1], 1)
        return next((stop / count for stop in self.stops[:-1] if stop >= share * count), None)

    def next(self) -> Look:
        """The next look; the same again until it is taken."""
        return self._to(self._stops_after())

    def rest(self) -> Look:
        """Everything that has not been read."""
        return self._to((len(self.plan.orders[0]), len(self.plan.orders[1])))

    def taken(self, look: Look) -> None:
        """Go on behind the blocks of this look, which have been read."""
        for each in Side:
            self._done[each] += len(look.blocks[each])

    def done(self, side: Side) -> int:
        """How many blocks of a side have been read."""
        return self._done[side]

    @property
    def begun(self) -> bool:
        return any(self._done)

    def _to(self, stops: tuple[int, int]) -> Look:
        orders = self.plan.orders
        left, right = (orders[side][self._done[side] : stops[side]] for side in Side)
        last = all(stops[side] == len(orders[side]) for side in Side)
        return Look((left, right), last)

    @abstractmethod
    def _stops_after(self) -> tuple[int, int]:
        """How many blocks of each side have been read after the next look."""


class LooksAtOneSide(Looks):
    """The other side is read before, or along with the blocks that need it."""

    def _stops_after(self) -> tuple[int, int]:
        sampled = self.plan.sampled
        # An empty side is complete at its first look.
        count = len(self.plan.orders[sampled])
        stop = next((s for s in self.stops if s > self._done[sampled]), count)
        return (stop, 0) if sampled is Side.LEFT else (0, stop)


class LooksAtBothSides(Looks):
    """A rectangle that grows on one of its sides with each look."""

    def __init__(self, plan: ReadPlan, better_side: Callable[[], Side]) -> None:
        """`better_side` is asked which of the sides should grow."""
        super().__init__(plan)
        self._better_side = better_side

    def _stops_after(self) -> tuple[int, int]:
        counts = [len(order) for order in self.plan.orders]
        stops = list(self._done)
        if not self.begun:
            stops = [max(FEWEST_BLOCKS, ceil(_FIRST_SHARE_OF_BOTH * count)) for count in counts]
        else:
            chosen = self._better_side()
            if self._done[chosen] == counts[chosen]:
                chosen = chosen.other
            stops[chosen] = ceil(stops[chosen] * _GROWTH)
        for each in Side:
            if stops[each] > _LAST_SHARE * counts[each]:
                stops[each] = counts[each]
        return stops[0], stops[1]


def _stops(count: int, *, certain: int = 0, at_once: int = 0) -> list[int]:
    """After how many blocks of one side there is a look, the whole last.

    `certain` ones are read before the others, and a few of them instead of others; `at_once` come
    before the first look.

    >>> _stops(600)
    [24, 48, 96, 192, 600]
    >>> _stops(600, certain=10)
    [30, 60, 120, 240, 600]
    >>> _stops(600, certain=2, at_once=32)
    [32, 64, 128, 256, 600]
    >>> _stops(10)
    [10]
    """
    stops: list[int] = []
    stop = max(FEWEST_BLOCKS, FEWEST_DRAWN + certain, at_once, ceil(_FIRST_SHARE * count))
    while stop < _LAST_SHARE * count:
        stops.append(stop)
        stop = ceil(stop * _GROWTH)
    return [*stops, count]
