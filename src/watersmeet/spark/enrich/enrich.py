"""`wm.enrich`: checks a join of a stream with a master table, so that errors are raised by the
call, and lays the table down."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StringType, StructField, StructType

from watersmeet.errors import InvalidArgument, MemoryTooSmall
from watersmeet.model import JoinType, Side, parse_bytes
from watersmeet.operators.enriching import EnrichQuestion
from watersmeet.operators.semistream.workspace import least_memory
from watersmeet.rows.condition import ConditionLike
from watersmeet.rows.on import key_names
from watersmeet.rows.output import Schemas
from watersmeet.rows.spans import parse_seconds
from watersmeet.spark.cluster import TaskSlots
from watersmeet.spark.columns import check_names, plain, result_columns, with_metadata
from watersmeet.spark.enrich.keeper import MasterKeeper
from watersmeet.spark.enrich.laying import Effort
from watersmeet.spark.enrich.masters import MasterRecord
from watersmeet.spark.enrich.plan import EnrichPlan
from watersmeet.spark.enrich.refreshing import refresh_later, refresh_no_more
from watersmeet.spark.enrich.sources import WORD, Look, MasterSource
from watersmeet.spark.enrich.ticks import MasterTicks
from watersmeet.spark.frames import parse_instances
from watersmeet.spark.keys import Frames, OnSpark, column_name
from watersmeet.spark.microbatches.arguments import (
    arrow_schema,
    check_stream,
    memory_each,
    saved_instances,
    spill_dir_of,
)
from watersmeet.spark.microbatches.host import run_batch
from watersmeet.spark.microbatches.places import (
    check_apart_from_checkpoints,
    check_apart_from_sources,
    source_folders,
)
from watersmeet.spark.microbatches.state import StateDirectory
from watersmeet.spark.microbatches.ticks import TickPlan, parse_interval
from watersmeet.spark.microbatches.wire import Wire
from watersmeet.spark.microbatches.wiring import budget_of, hosted
from watersmeet.spark.question import settled
from watersmeet.spark.sql import quoted
from watersmeet.store.shares import MemoryShares

# A new version is laid down with this part of the memory, which the join leaves to it.
_LAYING_SHARE = 8


def enrich(
    stream: DataFrame,
    master: Any,
    on: OnSpark,
    how: str = "inner",
    *,
    state: str | os.PathLike[str],
    memory: int | str = "256MB",
    algorithm: str = "auto",
    refresh: str | float | None = None,
    deadline: str | float | None = None,
    version_column: str | None = None,
    ticks: str | float | None = "1 second",
    instances: int | None = None,
    condition: ConditionLike | Column | str | None = None,
    suffixes: tuple[str, str] = ("", "_right"),
) -> DataFrame:
    """Join a stream with a master table that need not fit in memory; the result is a stream.

    The master is laid down once, by a Spark job, beside the state: divided among the instances, in
    order of the key. Rows of the stream whose master rows are cached are joined in the micro-batch
    in which they come; the others wait for a scan that reads the blocks that somebody waits for. A
    query that is killed goes on from its checkpoint with the same rows as if nothing had happened.

    Parameters
    ----------
    stream
        A streaming DataFrame.
    master
        A DataFrame that does not stream, a function that returns one, or a path that
        spark.read.load can read. Select the columns that you need: all are laid down.
    on, condition, suffixes, instances
        As in `wm.join_streams`, with equal keys only.
    how
        inner, left, semi or anti.
    state
        A directory for the laid down master and for what the join remembers, or a URI that
        `pyarrow.fs` knows; one for each query, reached by all executors, kept as long as the
        query's checkpoint.
    memory
        The most that the operators may hold on one machine, over all instances: waiting rows,
        cached master rows and work.
    algorithm
        auto, which reads those blocks of the master that somebody waits for; ssbj, cmeshjoin and
        meshjoin, which read all of it again and again, as published.
    refresh
        Seconds, or text such as "10 minutes", after which the master is looked at again while the
        query runs: a path is laid down anew if a name, a size or a time of change is another one; a
        function is called. Rows that have come finish with the version before.
    deadline
        How long a row without a partner waits for newer versions; None: not at all.
    version_column
        The name of a further column of the result, which says when the version of the master that
        a row met was laid down.
    ticks
        How often a micro-batch is due although no row has come, as long as rows wait; None for
        never.
    """
    check_stream(stream, "stream", tables="wm.join")
    question = EnrichQuestion.parse(
        on,
        how,
        algorithm=algorithm,
        condition=condition,
        suffixes=suffixes,
        version_column=version_column,
        deadline=deadline,
    )
    every = None if refresh is None else parse_seconds(refresh, name="refresh")
    interval = parse_interval(ticks)
    asked = None if instances is None else parse_instances(instances)
    source = MasterSource.of(master, stream.sparkSession, refreshed=every is not None)
    frames, question, schemas = _settled(stream, source.first(), question)
    columns = _columns(frames, question, schemas)
    directory = StateDirectory.parse(state)
    folders = {"stream": source_folders(stream), WORD: Look.at(frames[Side.RIGHT]).roots}
    check_apart_from_sources(directory, folders)
    check_apart_from_checkpoints(directory)
    spark = stream.sparkSession
    slots = TaskSlots.of(spark)
    saved = directory.latest()
    count = asked or saved_instances(saved) or slots.tasks
    each = memory_each(memory, min(count, slots.tasks_a_machine))
    share = each // _LAYING_SHARE if every is not None else 0
    directory.create()
    plan = EnrichPlan(
        question=question,
        schemas=schemas,
        wire=Wire.of(stream.schema, StructType([])),
        instances=count,
        memory=each - share,
        state=directory,
        spill_dir=spill_dir_of(directory, spark),
        budget=budget_of(interval),
        homes=count <= slots.tasks_a_machine,
    )
    if saved is not None:
        plan.identity(None).check(saved)
    keeper = MasterKeeper(source, frames[Side.RIGHT], plan)
    refresh_no_more(directory.uri)
    _check_blocks(keeper, keeper.begin(Effort(each, at_once=count)), memory)
    if every is not None:
        few = max(slots.tasks // 2, 1)
        refresh_later(keeper, spark, seconds=every, effort=Effort(share, at_once=few))
    tags = plan.wire.tags.column(plan.router.column(Side.LEFT, stream), Side.LEFT)
    wire = plan.wire.load(Side.LEFT, stream, tags)
    tick_plan = TickPlan(directory.uri, count, 0.0, interval, tuple(question.names))
    joined = hosted(
        wire, plan, tick_plan, columns=plain(columns), run=run_batch, source=MasterTicks
    )
    return with_metadata(joined, columns)


def _settled(
    stream: DataFrame, master: DataFrame, question: EnrichQuestion
) -> tuple[Frames, EnrichQuestion, Schemas]:
    """The question as Spark understands it, and the master with the columns that it asks for."""
    check_names(master.columns, master.sparkSession, whose="master has")
    if stream.sparkSession.sparkContext is not master.sparkSession.sparkContext:
        raise InvalidArgument(
            "stream and master are DataFrames of two sessions.",
            remedy="Read both in one session.",
        )
    if not _has_columns(question.on):
        for names in key_names(question.on):
            column_name(stream, names.left, word="stream")
            column_name(master, names.right, word=WORD)
    schemas = (arrow_schema(stream, "stream"), arrow_schema(master, WORD))
    question, schemas = settled((stream, master), schemas, question)
    if question.how in (JoinType.SEMI, JoinType.ANTI) and question.condition is None:
        keys = list(dict.fromkeys(names.right for names in key_names(question.on)))
        master = master.select(*(sf.col(quoted(key)) for key in keys))
        schemas = (schemas[0], pa.schema([schemas[1].field(key) for key in keys]))
    return (stream, master), question, schemas


def _check_blocks(keeper: MasterKeeper, record: MasterRecord, memory: int | str) -> None:
    """Refuse a version with a block that does not fit, such as one with a very long row."""
    each = keeper.plan.memory
    portion, least, largest = MemoryShares.split(each).loaded, 0, 0
    for instance in range(keeper.plan.instances):
        with contextlib.closing(keeper.masters.open(record.number, instance)) as master:
            least = max(least, least_memory(master, each, portion))
            largest = max(largest, master.largest_block)
    if least > each:
        total = -(-least * parse_bytes(memory) // each)
        raise MemoryTooSmall(
            f"A block of the master table has {largest:,} bytes, and memory={memory!r} leaves "
            f"{portion:,} for reading in each instance.",
            remedy=f"Give at least {total:,} bytes, or leave long columns out of the master.",
        )


def _has_columns(on: Any) -> bool:
    each = on if isinstance(on, list | tuple) else [on]
    return any(isinstance(part, Column) for part in each)


def _columns(frames: Frames, question: EnrichQuestion, schemas: Schemas) -> StructType:
    """The columns of the result, with the types that Spark's own join has."""
    columns = result_columns(frames, question.resolve(*schemas))
    if question.version_column is None:
        return columns
    check_names(
        [*columns.names, question.version_column], frames[0].sparkSession, whose="The result has"
    )
    version = StructField(question.version_column, StringType(), nullable=False)
    return StructType([*columns.fields, version])
