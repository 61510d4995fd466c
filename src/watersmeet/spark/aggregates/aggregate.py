"""`wm.aggregate`: everything that can be wrong with an aggregate, found at the call."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from watersmeet.aggregates.allowance import Allowance
from watersmeet.aggregates.answer.estimate import Estimate
from watersmeet.aggregates.ask.question import AggregateQuestion, ResolvedQuestion
from watersmeet.aggregates.ask.settings import Settings
from watersmeet.aggregates.ask.specification import Aggregate
from watersmeet.aggregates.block_reading import Readings, in_parts
from watersmeet.aggregates.partials.gathering import key_sum_bytes
from watersmeet.aggregates.reading import Reading
from watersmeet.aggregates.run import AggregateRun
from watersmeet.aggregates.sampling.designs import largest_need
from watersmeet.aggregates.sampling.plan import ReadPlan, Table
from watersmeet.aggregates.sampling.planner import plan_reads
from watersmeet.errors import InvalidArgument
from watersmeet.model import Side, parse_seed
from watersmeet.rows.on import On
from watersmeet.spark.aggregates.blocks import PartitionBlocks, PlainBlocks
from watersmeet.spark.aggregates.char import check_char_columns
from watersmeet.spark.aggregates.engine import Blocks, ClusterEngine, Given, RippleEngine
from watersmeet.spark.cluster import TaskSlots
from watersmeet.spark.frames import check_dataframe
from watersmeet.spark.keys import compared, named_keys
from watersmeet.spark.scans.relation import PlainScan, arrow_schema, open_relation
from watersmeet.spark.sql import quoted
from watersmeet.spark.storage import RunStorage, check_storage


def aggregate(
    left: DataFrame,
    right: DataFrame,
    on: On | Column | Sequence[Column],
    how: str = "inner",
    *,
    group_by: str | Sequence[str] | None = None,
    where: str | None = None,
    confidence: float = 0.95,
    simultaneous: bool = False,
    every_look: bool = False,
    heavy_tails: str = "flag",
    memory: int | str = "1GB",
    storage: str | Path | None = None,
    seed: int = 0,
    **aggregates: Aggregate,
) -> SparkAggregate:
    """Aggregate the join of two DataFrames: estimates with intervals at once, exact in the end.

    Nothing is read before the first estimate is asked for.

    Parameters
    ----------
    left, right
        DataFrames of the same session, not streaming. One over plain Parquet files, or a union of
        such, is read a row group at a time, one over CSV files a range of bytes; of any other,
        Spark computes some partitions at a time.
    on, how
        As for `wm.join`. A left join is estimated from its left side, a right join from its right;
        semi and anti joins from their left. A full join is refused.
    group_by
        A column, or a list of columns, of either side.
    where
        A condition in SQL over columns of both sides, beside the filters of the DataFrames.
    confidence
        How often an interval is to hold the exact value.
    simultaneous, every_look
        Whether that is to be so of all cells of a look together, and of all looks together.
    heavy_tails
        What becomes of values so extreme that a sample misses them: "flag" says that an interval
        is not to be trusted, "take-all" reads the sampled side once more for all such rows.
    memory
        The most that the aggregate may hold on one machine, over all tasks: the side that is
        kept, rows that are being read, groups.
    storage
        A directory that all executors reach, for rows of a side that is no plain scan, or that
        is kept and calls functions; on one machine the system's temporary directory by default.
    seed
        Of the random order in which blocks are read.
    aggregates
        The columns of the answer, such as revenue=wm.sum("price * (1 - discount)"), n=wm.count().
    """
    for side, dataframe in (("left", left), ("right", right)):
        check_dataframe(dataframe, side)
    question = AggregateQuestion.parse(
        on, how, group_by=group_by, where=where, aggregates=aggregates
    )
    settings = Settings.parse(
        confidence, simultaneous=simultaneous, every_look=every_look, heavy_tails=heavy_tails
    )
    seed = parse_seed(seed)
    spark = left.sparkSession
    allowance = Allowance.parse(memory, workers=TaskSlots.of(spark).tasks_a_machine)
    check_storage(storage, spark)
    schemas = (arrow_schema(left, argument="left"), arrow_schema(right, argument="right"))
    keys, _, others = named_keys((left, right), on)
    if others:
        raise InvalidArgument(
            f"on={on} has parts that are no equality of two columns.",
            remedy="Give them as where=, in SQL.",
        )
    schemas = compared((left, right), keys, schemas)
    resolved = replace(question, on=keys).resolve(schemas)
    check_char_columns((left, right), resolved)
    # Columns that nobody asked for are not read.
    frames = (
        left.select(*map(quoted, resolved.names(Side.LEFT))),
        right.select(*map(quoted, resolved.names(Side.RIGHT))),
    )
    sources = (_blocks(frames[0], "left"), _blocks(frames[1], "right"))
    tables = (
        _table(sources[0], resolved, Side.LEFT),
        _table(sources[1], resolved, Side.RIGHT),
    )
    known: dict[str, Any] = {
        "seed": seed,
        "alike": resolved.ordered_alike,
        "expressions": resolved.aggregates.expressions,
        "filters": resolved.sides,
    }
    engines = _Engines(spark, resolved, sources, tables, allowance, storage)
    readings = Readings(resolved, tables, engines, settings, allowance)

    def planned(memory: int) -> ReadPlan:
        plan = plan_reads(tables, resolved.how, memory=memory, **known)
        if largest_need(tables, plan) > memory:
            # The rows that one block needs would not fit.
            plan = plan_reads(tables, resolved.how, memory=memory, **{**known, "alike": False})
        return plan

    return SparkAggregate(
        readings.of(planned(allowance.share().entries)),
        settings=settings,
        # A side that turns out larger than was promised is read in parts.
        instead=lambda: in_parts(readings, planned, resolved.how),
        frames=(left, right),
    )


@dataclass(frozen=True)
class _Engines:
    """Makes the engine for a plan."""

    spark: SparkSession
    question: ResolvedQuestion
    sources: tuple[Blocks, Blocks]
    tables: tuple[Table, Table]
    allowance: Allowance
    storage: str | Path | None

    def one_side(self, plan: ReadPlan) -> ClusterEngine:
        return ClusterEngine(self._given(), plan)

    def both_sides(self, plan: ReadPlan) -> RippleEngine:
        return RippleEngine(self._given(), plan)

    def _given(self) -> Given:
        query = uuid.uuid4().hex[:8]
        return Given(
            self.spark,
            query,
            self.question,
            self.sources,
            self.tables,
            self.allowance,
            storage=lambda: RunStorage.claim(self.storage, self.spark, query),
        )


class SparkAggregate(AggregateRun):
    """An aggregate over the join of two DataFrames."""

    def __init__(
        self,
        reading: Reading,
        *,
        settings: Settings,
        instead: Callable[[], Reading | None],
        frames: tuple[DataFrame, DataFrame],
    ) -> None:
        super().__init__(reading, settings=settings, instead=instead)
        self._spark = frames[0].sparkSession
        # Arrow has one type where Spark has several, such as its intervals of days or seconds.
        self._group_types = [
            frames[group.side].schema[group.column].dataType
            for group in reading.question.aggregates.groups
        ]

    def to_df(self, estimate: Estimate | None = None) -> DataFrame:
        """An estimate, by default the latest, as a DataFrame with a row for each group.

        Once exact its columns are those that Spark's own aggregate would have; before, each
        aggregate has the ends of its interval beside it.
        """
        if estimate is not None and not isinstance(estimate, Estimate):
            raise InvalidArgument(
                f"{estimate!r} is no estimate.",
                remedy="Give one of run.history, or nothing for the latest.",
            )
        answer = (self.latest if estimate is None else estimate).answer
        schema = from_arrow_schema(answer.schema)
        fields = [
            StructField(field.name, kind)
            for field, kind in zip(schema, self._group_types, strict=False)
        ]
        # From Arrow as it is: on a way through pandas NaN and null would become one.
        return self._spark.createDataFrame(
            answer, StructType([*fields, *schema.fields[len(fields) :]])
        )


def _blocks(dataframe: DataFrame, argument: str) -> Blocks:
    relation = open_relation(dataframe, argument=argument)
    if isinstance(relation, PlainScan):
        return PlainBlocks.of(relation)
    return PartitionBlocks.of(relation)


def _table(source: Blocks, question: ResolvedQuestion, side: Side) -> Table:
    held = key_sum_bytes(question, side)
    if isinstance(source, PlainBlocks):
        return Table(
            source.describe(question.keys[0][side]),
            held,
            facts=source.facts(question.names(side)),
        )
    return Table(source.describe(), held, counted=False)
