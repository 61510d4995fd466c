"""`wm.join_many_streams`: checks a join of many streams, so that errors are raised by the call."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame

from watersmeet.operators.many import relations_of
from watersmeet.rows.condition import ConditionLike
from watersmeet.spark.many import OnMany, asked_many, settled_many
from watersmeet.spark.microbatches.arguments import arrow_schema, check_stream
from watersmeet.spark.streams.ends import EndCondition, check_named_ends
from watersmeet.spark.streams.join import begin
from watersmeet.spark.streams.words import Words


def join_many_streams(
    relations: Mapping[str, DataFrame] | Sequence[tuple[str, DataFrame]],
    on: OnMany,
    *,
    state: str | os.PathLike[str],
    algorithm: str = "auto",
    memory: int | str = "256MB",
    wait_threshold: float = 0.5,
    ends: Mapping[str, EndCondition] | None = None,
    ticks: str | float | None = "1 second",
    instances: int | None = None,
    condition: ConditionLike | str | None = None,
) -> DataFrame:
    """Join up to eight streams at once; the result is a stream, for any sink and trigger.

    Rows of the result come in the micro-batch in which the last of their rows came, or, if an
    earlier one had been spilled by then, as in `wm.join_streams`; so does a query go on that was
    killed. No intermediate result is computed or stored.

    Parameters
    ----------
    relations
        A dict of names and streaming DataFrames of one session.
    on
        Which rows belong together, as in `wm.join_many`: "orders.id = items.order" for columns
        that must be equal, wm.within(("a.time", "b.time"), "5 seconds") or wm.band for values that
        must be close, or a list of these. The relations must form a tree.
    algorithm
        auto, which is miner; miner-plain, its nested loop as published; mjoin, for joins on one
        column by equality.
    ends
        By the name of a stream a condition, SQL text or a Column, that is true for a row that is
        no data but says that its stream is complete. When all are, all that is owed comes out.
    instances
        Among how many parts keys are divided: as many as tasks run at once, or as many as the
        state has. A stream that lacks a key sends its rows to several of them. Without equal
        columns there is one.
    condition
        What a combination of rows must also meet: SQL text or a `pyarrow.compute` expression over
        the columns of the result, or a function of a batch of them.
    state, memory, wait_threshold, ticks
        As in `wm.join_streams`.

    Columns have names as in `wm.join_many`.
    """
    names, streams = relations_of(relations)
    question = asked_many(names, on, algorithm=algorithm, condition=condition)
    for name, stream in zip(question.names, streams, strict=True):
        check_stream(stream, name, tables="wm.join_many")
    marks = check_named_ends(ends, question.names, streams)
    schemas = [
        arrow_schema(stream, f"{name} stream")
        for name, stream in zip(question.names, streams, strict=True)
    ]
    question, settled = settled_many(streams, schemas, question)
    return begin(
        streams,
        question,
        settled,
        Words(marks),
        state=state,
        memory=memory,
        wait_threshold=wait_threshold,
        ticks=ticks,
        instances=instances,
    )
