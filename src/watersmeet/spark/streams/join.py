"""`wm.join_streams`: checks a join of two streams, so that errors are raised by the call."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_schema, to_arrow_type
from pyspark.sql.types import StructType

from watersmeet.errors import InvalidArgument, MemoryTooSmall, SchemaError
from watersmeet.model import Side
from watersmeet.operators.many import ManyQuestion
from watersmeet.operators.question import Question
from watersmeet.rows.condition import ConditionLike
from watersmeet.rows.on import name_of
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.cluster import TaskSlots, is_one_machine
from watersmeet.spark.columns import check_names, plain, result_columns, with_metadata
from watersmeet.spark.frames import check_dataframe, parse_instances
from watersmeet.spark.hypercube import Cube, dimensions_of
from watersmeet.spark.interpreter import our_python
from watersmeet.spark.keys import OnSpark, first_line
from watersmeet.spark.question import settled
from watersmeet.spark.streams.ends import Ends, Marks, check_ends
from watersmeet.spark.streams.host import run_batch
from watersmeet.spark.streams.identity import Identity
from watersmeet.spark.streams.places import (
    check_apart_from_checkpoints,
    check_apart_from_sources,
)
from watersmeet.spark.streams.plan import StreamPlan, stream_router
from watersmeet.spark.streams.state import Manifest, StateDirectory
from watersmeet.spark.streams.ticks import TickPlan, parse_interval, tick_stream
from watersmeet.spark.streams.wire import TAG, Wire
from watersmeet.spark.worker import settle
from watersmeet.store.shares import SMALLEST_MEMORY, MemoryShares

# Reactive work may take this share of the time between ticks: rows that come meanwhile wait.
_BUDGET_SHARE = 0.5
_BUDGET_WITHOUT_TICKS = 0.5


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
    schemas = (stream_schema(left, name_of(Side.LEFT)), stream_schema(right, name_of(Side.RIGHT)))
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
    check_apart_from_sources(directory, streams, question.names)
    check_apart_from_checkpoints(directory)
    directory.create()
    spark = streams[0].sparkSession
    slots = TaskSlots.of(spark)
    saved = directory.latest()
    count = asked or _saved_instances(saved) or slots.tasks
    cube = None
    if isinstance(question, ManyQuestion):
        cube = _cube(join, instances=count, asked=asked)
        count = cube.instances
    else:
        # Refuses what cannot be divided among so many.
        stream_router(join, instances=count, cube=None)
    if saved is not None:
        Identity.of(join, question, instances=count, cube=cube).check(saved)
    plan = StreamPlan(
        question=question,
        schemas=schemas,
        wire=Wire.of(*(stream.schema for stream in streams)),
        instances=count,
        memory=_memory_each(memory, min(count, slots.tasks_a_machine)),
        state=directory,
        spill_dir=_spill_dir(directory, spark),
        wait_threshold=_seconds(wait_threshold),
        budget=_BUDGET_WITHOUT_TICKS if interval is None else _BUDGET_SHARE * interval,
        cube=cube,
    )
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
    wire = wire.union(tick_stream(wire.sparkSession, wire.schema, ticks))

    def host(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        return run_batch(plan, batches)

    instance = plan.wire.tags.instance_of(sf.col(TAG))
    parted = wire.repartitionById(plan.instances, instance)
    with our_python(wire.sparkSession):
        return parted.mapInArrow(host, columns)


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


# ---- what can be wrong ------------------------------------------------------------------------


def check_stream(stream: Any, name: str, *, tables: str) -> None:
    """Refuse what is no stream. `tables` is what tables are joined with."""
    check_dataframe(stream, name)
    if not stream.isStreaming:
        raise InvalidArgument(
            f"{name} is a DataFrame that does not stream.",
            remedy=f"Use {tables} for tables; read the table with spark.readStream to join it "
            "with a stream.",
        )
    check_names(stream.columns, stream.sparkSession, whose=f"The {name} stream has")


def stream_schema(stream: DataFrame, name: str) -> pa.Schema:
    """The columns of a stream as they come to Python."""
    for field in stream.schema.fields:
        try:
            to_arrow_type(field.dataType, timezone="UTC")
        except PySparkException as error:
            raise SchemaError(
                f"Column {field.name!r} of the {name} stream, of type "
                f"{field.dataType.simpleString()}, cannot travel to Python: {first_line(error)}",
                remedy="Cast it to another type or leave it out.",
            ) from error
    return to_arrow_schema(stream.schema, timezone="UTC")


def _spill_dir(directory: StateDirectory, spark: SparkSession) -> str | None:
    """Beside the state if all of it is on this machine: spilled files join it by a link then."""
    local = directory.local_path
    if local is None or not is_one_machine(spark):
        return None
    (local / "spill").mkdir(exist_ok=True)
    return str(local / "spill")


def _saved_instances(saved: Manifest | None) -> int:
    """How many instances a state has; 0 if that is not known, whatever is wrong with it."""
    return int(saved.get("parameters", {}).get("instances", 0)) if saved else 0


def _memory_each(memory: int | str, sharers: int) -> int:
    limit, _ = MemoryShares.parse(memory)
    if limit // sharers < SMALLEST_MEMORY:
        raise MemoryTooSmall(
            f"memory={memory!r} leaves {limit // sharers:,} bytes for each of the {sharers} "
            "instances on a machine.",
            remedy=f"Give at least {sharers * SMALLEST_MEMORY // 2**20}MB.",
        )
    return limit // sharers


def _seconds(patience: Any) -> float:
    number = isinstance(patience, int | float) and not isinstance(patience, bool)
    if not number or not 0 <= patience < math.inf:
        raise InvalidArgument(
            f"wait_threshold={patience!r} is no number of seconds.", remedy="Use for example 0.5."
        )
    return float(patience)
