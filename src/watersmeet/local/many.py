"""`wm.local.join_many`: a join of several inputs in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from watersmeet.expressions.condition import SqlCondition
from watersmeet.local.run import LocalJoin, opened
from watersmeet.operators.many import ManyQuestion, relations_of
from watersmeet.rows.bands import Band
from watersmeet.rows.condition import ConditionLike

OnMany = str | tuple[str, str] | Band | Sequence[str | tuple[str, str] | Band]


def join_many(
    relations: Mapping[str, Any] | Sequence[tuple[str, Any]],
    on: OnMany,
    *,
    algorithm: str = "auto",
    memory: int | str = "256MB",
    wait_threshold: float = 0.025,
    spill_dir: str | Path | None = None,
    condition: ConditionLike | str | None = None,
    threads: int | None = None,
) -> LocalJoin:
    """Join up to eight inputs at once, while they are still arriving.

    A row of the result comes as soon as the last of its rows has come. No intermediate result is
    stored. What does not fit in `memory` is spilled and joined while the inputs stall, or at the
    end. The result is exact.

    Parameters
    ----------
    relations
        A dict of names and inputs, each as in `wm.local.join`.
    on
        Which rows belong together: ("orders.id", "items.order") or "orders.id = items.order" for
        columns that must be equal, wm.within(("a.time", "b.time"), "5 seconds") or wm.band for
        values that must be close, or a list of these. The relations must form a tree. "symbol"
        alone is a column that all relations have.
    algorithm
        auto, which is miner; miner-plain, its nested loop as published; mjoin, for joins on one
        column by equality.
    memory, wait_threshold, spill_dir, condition
        As in `wm.local.join`.
    threads
        How many threads join, all within `memory`; one if None, and fewer with less than 24 MB for
        each. Rows are divided by a column that must be equal in as many relations as possible. Rows
        of a relation that has no such column go to several threads, and each keeps them.

    Columns of one name that must be equal are one column of the result. Any other name that several
    relations have is followed by an underscore and the name of the relation.

    Examples
    --------
    >>> import pyarrow as pa
    >>> orders = pa.table({"id": [1, 2], "who": ["Ann", "Bo"]})
    >>> items = pa.table({"order": [1, 1, 2], "part": [7, 8, 7]})
    >>> parts = pa.table({"part": [7, 8], "price": [2.5, 1.0]})
    >>> relations = {"orders": orders, "items": items, "parts": parts}
    >>> joined = join_many(relations, ["orders.id = items.order", "items.part = parts.part"])
    >>> sorted(joined.read_all().select(["who", "price"]).to_pylist(), key=str)
    [{'who': 'Ann', 'price': 1.0}, {'who': 'Ann', 'price': 2.5}, {'who': 'Bo', 'price': 2.5}]
    """
    names, inputs = relations_of(relations)
    question = ManyQuestion.parse(
        names,
        on,
        algorithm=algorithm,
        condition=SqlCondition(condition) if isinstance(condition, str) else condition,
    )
    return opened(
        question,
        dict(zip(question.names, inputs, strict=True)),
        memory=memory,
        wait_threshold=wait_threshold,
        spill_dir=spill_dir,
        threads=threads,
    )
