"""The clock of the simulator."""

from __future__ import annotations

from watersmeet.errors import InvalidArgument


class VirtualClock:
    """A clock that moves only when `advance` or `wait_until` is called, and never backwards.

    >>> clock = VirtualClock()
    >>> clock.advance(0.5)
    >>> clock.wait_until(0.2)  # already past
    >>> clock()
    0.5
    """

    __slots__ = ("now",)

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        if not seconds >= 0.0:
            raise InvalidArgument(
                f"The clock cannot go on by {seconds} seconds.",
                remedy="Charge a finite time of zero or more.",
            )
        self.now += seconds

    def wait_until(self, time: float) -> None:
        self.now = max(self.now, time)
