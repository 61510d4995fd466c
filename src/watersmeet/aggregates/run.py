"""An aggregate on its way: estimates one after the other, until one is good enough or exact."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from watersmeet.aggregates.allowance import SideTooLarge, TooManyGroups
from watersmeet.aggregates.answer.estimate import Estimate
from watersmeet.aggregates.answer.outlook import Outlook, outlook, pace
from watersmeet.aggregates.answer.score import ScoreCard
from watersmeet.aggregates.ask.settings import Goal, Settings, share
from watersmeet.aggregates.reading import Found, Look, Reading
from watersmeet.errors import InvalidArgument, RunClosed, WatersmeetError


class AggregateRun:
    """An aggregate over a join. Nothing is read before the first estimate is asked for.

    Iterate over it for estimates that get better until the last is exact; stop early with `until`
    or `stop`, go on with `resume`, or finish with `exact`. While an estimate is being looked at,
    the next one is computed.

    Once the answer is exact, iterating again gives it again. After `close` all that is known
    remains; what would have to be read raises RunClosed.
    """

    def __init__(
        self,
        reading: Reading,
        *,
        settings: Settings,
        instead: Callable[[], Reading | None] | None = None,
    ) -> None:
        """`instead` is how to read if the side that should be kept does not fit after all."""
        self._reading = reading
        self._settings = settings
        self._instead = instead
        self._crowded = ""
        self._ahead: tuple[Look, Future[Found]] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="watersmeet-aggregate")
        self._stopped = False
        self._closed = False
        self.history: list[Estimate] = []
        """All estimates so far, the latest last."""
        # The reading knows nothing of us, so this fires when the caller lets go.
        self._abandoned = weakref.finalize(self, reading.close)

    # ---- asking -----------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Estimate]:
        if self.complete:
            yield self.history[-1]
        with self._ended_by_stop():
            while not self._stopped and not self.complete:
                yield self._advance(ahead=True)
        self._check_finished()

    def until(
        self,
        *,
        relative_error: float | str | None = None,
        seconds: float | None = None,
        fraction: float | None = None,
        otherwise: str = "best",
    ) -> Iterator[Estimate]:
        """Estimates up to the first whose every interval is trusted and narrow enough.

        Parameters
        ----------
        relative_error
            Half the widest interval as a part of its estimate, such as 0.01 or "1%".
        seconds, fraction
            Look no longer than this, and read no larger a part of the sampled side.
        otherwise
            If they are used up first: "best" ends with the best estimate so far, "exact" goes on
            to the exact answer.
        """
        goal = Goal.parse(relative_error, seconds, fraction, otherwise=otherwise)
        if not self.history:
            self._check_open()
        return self._until(goal)

    def _until(self, goal: Goal) -> Iterator[Estimate]:
        if self.history:
            yield self.history[-1]
            if self._reached(goal):
                return
        with self._ended_by_stop():
            while not self._stopped and not self.complete:
                if self._used_up(goal):
                    if goal.goes_on:
                        yield self.exact()
                    return
                estimate = self._advance(ahead=False)
                done = self._reached(goal)
                if not done and not self._used_up(goal):
                    self._look_ahead()
                yield estimate
                if done:
                    return
        self._check_finished()

    def _reached(self, goal: Goal) -> bool:
        wanted = goal.relative_error
        latest = self.history[-1]
        return latest.exact or (wanted is not None and latest.relative_error <= wanted)

    def _used_up(self, goal: Goal) -> bool:
        """Whether the next look would take too long or read too much. The first may."""
        if not self.history:
            return False
        latest = self.history[-1].progress
        look = self._next_look()
        after = (latest.rows_read + self._reading.rows_in(look)) / max(latest.rows, 1)
        if goal.fraction is not None and after > goal.fraction:
            return True
        if goal.seconds is None:
            return False
        return pace(self.history)(self._reading.bytes_at(after)) > goal.seconds

    def exact(self) -> Estimate:
        """The exact answer: all that is left is read in one go."""
        if self.complete:
            return self.history[-1]
        self._check_open()
        self._stopped = False
        while not self.complete:
            try:
                self._advance(ahead=False, rest=True)
            except Exception:
                self._check_finished()  # Whatever it was, it came of being closed.
                raise
        return self.history[-1]

    def stop(self) -> None:
        """Read no further. What is known stays, and `resume` goes on from there.

        Another thread may call it: an iteration that waits for a look ends then.
        """
        self._stopped = True
        ahead, self._ahead = self._ahead, None
        if ahead is None or not ahead[1].cancel():
            self._reading.cancel()
        if ahead is not None:
            wait([ahead[1]])

    def resume(self) -> Self:
        """Allow reading again after `stop`."""
        self._check_open()
        self._stopped = False
        return self

    def close(self) -> None:
        """Stop for good, and give back memory and files. Estimates remain."""
        if self._closed:
            return
        self.stop()
        self._closed = True
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._abandoned()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ---- looking ----------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """Whether the latest estimate is exact."""
        return bool(self.history) and self.history[-1].exact

    @property
    def latest(self) -> Estimate:
        """The best estimate so far; the first is made if there is none."""
        return self.history[-1] if self.history else self._advance(ahead=False)

    @property
    def table(self) -> Any:
        """The latest estimate as a pandas DataFrame."""
        return self.latest.table

    def score(self) -> ScoreCard:
        """Which of the intervals that were shown hold the exact answer."""
        if not self.complete:
            raise WatersmeetError(
                "Intervals can be scored once the exact answer is known.",
                remedy="Call exact() first.",
            )
        return ScoreCard.of(self.history)

    def outlook(self, relative_error: float | str = 0.01) -> Outlook:
        """How long it takes until every interval is so narrow, and to the exact answer.

        The first estimate is made if there is none.
        """
        wanted = share(relative_error, "relative_error")
        if wanted is None:
            raise InvalidArgument(
                "relative_error=None is no part of a whole.", remedy='Give for example "1%".'
            )
        groups = max(self.latest.cells.value.shape[1], 1)
        statements = groups * len(self.latest.names) if self._settings.simultaneous else 1
        looks = self._reading.looks.most if self._settings.every_look else 1
        return outlook(
            self.history,
            [] if self.complete else self._reading.forecasts(),
            relative_error=wanted,
            confidence=1 - (1 - self._settings.confidence) / (statements * looks),
            share_at=self._reading.looks.share_at,
            bytes_at=self._reading.bytes_at,
        )

    def explain(self) -> str:
        """In words: the question, how it is read and why, and the forecast once there is one."""
        return self._reading.explain(
            self.history[-1] if self.history else None,
            self.outlook() if self.history else None,
            self._crowded,
        )

    def plot(self, path: str | Path | None = None, *, groups: int = 6) -> Any:
        """Draw how the intervals shrank: a matplotlib figure, also written to `path` if given."""
        from watersmeet.aggregates.view.plot import plot

        return plot(self.history or [self.latest], path=path, groups=groups)

    # ---- working ----------------------------------------------------------------------------

    def _next_look(self) -> Look:
        return self._ahead[0] if self._ahead is not None else self._reading.looks.next()

    def _look_ahead(self) -> None:
        # Setting extremes apart changes what the next look reads, and comes first.
        if self._ahead is None and not self._stopped and self._reading.extremes() is None:
            look = self._reading.looks.next()
            self._ahead = look, self._thread.submit(self._reading.read, look)

    @contextmanager
    def _ended_by_stop(self) -> Iterator[None]:
        """If reading was stopped meanwhile, an error is no more than its end."""
        try:
            yield
        except Exception:
            if not self._stopped:
                raise

    def _advance(self, *, ahead: bool, rest: bool = False) -> Estimate:
        """Make the next estimate; `rest` takes all that is left."""
        self._check_open()
        try:
            look, found = self._found(rest=rest)
        except SideTooLarge as error:
            self._read_instead(error)
            look, found = self._found(rest=rest)
        except TooManyGroups as error:
            look, found = self._all_that_is_left(error)
        try:
            self._reading.take_in(look, found)
        except TooManyGroups as error:
            look, found = self._all_that_is_left(error)
            self._reading.take_in(look, found)
        del found
        estimate = self._reading.estimate(look, self.history)
        self.history.append(estimate)
        if ahead and not estimate.exact:
            self._look_ahead()
        return estimate

    def _found(self, *, rest: bool) -> tuple[Look, Found]:
        waiting, self._ahead = self._ahead, None
        if waiting is not None:
            return waiting[0], waiting[1].result()
        look = self._reading.looks.rest() if rest else self._reading.looks.next()
        if not look.last and (extremes := self._reading.extremes()) is not None:
            self._reading.set_apart(extremes)
        return look, self._reading.read(look)

    def _all_that_is_left(self, error: TooManyGroups) -> tuple[Look, Found]:
        """Intervals of so many groups do not fit in memory; their totals alone may."""
        look = self._reading.looks.rest()
        if self._crowded:
            raise error
        self._crowded = f"{error.cause} Their intervals do not fit, only their totals."
        return look, self._reading.read(look)

    def _read_instead(self, error: SideTooLarge) -> None:
        """Begin anew in a way that keeps no side in memory, if there is one."""
        if self.history or self._instead is None:
            raise error
        self._reading.close()
        reading = self._instead()
        if reading is None:
            raise error
        self._reading = reading
        self._abandoned.detach()
        self._abandoned = weakref.finalize(self, reading.close)

    def _check_finished(self) -> None:
        """An iteration that ends because the run was closed must not look like one that is over."""
        if not self.complete:
            self._check_open()

    def _check_open(self) -> None:
        if self._closed:
            raise RunClosed(
                "This run was closed before its answer was exact.",
                remedy="Call aggregate again; the estimates in `history` remain usable.",
            )

    def __repr__(self) -> str:
        known = repr(self.history[-1]) if self.history else "nothing read yet"
        return f"<{type(self).__name__}: {known}{'; closed' if self._closed else ''}>"
