"""How a stream join stands between two batches, as its state tells it on the driver."""

from __future__ import annotations

import time
from dataclasses import dataclass

from watersmeet.spark.microbatches.state import Manifest, StateDirectory

_SECONDS_BETWEEN_LOOKS = 1.0


@dataclass(frozen=True)
class Standing:
    """After the last batch, over all instances."""

    owed: tuple[int, ...] = ()
    """By input, rows that may not have met all that is there of the others; empty before the first
    batch."""
    waits_until: float = 0.0
    """When some instance that owes something will have been without rows for long enough."""
    wakes: float | None = None
    """When some instance has something to do, by the wall clock, whatever is owed."""
    had_rows: bool = False
    """Whether the last batch brought rows."""
    settled: bool = False
    """Whether the last batch was one in which everything owed comes out."""

    @property
    def owes(self) -> bool:
        return any(self.owed)

    @property
    def is_late(self) -> bool:
        """Whether an instance has had something to do for some time."""
        return self.wakes is not None and time.time() >= self.wakes

    @property
    def is_due(self) -> bool:
        """Whether a batch without rows has something to do."""
        return self.is_late or (self.owes and time.time() >= self.waits_until)

    @classmethod
    def of(cls, manifests: list[Manifest], wait_threshold: float) -> Standing:
        owing = [manifest for manifest in manifests if any(manifest["owed"])]
        wakes = [manifest["wakes"] for manifest in manifests if manifest.get("wakes") is not None]
        came = min((manifest["rows_came"] for manifest in owing), default=0.0)
        return cls(
            owed=tuple(map(sum, zip(*(manifest["owed"] for manifest in manifests), strict=True))),
            waits_until=came + wait_threshold,
            wakes=min(wakes, default=None),
            had_rows=any(any(manifest["contents"]["rows"]) for manifest in manifests),
            settled=all(manifest["settled"] for manifest in manifests),
        )


class Watch:
    """Looks at the newest version of every instance. A version never changes, so each is read
    once."""

    def __init__(self, directory: StateDirectory, wait_threshold: float) -> None:
        self._directory = directory
        self._wait_threshold = wait_threshold
        self._read: dict[int, tuple[int, Manifest]] = {}
        self._looked = 0.0
        self._standing = Standing()

    def look(self) -> Standing:
        for number in self._directory.instances():
            instance = self._directory.instance(number)
            versions = instance.versions()
            if versions and self._read.get(number, (-1, None))[0] != versions[-1]:
                manifest = instance.read(versions[-1])
                if manifest is not None:
                    self._read[number] = (versions[-1], manifest)
        manifests = [manifest for _, manifest in self._read.values()]
        # A state of another version of this package is refused by whoever goes on from it.
        known = [manifest for manifest in manifests if "owed" in manifest]
        self._standing, self._looked = Standing.of(known, self._wait_threshold), time.monotonic()
        return self._standing

    def glance(self) -> Standing:
        """The same, as of a second ago."""
        stale = time.monotonic() - self._looked > _SECONDS_BETWEEN_LOOKS
        return self.look() if stale else self._standing
