"""Where a run keeps files that its tasks hand to one another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from watersmeet.errors import InvalidArgument
from watersmeet.spark.tables.plan import is_local
from watersmeet.store.claim import SpillClaim
from watersmeet.store.storage import Storage


@dataclass(frozen=True)
class Room:
    """The storage of a run, and how to give it back."""

    storage: Storage
    release: Callable[[], None]

    @classmethod
    def claim(cls, given: str | Path | None, spark: SparkSession, query: str) -> Room:
        """A directory of its own below the one that was given, or below the system's."""
        if given is None and not is_local(spark):
            raise InvalidArgument(
                f"storage is needed on {spark.sparkContext.master}: tasks on different machines "
                "hand rows to one another through it.",
                remedy="Give a directory that the driver and all executors reach.",
            )
        if given is None or "://" not in str(given):
            claim = SpillClaim(given)
            return cls(Storage(claim.area.path.as_uri()), claim.close)
        storage = Storage(f"{str(given).rstrip('/')}/watersmeet-run-{query}")
        storage.create()
        return cls(storage, storage.remove)
