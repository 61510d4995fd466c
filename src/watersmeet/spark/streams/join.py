"""`wm.join_streams`: checks a join of two streams, so that errors are raised by the call."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from watersmeet.errors import InvalidArgument
from watersmeet.model import Side
from watersmeet.operators.many import ManyQuestion
from watersmeet.operators.question import Question
from watersmeet.rows.condition import ConditionLike
from watersmeet.rows.on import name_of
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.cluster import TaskSlots
from watersmeet.spark.columns import plain, result_columns, with_metadata
from watersmeet.spark.frames import parse_instances
from watersmeet.spark.hypercube import Cube, dimensions_of
from watersmeet.spark.keys import OnSpark
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
from watersmeet.spark.microbatches.wire import TAG, Wire
from watersmeet.spark.microbatches.wiring import budget_of, hosted
from watersmeet.spark.question import settled
from watersmeet.spark.streams.ends import Ends, Marks, check_ends
from watersmeet.spark.streams.plan import StreamPlan
from watersmeet.spark.streams.routing import stream_router


def join_streams(
    left: DataFrame,
    right: DataFrame,
    on: OnSpark,
    how: str = "inner",
    *,
    state: str | os.PathLike[str],
    algorithm: str = "auto",
    memory: int | str = "256MB",
    wait_threshold: float = 0.5,
    ends: Ends | None = None,
    ticks: str | float | None = "1 second",
    instances: int | None = None,
    condition: ConditionLike | Column | str | None = None,
    suffixes: tuple[str, str] = ("", "_right"),
) -> DataFrame:
    """Join two streams; the result is a stream, for any sink and trigger.

    Rows of the result come in the micro-batch in which the later partner came, or, if the earlier
    one had been spilled by then, while the streams stall, at their end, or before a query with the
    trigger `availableNow` or `once` ends. A query that is killed
    goes on from its checkpoint with the same rows as if nothing had happened (docs/spark.md says
    what that means for each kind of sink).

    Parameters
    ----------
    left, right
        Streaming DataFrames of the same session.
    on
        The column that must be equal, or a list of them; {"id": "user_id"} where the two sides
        call it differently; or a Column, as in left.id == right.user_id. Values that are close
        are joined with wm.within or wm.band, alone or in the list.
    state
        A directory for what the join remembers, or a URI that `pyarrow.fs` knows; one for each
        query, reached by all executors, kept as long as the query's checkpoint.
    how
        inner; with `ends` also left, right, full, semi or anti.
    algorithm
        rpj, xjoin, hmj, pmj, shj, pr-join, ...; auto is rpj.
    memory
        The most that the operators may hold on one machine, over all instances.
    wait_threshold
        Seconds without rows after which spilled rows are joined.
    ends
        For the left and the right stream a condition, SQL text or a Column, that is true for a
        row that is no data but says that its stream is complete. When both are, all that is owed
        comes out.
    ticks
        How often a micro-batch is due although no row has come, as long as something is owed, so
        that stalls are used; None for never.
    instances
        Into how many parts keys or values are divided: as many as tasks run at once, or as many as
        the state has.
    condition
        What a pair must also meet: a Column over both streams, as in left.day < right.day; SQL
        text or a `pyarrow.compute` expression over the columns of the result, or a function of a
        batch of them.
    suffixes
        What is appended to a name that both sides have, left and right.
    """
    streams = (left, right)
    for side in Side:
        check_stream(streams[side], name_of(side), tables="wm.join")
    question = Question.parse(on, how, algorithm=algorithm, condition=condition, suffixes=suffixes)
    marks = check_ends(ends, question.how, streams)
    schemas = (arrow_schema(left, "left stream"), arrow_schema(right, "right stream"))
    question, schemas = settled(streams, schemas, question)
    return begin(
        streams,
        question,
        schemas,
        marks,
        state=state,
        memory=memory,
        wait_threshold=wait_threshold,
        ticks=ticks,
        instances=instances,
    )


def begin(
    streams: Sequence[DataFrame],
    question: Question | ManyQuestion,
    schemas: tuple[pa.Schema, ...],
    marks: Marks,
    *,
    state: str | os.PathLike[str],
    memory: int | str,
    wait_threshold: float,
    ticks: str | float | None,
    instances: int | None,
) -> DataFrame:
    """The joined stream of a question that Spark has settled."""
    interval = parse_interval(ticks)
    asked = None if instances is None else parse_instances(instances)
    join = question.resolve(*schemas)
    columns = result_columns(streams, join)
    directory = StateDirectory.parse(state)
    folders = zip(question.names, map(source_folders, streams), strict=True)
    check_apart_from_sources(directory, {f"{name} stream": each for name, each in folders})
    check_apart_from_checkpoints(directory)
    directory.create()
    spark = streams[0].sparkSession
    slots = TaskSlots.of(spark)
    saved = directory.latest()
    count = asked or saved_instances(saved) or slots.tasks
    cube = None
    if isinstance(question, ManyQuestion):
        cube = _cube(join, instances=count, asked=asked)
        count = cube.instances
    else:
        # Refuses what cannot be divided among so many.
        stream_router(join, instances=count, cube=None)
    plan = StreamPlan(
        question=question,
        schemas=schemas,
        wire=Wire.of(*(stream.schema for stream in streams)),
        instances=count,
        memory=memory_each(memory, min(count, slots.tasks_a_machine)),
        state=directory,
        spill_dir=spill_dir_of(directory, spark),
        wait_threshold=_seconds(wait_threshold),
        budget=budget_of(interval),
        cube=cube,
    )
    if saved is not None:
        plan.identity(None).check(saved)
    joined = _joined(streams, plan, marks, interval, columns=plain(columns))
    return with_metadata(joined, columns)


def _cube(join: JoinSchema, *, instances: int, asked: int | None) -> Cube:
    """So many instances, for streams that may all bring as many rows; one if no columns are
    equal."""
    dimensions = dimensions_of(join)
    if dimensions:
        return Cube.of(instances, [1] * len(join.inputs), dimensions)
    if asked is not None and asked > 1:
        raise InvalidArgument(
            f"Streams that are joined on bands alone cannot be divided among {asked} instances.",
            remedy="Add a pair of equal columns, or give instances=1, which all rows go to.",
        )
    return Cube(())


def _joined(
    streams: Sequence[DataFrame],
    plan: StreamPlan,
    marks: Marks,
    interval: float | None,
    *,
    columns: StructType,
) -> DataFrame:
    """The plan that Spark gets: all streams on one wire, by instance, through the host."""
    tagged = [
        plan.wire.load(input, streams[input], _tags(input, streams[input], marks, plan))
        for input in plan.inputs
    ]
    wire = reduce(DataFrame.union, tagged)
    ticks = TickPlan(
        plan.state.uri, plan.instances, plan.wait_threshold, interval, tuple(plan.names)
    )
    return hosted(wire, plan, ticks, columns=columns, run=run_batch)


def _tags(input: int, stream: DataFrame, marks: Marks, plan: StreamPlan) -> Column:
    tags, router, mark = plan.wire.tags, plan.router, marks[input]
    instance, copied = router.column(input, stream), router.is_copied(input)
    if mark is None and not copied:
        return tags.column(instance, input)
    if copied:
        here = sf.transform(instance, lambda each: tags.column(each, input))
    else:
        here = sf.array(tags.column(instance, input))
    if mark is None:
        return sf.explode(here).alias(TAG)
    # The word that a stream has ended goes to every instance.
    ended = sf.coalesce(sf.expr(mark) if isinstance(mark, str) else mark, sf.lit(False))
    word = tags.end(input)
    everywhere = [tags.column(sf.lit(number), word) for number in range(plan.instances)]
    return sf.explode(sf.when(ended, sf.array(*everywhere)).otherwise(here)).alias(TAG)


def _seconds(patience: Any) -> float:
    number = isinstance(patience, int | float) and not isinstance(patience, bool)
    if not number or not 0 <= patience < math.inf:
        raise InvalidArgument(
            f"wait_threshold={patience!r} is no number of seconds.", remedy="Use for example 0.5."
        )
    return float(patience)
