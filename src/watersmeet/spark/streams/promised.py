"""What the tasks of a join of streams know of its promises."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from watersmeet.promises.kinds import PromiseOfValues, Punctuated
from watersmeet.rows.on import name_of


@dataclass(frozen=True)
class Promised:
    """What was promised, and what follows for rows that break it. Sent with every task, so it holds
    values only."""

    promises: tuple[PromiseOfValues, ...]
    on_broken: str = "fail"
    """fail, drop or quarantine."""
    purge: str | int = "memory"
    """memory, output_rate, or after how many promises rows in memory are looked through."""
    punctuations: str | None = None
    """The column that says which rows of the result are marker rows; None for no such rows."""

    @property
    def markers(self) -> tuple[int, ...]:
        """Of each promise that has marker rows, the input that they come with."""
        return tuple(int(each.side) for each in self.promises if isinstance(each, Punctuated))

    def parameters(self) -> dict[str, Any]:
        """What may not change while the query goes on. What becomes of broken rows may: a query
        that has failed can go on without them. So may `purge`: what has gone is saved."""
        words = [f"{name_of(each.side)}: {each!r}" for each in self.promises]
        return {"promises": words, "punctuations": self.punctuations}
