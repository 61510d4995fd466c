"""What makes one algorithm of the family different from another."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.policies.flush import FlushPolicy
from watersmeet.policies.react import ReactPolicy


@dataclass(frozen=True)
class ProgressiveAlgorithm:
    """A row of settings for the progressive mechanism.

    flush: None never gives up memory. react: None does nothing while inputs stall.
    flush_share: overrides the tuning where the algorithm leaves no choice. joins_on_arrival:
    False joins memory with memory only when it is flushed. whole_stage: a reactive stage covers
    every partition before it ends.
    """

    name: str
    flush: FlushPolicy | None
    react: ReactPolicy | None
    flush_share: float | None = None
    joins_on_arrival: bool = True
    whole_stage: bool = False

    @property
    def spills(self) -> bool:
        return self.flush is not None

    @property
    def reacts(self) -> bool:
        return self.react is not None
