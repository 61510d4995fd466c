"""Looks at a master table again while its query runs, in a thread of the driver."""

from __future__ import annotations

import threading

from pyspark.sql import SparkSession

from watersmeet.errors import (
    InputChanged,
    SchemaError,
    StateError,
    Unreachable,
    WatersmeetError,
)
from watersmeet.spark.computing import words
from watersmeet.spark.enrich.keeper import MasterKeeper
from watersmeet.spark.enrich.laying import Effort

# A table that cannot be read is tried again so often, after pauses that double. The stream goes on
# with the version before.
_TRIES = 6
_FIRST_PAUSE_S = 0.5

_lock = threading.Lock()
_running: dict[str, Refresher] = {}
"""By the place of the state: a query that is defined anew has one thread all the same."""


def refresh_later(
    keeper: MasterKeeper, spark: SparkSession, *, seconds: float, effort: Effort
) -> None:
    """Have a master table looked at every so many seconds, as long as its query is active."""
    place = keeper.plan.state.uri
    with _lock:
        before = _running.get(place)
        if before is not None:
            before.stop()
        _running[place] = Refresher(keeper, spark, seconds=seconds, effort=effort)
        _running[place].start()


def refresh_no_more(place: str) -> None:
    """End the thread of a state, if there is one."""
    with _lock:
        before = _running.pop(place, None)
        if before is not None:
            before.stop()


class Refresher(threading.Thread):
    """Lays new versions down. It ends with the session; an error ends the query."""

    def __init__(
        self, keeper: MasterKeeper, spark: SparkSession, *, seconds: float, effort: Effort
    ) -> None:
        super().__init__(name="watersmeet-master", daemon=True)
        self._keeper = keeper
        self._spark = spark
        self._seconds = seconds
        self._effort = effort
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()

    def run(self) -> None:
        while not self._stopped.wait(self._seconds) and self._has_session():
            try:
                self._look_patiently()
            except WatersmeetError as error:
                if not self._stopped.is_set() and self._has_session():
                    self._keeper.masters.fail(error)
                return

    def _look_patiently(self) -> None:
        """Look at the table if the query is active. Whatever goes wrong may be over soon: a path
        without files, a server that is away; but not other columns."""
        pause = _FIRST_PAUSE_S
        for tried in range(1, _TRIES + 1):
            try:
                if self._is_active():
                    self._keeper.look_again(self._effort)
                return
            except SchemaError:
                raise
            except Exception as error:
                if tried == _TRIES:
                    raise _given_up(error) from error
                if self._stopped.wait(pause) or not self._has_session():
                    return
                pause *= 2

    def _is_active(self) -> bool:
        owner = self._keeper.plan.state.owner()
        return owner is not None and any(
            str(query.id) == owner for query in self._spark.streams.active
        )

    def _has_session(self) -> bool:
        context = self._spark.sparkContext
        return context._jsc is not None and not context._jsc.sc().isStopped()


def _given_up(error: Exception) -> WatersmeetError:
    if isinstance(error, InputChanged | StateError):
        return error
    cause = error.cause if isinstance(error, WatersmeetError) else words(error)
    return Unreachable(
        f"The master table could not be read again, {_TRIES} times: {cause}",
        remedy="All rows that had come were answered from the version before. Start the query "
        "again when the table can be read.",
    )
