"""After the exact answer: did the intervals that were shown hold it?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from watersmeet.aggregates.answer.estimate import Estimate

# Of thousands of intervals one in twenty is outside, and nobody reads them all.
_NAMED = 10


@dataclass(frozen=True)
class Missed:
    """An interval that did not hold the exact value."""

    look: int
    aggregate: str
    group: tuple[Any, ...]


@dataclass(frozen=True)
class ScoreCard:
    """Intervals that were shown as trusted, and those of them that held the exact value."""

    shown: int
    held: int
    missed: tuple[Missed, ...]
    confidence: float

    @classmethod
    def of(cls, history: Sequence[Estimate]) -> ScoreCard:
        """The last is exact."""
        *earlier, exact = history
        shown, missed = 0, []
        for estimate in earlier:
            for name, group, held in estimate.contains(exact):
                shown += 1
                if not held:
                    missed.append(Missed(estimate.progress.look, name, group))
        return cls(shown, shown - len(missed), tuple(missed), exact.confidence)

    @property
    def share(self) -> float:
        return self.held / self.shown if self.shown else 1.0

    def __str__(self) -> str:
        if not self.shown:
            return "No interval was shown as trusted before the exact answer."
        lines = [
            f"{self.held:,} of {self.shown:,} trusted intervals held the exact value "
            f"({self.share:.1%}, where {self.confidence:.1%} was promised)."
        ]
        for missed in self.missed[:_NAMED]:
            group = ", ".join(map(str, missed.group))
            where = f" of {group}" if group else ""
            lines.append(f"  look {missed.look}: {missed.aggregate}{where} was outside")
        if len(self.missed) > _NAMED:
            lines.append(f"  and {len(self.missed) - _NAMED:,} more, in `missed`")
        return "\n".join(lines)
