"""An aggregate over a join in this process: blocks are read by a few threads, without a JVM."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from watersmeet.aggregates.allowance import Allowance
from watersmeet.aggregates.ask.question import AggregateQuestion, ResolvedQuestion
from watersmeet.aggregates.ask.settings import Settings
from watersmeet.aggregates.ask.specification import Aggregate
from watersmeet.aggregates.block_reading import Readings, in_parts
from watersmeet.aggregates.partials.gathering import key_sum_bytes
from watersmeet.aggregates.run import AggregateRun
from watersmeet.aggregates.sampling.designs import largest_need
from watersmeet.aggregates.sampling.plan import ReadPlan, Table
from watersmeet.aggregates.sampling.planner import plan_reads
from watersmeet.errors import InvalidArgument
from watersmeet.local.blocks import BlockTable, MemoryTable, open_table
from watersmeet.local.engine import RippleEngine, Tables, ThreadEngine
from watersmeet.local.forward import Forward, opened
from watersmeet.local.frames import frame_rows
from watersmeet.local.sources import open_source
from watersmeet.local.streaming import StreamReading
from watersmeet.model import JoinType, Side, parse_seed
from watersmeet.rows.on import On
from watersmeet.store.claim import SpillClaim

Input = BlockTable | Forward


def aggregate(
    left: Any,
    right: Any,
    on: On,
    how: str = "inner",
    *,
    group_by: str | Sequence[str] | None = None,
    where: str | None = None,
    confidence: float = 0.95,
    simultaneous: bool = False,
    every_look: bool = False,
    heavy_tails: str = "flag",
    memory: int | str = "1GB",
    spill_dir: str | Path | None = None,
    seed: int = 0,
    expected_rows: tuple[int | None, int | None] = (None, None),
    **aggregates: Aggregate,
) -> AggregateRun:
    """Aggregate a join: estimates with intervals at once, exact in the end.

    Parameters
    ----------
    left, right
        What `local.join` takes. Parquet files are read a row group at a time, in random order;
        anything else is read into memory first. What does not fit there is joined as it comes, and
        intervals then hold if its rows are in random order.
    on, how
        As for `local.join`. A left join is estimated from its left side, a right join from its
        right; semi and anti joins from their left. A full join is refused.
    group_by
        A column, or a list of columns, of either side.
    where
        A condition in SQL over columns of both sides.
    confidence
        How often an interval is to hold the exact value.
    simultaneous, every_look
        Whether that is to be so of all cells of a look together, and of all looks together.
    heavy_tails
        What becomes of values so extreme that a sample misses them: "flag" says that an interval
        is not to be trusted, "take-all" reads the sampled side once more for all such rows.
    memory
        The most that the aggregate may hold, at least 1MB: the side that is kept, rows that are
        being read, groups. If neither side fits and they are not clustered on
        the key, both are read in a growing rectangle.
    spill_dir
        An existing directory for rows of such a rectangle; the system's temporary one by default.
    seed
        Of the random order in which blocks are read.
    expected_rows
        How many rows left and right have, as far as you know. Only for inputs that are joined as
        they come: without it, COUNT and SUM of those have no estimate before the end.
    aggregates
        The columns of the answer, such as revenue=wm.sum("price * (1 - discount)"), n=wm.count().

    Examples
    --------
    >>> import pyarrow as pa
    >>> import watersmeet as wm
    >>> orders = pa.table({"id": range(1000), "kind": ["a", "b"] * 500})
    >>> items = pa.table({"id": [n % 1000 for n in range(9000)], "price": [2.5] * 9000})
    >>> run = aggregate(orders, items, on="id", group_by="kind", revenue=wm.sum("price"))
    >>> run.exact().answer.to_pylist()
    [{'kind': 'a', 'revenue': 11250.0}, {'kind': 'b', 'revenue': 11250.0}]
    """
    question = AggregateQuestion.parse(
        on, how, group_by=group_by, where=where, aggregates=aggregates
    )
    settings = Settings.parse(
        confidence, simultaneous=simultaneous, every_look=every_look, heavy_tails=heavy_tails
    )
    allowance = Allowance.parse(memory, workers=max(os.cpu_count() or 1, 1))
    seed = parse_seed(seed)
    if spill_dir is not None:
        # Whether it is needed may turn out late; that it cannot be used is said now.
        SpillClaim(spill_dir).close()
    inputs = _open((left, right), allowance)
    resolved = question.resolve((inputs[0].schema, inputs[1].schema))
    if isinstance(inputs[0], Forward) or isinstance(inputs[1], Forward):
        return _stream(
            inputs,
            resolved,
            settings=settings,
            allowance=allowance,
            spill_dir=spill_dir,
            expected_rows=expected_rows,
            seed=seed,
        )
    tables = (inputs[0], inputs[1])
    # What is kept of the inputs themselves is not there for anything else.
    held = sum(each.nbytes for each in tables if isinstance(each, MemoryTable) and each.ours)
    allowance = replace(allowance, limit=allowance.limit - held)
    described = _describe(tables, resolved)
    known: dict[str, Any] = {
        "seed": seed,
        "alike": resolved.ordered_alike,
        "expressions": resolved.aggregates.expressions,
        "filters": resolved.sides,
    }

    readings = Readings(
        resolved,
        described,
        _Engines(tables, resolved, described, allowance, spill_dir),
        settings,
        allowance,
    )

    def planned(memory: int) -> ReadPlan:
        plan = plan_reads(described, resolved.how, memory=memory, **known)
        if largest_need(described, plan) > memory // allowance.workers:
            # The rows that one block needs would not fit.
            plan = plan_reads(described, resolved.how, memory=memory, **{**known, "alike": False})
        return plan

    return AggregateRun(
        readings.of(planned(allowance.entries)),
        settings=settings,
        # A side that turns out larger than its files promised is read in parts.
        instead=lambda: in_parts(readings, planned, resolved.how),
    )


def _open(sources: tuple[Any, Any], allowance: Allowance) -> tuple[Input, Input]:
    """What is read into memory to be kept there may take half of it, both sides together."""
    found: list[Input] = []
    memory = allowance.limit // 2
    for side, source in zip(Side, sources, strict=True):
        table: Input | None = open_table(source, side=side)
        if table is None:
            nbytes = allowance.batch_bytes
            opening = open_source(source, word=side.name.lower(), batch_bytes=nbytes)
            known = frame_rows(source)
            table = opened(opening, memory=memory, batch_bytes=nbytes, rows=known)
            memory = memory - table.nbytes if isinstance(table, MemoryTable) else 0
        found.append(table)
    return found[0], found[1]


def _stream(
    inputs: tuple[Input, Input],
    question: ResolvedQuestion,
    *,
    settings: Settings,
    allowance: Allowance,
    spill_dir: str | Path | None,
    expected_rows: tuple[int | None, int | None],
    seed: int,
) -> AggregateRun:
    if question.how is not JoinType.INNER:
        late = next(each for each in inputs if isinstance(each, Forward))
        raise InvalidArgument(
            f"{late.name} can only be read from its beginning, and does not fit in memory "
            f"({allowance.limit:,} bytes); a {question.how} join is estimated while one side is "
            "complete.",
            remedy="Write it as Parquet, whose parts can be read in any order, or give more "
            "memory.",
        )
    rows = list(_parse_rows(expected_rows))
    sources = []
    for side, each in zip(Side, inputs, strict=True):
        if not isinstance(each, Forward):
            names = question.names(side)
            counted = sum(block.rows for block in each.blocks(question.keys[0][side], names))
            rows[side] = counted
            each = Forward.over(each, names, seed=seed + side, batch_bytes=allowance.batch_bytes)
        elif each.rows is not None:
            rows[side] = each.rows
        sources.append(each)
    reading = StreamReading(
        question,
        (sources[0], sources[1]),
        settings=settings,
        allowance=allowance,
        spill_dir=spill_dir,
        expected_rows=(rows[0], rows[1]),
    )
    return AggregateRun(reading, settings=settings)


def _parse_rows(expected: Any) -> tuple[int | None, int | None]:
    if (
        not isinstance(expected, tuple | list)
        or len(expected) != 2
        or any(isinstance(each, bool) or not isinstance(each, int | None) for each in expected)
        or any(each is not None and each < 0 for each in expected)
    ):
        raise InvalidArgument(
            f"expected_rows={expected!r} is no pair of numbers of rows.",
            remedy="Give the rows of left and right, as in expected_rows=(1_000_000, None).",
        )
    return expected[0], expected[1]


@dataclass(frozen=True)
class _Engines:
    """Makes the engine for a plan."""

    tables: Tables
    question: ResolvedQuestion
    described: tuple[Table, Table]
    allowance: Allowance
    spill_dir: str | Path | None

    def one_side(self, plan: ReadPlan) -> ThreadEngine:
        return ThreadEngine(self.tables, self.question, plan, self.described, self.allowance)

    def both_sides(self, plan: ReadPlan) -> RippleEngine:
        claim = SpillClaim(self.spill_dir)
        return RippleEngine(
            self.tables, self.question, plan, self.described, self.allowance, claim=claim
        )


def _describe(tables: Tables, question: ResolvedQuestion) -> tuple[Table, Table]:
    left, right = (
        Table(
            table.blocks(question.keys[0][side], question.names(side)),
            key_sum_bytes(question, side),
            facts=table.facts(question.names(side)),
        )
        for side, table in zip(Side, tables, strict=True)
    )
    return left, right
