"""How the rows of many tables are divided among instances, in words."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.spark.tables.plan import Plan

# With more copies of a row than this, `explain` says what else could be done.
_MANY_COPIES = 3.0


def cube(plan: Plan, rows: Sequence[int]) -> str:
    """The share of each group of equal columns, and how many rows instances get."""
    assert plan.cube is not None
    if not plan.dimensions:
        return "no columns must be equal, so that all rows go to one instance"
    shares = [
        f"{dimension} by {share}"
        for dimension, share in zip(plan.dimensions, plan.cube.shares, strict=True)
        if share > 1
    ]
    sent, total = plan.cube.sent(rows, plan.dimensions), max(sum(rows), 1)
    copied = [
        f"{name} rows to {copies} instances each"
        for input, name in zip(plan.inputs, plan.names, strict=True)
        if (copies := plan.cube.copies(input, plan.dimensions)) > 1
    ]
    words = f"divided by {' and '.join(shares)}" if shares else "not divided"
    words += f"; {', '.join(copied) if copied else 'every row to one instance'}; "
    words += f"{sent / total:.2f} rows sent for each row read, about "
    words += f"{sent // plan.cube.instances:,} rows an instance"
    if sent > _MANY_COPIES * total:
        words += (
            ". That is much: with fewer instances or more memory rows are copied less often, and "
            "if some of the tables are joined first, not at all"
        )
    return words
