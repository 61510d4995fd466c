"""How a join without equal keys divides its rows, in words."""

from __future__ import annotations

from collections import Counter

from watersmeet.spark.routing import owner_of
from watersmeet.spark.tables.balance import Division
from watersmeet.spark.tables.plan import Plan
from watersmeet.spark.tables.ranging import MOST_REPLICATION
from watersmeet.words import count_text

_RANGES_SHOWN = 6


def ranges(plan: Plan, division: Division) -> str:
    """Which values each instance has, and how they were chosen."""
    assert plan.placing is not None
    owner = division.ranges.owner
    column = plan.schemas[owner].names[plan.placing.columns(owner)[0]]
    if division.ranges.instances == 1:
        return f"one, of all values of {column}{_only_one(plan)}"
    # Instances that have the same first value divide its rows.
    starts = list(Counter(division.ranges.starts).items())
    shown = [_range(plan, starts, number) for number in range(len(starts))][:_RANGES_SHOWN]
    more = f", and {len(starts) - len(shown)} more" if len(starts) > len(shown) else ""
    left, right = division.sources
    known = left if left == right else f"{left} (left), {right} (right)"
    return (
        f"of the {owner.name.lower()} table's {column}: {', '.join(shown)}{more}; chosen by "
        f"{known}, so that instances have about as much to do"
    )


def _range(plan: Plan, starts: list[tuple[int, int]], number: int) -> str:
    assert plan.placing is not None
    code, instances = starts[number]
    divided = f" (divided among {instances} instances)" if instances > 1 else ""
    if number == 0:
        if len(starts) == 1:
            return f"all{divided}"
        return f"below {plan.placing.text(starts[1][0])}{divided}"
    return f"from {plan.placing.text(code)}{divided}"


def _only_one(plan: Plan) -> str:
    if owner_of(plan.join.how) is not None:
        return ""
    return (
        ": in a full join no row may be copied, because rows without a partner are told where they "
        "are; a left join, and an anti join of the right with the left table, have more instances"
    )


def sent(division: Division) -> str:
    """How many rows are sent to instances, and to how many of them."""
    owner = division.ranges.owner
    words = (
        f"about {division.sent:,} rows for {division.read:,} ({division.replication:.2f} times): a "
        f"row of the {owner.name.lower()} table to one instance, one of the "
        f"{owner.other.name.lower()} table to each in whose range it can have a partner; at most "
        f"about {max(division.rows):,} rows an instance"
    )
    if division.reduced is not None:
        words += (
            f"; {count_text(division.reduced, 'instance')} would be sent more than "
            f"{MOST_REPLICATION:.0f} times the rows, because the band is wide"
        )
    elif division.replication > MOST_REPLICATION:
        words += (
            f"; that is more than {MOST_REPLICATION:.0f} times the rows: leave instances= out, and "
            "there are fewer"
        )
    return words
