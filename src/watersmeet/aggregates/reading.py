"""What a run asks of whoever reads its inputs, block by block or as they come."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol

from watersmeet.aggregates.answer.estimate import Estimate
from watersmeet.aggregates.answer.outlook import Outlook
from watersmeet.aggregates.ask.question import ResolvedQuestion
from watersmeet.aggregates.sampling.strata import Strata
from watersmeet.estimators.forecast import Forecast

Found = Any
"""What a look has brought, for the reading that brought it."""


class Look(Protocol):
    """What is read before the next estimate. After the `last`, all has been."""

    @property
    def last(self) -> bool: ...


class Looks(Protocol):
    """What is read when."""

    @property
    def most(self) -> int:
        """About how many looks there are in all."""
        ...

    def next(self) -> Any:
        """The next look; the same again until it has been taken in."""
        ...

    def rest(self) -> Any:
        """The look at all that has not been read."""
        ...

    def share_at(self, share: float) -> float | None:
        """What part has been read at the first look with so much of it; None if it is the last."""
        ...


class WorkTime:
    """Seconds of what is done inside of it and comes to its end, added up."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._began = 0.0

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.seconds += time.monotonic() - self._began


class Reading(Protocol):
    """Reads look by look, and says what is known after each. One thread uses it at a time, but
    for `cancel`, `explain` and what an outlook is made from."""

    @property
    def question(self) -> ResolvedQuestion: ...

    @property
    def looks(self) -> Looks: ...

    def read(self, look: Any) -> Found: ...

    def take_in(self, look: Any, found: Found) -> None:
        """Count what was read. Should there be too many groups for a sample, totals count still."""
        ...

    def extremes(self) -> Strata | None:
        """How to divide the rows now, so that those with extreme values are not sampled."""
        ...

    def set_apart(self, found: Strata) -> None:
        """Join all rows with extreme values, and begin anew with the rest."""
        ...

    def estimate(self, look: Any, history: Sequence[Estimate]) -> Estimate:
        """After a look."""
        ...

    def rows_in(self, look: Any) -> int: ...

    def forecasts(self) -> list[Forecast]: ...

    def bytes_at(self, share: float) -> float:
        """How many have been read with this part of the rows; NaN if nobody knows."""
        ...

    def explain(self, latest: Estimate | None, outlook: Outlook | None, crowded: str) -> str: ...

    def cancel(self) -> None:
        """End what `read` is doing in another thread, as soon as can be."""
        ...

    def close(self) -> None: ...
