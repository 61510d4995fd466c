"""`wm.join_streams`: checks a join of two streams, so that errors are raised by the call."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from watersmeet.errors import InvalidArgument
from watersmeet.model import Side
from watersmeet.operators.many import ManyQuestion
from watersmeet.operators.question import Question
from watersmeet.promises.kinds import PromiseOfValues
from watersmeet.promises.marked import MarkedOutput
from watersmeet.rows.condition import ConditionLike
from watersmeet.rows.on import name_of
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.cluster import TaskSlots
from watersmeet.spark.columns import check_names, plain, result_columns, with_markers, with_metadata
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
from watersmeet.spark.microbatches.asked import Asked
from watersmeet.spark.microbatches.host import run_batch
from watersmeet.spark.microbatches.places import (
    check_apart_from_checkpoints,
    check_apart_from_sources,
    source_folders,
)
from watersmeet.spark.microbatches.quarantine import prepare
from watersmeet.spark.microbatches.state import StateDirectory
from watersmeet.spark.microbatches.ticks import TickPlan, parse_interval
from watersmeet.spark.microbatches.wire import Wire
from watersmeet.spark.microbatches.wiring import budget_of, hosted
from watersmeet.spark.question import settled
from watersmeet.spark.scans.streams import FileStream
from watersmeet.spark.streams.batch_promises import in_our_words
from watersmeet.spark.streams.ends import Ends, check_bounded, check_ends
from watersmeet.spark.streams.paths import Path, carried, describe, paths_of
from watersmeet.spark.streams.plan import StreamPlan
from watersmeet.spark.streams.promised import Promised
from watersmeet.spark.streams.promises import (
    ask_promises,
    check_promised,
    promised_of,
    with_promises,
    with_watermarks,
)
from watersmeet.spark.streams.routing import stream_router
from watersmeet.spark.streams.watermarks import heard, with_time
from watersmeet.spark.streams.words import Words, everywhere, tags_of


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
    promises: Sequence[PromiseOfValues] | None = None,
    on_broken: str = "fail",
    purge: str | int = "memory",
    punctuations: str | None = None,
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
        inner; also left, right, full, semi or anti, if `ends` or `promises` tell when a row will
        find no partner any more.
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
    promises
        What will not come any more, so that rows that wait for it can go: a list of wm.watermark,
        wm.ordered, wm.clustered, wm.unique and wm.punctuated. Columns of the join that have a
        watermark from Spark's `withWatermark` count as such, too. What the rows of a micro-batch
        promise takes effect after all of them.
    on_broken
        What becomes of a row that was promised not to come: "fail" ends the query, "drop" leaves
        the row out and counts it (`wm.stream_metrics`), "quarantine" writes it aside, too
        (`wm.quarantine`).
    purge
        When rows that may go are looked for in memory: "memory" in each micro-batch that promises
        something, "output_rate" after a hundred promises, or a number of them; and always when
        memory is full, and when the streams stall. Rows of left, right, full and anti joins that
        have no partner come when they are found.
    punctuations
        The name of one more column of the result. It is true for marker rows, which say what the
        result will not have any more, for a next join ("For the next join" in docs/promises.md).
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
    marks = check_ends(ends, streams)
    asked = ask_promises(promises, streams)
    schemas = (arrow_schema(left, "left stream"), arrow_schema(right, "right stream"))
    question, schemas = settled(streams, schemas, question)
    asked = with_watermarks(asked, streams, question.resolve(*schemas))
    promised = promised_of(asked, on_broken=on_broken, purge=purge, punctuations=punctuations)
    if promised is not None:
        question = with_promises(question)
    join = question.resolve(*schemas)
    check_promised(join, question, promised, instances)
    check_bounded(marks, join, asked.promises)
    return begin(
        streams,
        question,
        schemas,
        Words(marks, asked.markers),
        promised=promised,
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
    words: Words,
    *,
    promised: Promised | None = None,
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
    if promised is not None and promised.punctuations is not None:
        marked = MarkedOutput.of(join, in_our_words(promised.promises), promised.punctuations)
        columns = with_markers(columns, marked)
        check_names(columns.names, streams[0].sparkSession, whose="The result has")
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
    # Refuses what cannot be divided among so many.
    router = stream_router(join, instances=count, cube=cube)
    wire = Wire.of(
        *(stream.schema for stream in streams), markers=promised.markers if promised else ()
    )
    paths = paths_of(streams, schemas, words, names=question.names, router=router, state=directory)
    plan = StreamPlan(
        question=question,
        schemas=schemas,
        wire=wire,
        instances=count,
        memory=memory_each(memory, min(count, slots.tasks_a_machine)),
        state=directory,
        spill_dir=spill_dir_of(directory, spark),
        wait_threshold=_seconds(wait_threshold),
        budget=budget_of(interval),
        cube=cube,
        promised=promised,
        homes=count <= slots.tasks_a_machine,
        carried=carried(paths, streams, schemas, words, join=join, wire=wire),
        folders=tuple(path.place if isinstance(path, FileStream) else "" for path in paths),
    )
    if saved is not None:
        plan.identity(None).check(saved)
    if promised is not None and promised.on_broken == "quarantine":
        prepare(directory, [stream.schema for stream in streams], join.inputs, plan.names)
    said = describe(paths, question.names)
    Asked(plan.identity(None).parameters, plan.bounds(), said).note(directory)
    joined = _joined(streams, paths, plan, words, interval, columns=plain(columns))
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
    paths: Sequence[Path],
    plan: StreamPlan,
    words: Words,
    interval: float | None,
    *,
    columns: StructType,
) -> DataFrame:
    """The plan that Spark gets: all streams on one wire, by instance, through the host."""
    carried = plan.wire if plan.carried is None else plan.carried.wire
    tagged = []
    for input, (stream, path) in enumerate(zip(streams, paths, strict=True)):
        if isinstance(path, FileStream):
            names = path.names(stream.sparkSession)
            tagged.append(carried.load(input, names, everywhere(input, plan)))
        else:
            tagged.append(carried.load(input, stream, tags_of(input, stream, words, plan)))
    wire = reduce(DataFrame.union, tagged)
    ticks = TickPlan(
        plan.state.uri,
        plan.instances,
        plan.wait_threshold,
        interval,
        tuple(plan.names),
        markers=len(plan.wire.markers),
    )
    if plan.carried is None or plan.carried.clock is None:
        return hosted(wire, plan, ticks, columns=columns, run=run_batch)
    return heard(hosted(wire, plan, ticks, columns=with_time(columns), run=run_batch))


def _seconds(patience: Any) -> float:
    number = isinstance(patience, int | float) and not isinstance(patience, bool)
    if not number or not 0 <= patience < math.inf:
        raise InvalidArgument(
            f"wait_threshold={patience!r} is no number of seconds.", remedy="Use for example 0.5."
        )
    return float(patience)
