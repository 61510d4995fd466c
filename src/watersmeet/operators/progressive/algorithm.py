"""What makes one algorithm of the family different from another."""

from __future__ import annotations

from dataclasses import dataclass

from watersmeet.policies import flush, react
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
    words: str
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


_HMJ = "the hash-merge join: spills partitions of both sides together, merges them in stalls"
_RPJ = (
    "the rate-based progressive join: spills what arriving rows are least likely to meet, and does "
    "in stalls what promises most results per second"
)

PROGRESSIVE = {
    algorithm.name: algorithm
    for algorithm in (
        ProgressiveAlgorithm(
            "shj",
            "the symmetric hash join: both inputs stay in memory and must fit",
            flush=None,
            react=None,
        ),
        ProgressiveAlgorithm(
            "xjoin",
            "XJoin: spills the largest partition, joins memory with disk in stalls",
            flush=flush.largest,
            react=react.largest_resident,
        ),
        ProgressiveAlgorithm("hmj", _HMJ, flush.adaptive, react.every_partition, whole_stage=True),
        ProgressiveAlgorithm(
            "hmj-all",
            _HMJ,
            flush.everything,
            react.every_partition,
            flush_share=1.0,
            whole_stage=True,
        ),
        ProgressiveAlgorithm(
            "hmj-smallest", _HMJ, flush.smallest_pair, react.every_partition, whole_stage=True
        ),
        ProgressiveAlgorithm(
            "hmj-largest", _HMJ, flush.largest_pair, react.every_partition, whole_stage=True
        ),
        ProgressiveAlgorithm(
            "pmj",
            "the progressive merge join: spills all of a full memory, merges at the end",
            flush.everything,
            None,
            flush_share=1.0,
            joins_on_arrival=False,
        ),
        ProgressiveAlgorithm("rpj", _RPJ, flush=flush.optimal, react=react.best_rate),
        ProgressiveAlgorithm("rpj-md", _RPJ, flush=flush.optimal, react=react.best_md),
        ProgressiveAlgorithm("rpj-dd", _RPJ, flush=flush.optimal, react=react.best_dd),
    )
}
