"""`wm.join`: checks a join of two DataFrames, so that errors are raised by the call."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import Column, DataFrame

from watersmeet.errors import InvalidArgument
from watersmeet.model import parse_seed
from watersmeet.operators.many import ManyQuestion
from watersmeet.operators.question import Question
from watersmeet.rows.condition import ConditionLike
from watersmeet.spark.cluster import TaskSlots
from watersmeet.spark.columns import check_names, result_columns
from watersmeet.spark.frames import check_dataframe, estimated_rows, parse_instances
from watersmeet.spark.keys import OnSpark
from watersmeet.spark.placing import placing_of
from watersmeet.spark.question import settled
from watersmeet.spark.routing import check_owner
from watersmeet.spark.scans.relation import Relation, open_relation
from watersmeet.spark.storage import RunStorage, check_path
from watersmeet.spark.tables.files import RunFiles, sweep
from watersmeet.spark.tables.opening import Opening
from watersmeet.spark.tables.plan import Plan, Sizes
from watersmeet.spark.tables.run import JoinRun
from watersmeet.store.shares import SMALLEST_MEMORY, MemoryShares


def join(
    left: DataFrame,
    right: DataFrame,
    on: OnSpark,
    how: str = "inner",
    *,
    algorithm: str = "auto",
    memory: int | str = "256MB",
    storage: str | Path | None = None,
    spill_dir: str | Path | None = None,
    instances: int | None = None,
    condition: ConditionLike | Column | str | None = None,
    suffixes: tuple[str, str] = ("", "_right"),
    seed: int = 0,
) -> JoinRun:
    """Join two DataFrames and have the first rows of the result at once.

    Nothing is read before the first wave, `to_df` or `write` is asked for.

    Parameters
    ----------
    left, right
        DataFrames of the same session, not streaming. One over plain Parquet files, with
        columns chosen or renamed and simple filters, or a union of such, is read without
        passing through the JVM.
    on
        The column that must be equal, or a list of them; {"id": "user_id"} where the two sides
        call it differently; or a Column, as in left.id == right.user_id. Values that are close
        are joined with wm.within or wm.band, alone or in the list.
    how
        inner, left, right, full, semi or anti.
    algorithm
        auto, shj, xjoin, hmj, pmj, rpj, rpj-md or rpj-dd; pr-join, ripple, hash-ripple, sms, dbo
        or grace.
    memory
        The most that the operators may hold on one machine, over all tasks, such as "1GB".
    storage
        A directory, or a URI that pyarrow understands, for rows between tasks; all executors must
        reach it. On one machine the system's temporary directory by default.
    spill_dir
        A directory on each machine for what does not fit in memory.
    instances
        Into how many parts the keys or values are divided; by default as many as there are tasks
        at a time, more when the rows do not fit in memory.
    condition
        What a pair must also meet: a Column over both DataFrames, as in left.day < right.day; SQL
        text or a `pyarrow.compute` expression over the columns of the result, or a function of a
        batch of them.
    suffixes
        What is appended to a name that both sides have, left and right.
    seed
        Of the random order in which the files are read.
    """
    for side, dataframe in (("left", left), ("right", right)):
        check_dataframe(dataframe, side)
    question = Question.parse(on, how, algorithm=algorithm, condition=condition, suffixes=suffixes)
    relations = [open_relation(left, argument="left"), open_relation(right, argument="right")]
    frames = (left, right)
    question, schemas = settled(frames, (relations[0].schema, relations[1].schema), question)
    if instances is not None:
        instances = parse_instances(instances)
        schema = question.resolve(*schemas)
        if placing_of(schema) is not None:
            check_owner(schema.how, instances)
    return begin(
        frames,
        relations,
        question,
        schemas,
        memory=memory,
        storage=storage,
        spill_dir=spill_dir,
        instances=instances,
        seed=seed,
    )


def begin(
    frames: Sequence[DataFrame],
    relations: Sequence[Relation],
    question: Question | ManyQuestion,
    schemas: tuple[pa.Schema, ...],
    *,
    memory: int | str,
    storage: str | Path | None,
    spill_dir: str | Path | None,
    instances: int | None,
    seed: int,
) -> JoinRun:
    """A run of a question that Spark has settled. Nothing is read yet."""
    limit, _ = MemoryShares.parse(memory)
    seed = parse_seed(seed)
    spark = frames[0].sparkSession
    slots = TaskSlots.of(spark)
    each = limit // slots.tasks_a_machine
    if each < SMALLEST_MEMORY:
        raise InvalidArgument(
            f"memory={memory!r} leaves {each:,} bytes for each of {slots.tasks_a_machine} tasks.",
            remedy=f"Give at least {slots.tasks_a_machine * SMALLEST_MEMORY // 2**20}MB.",
        )
    schema = question.resolve(*schemas)
    result = result_columns(frames, schema)
    check_names(schema.output.names, spark, whose="The result would have")
    query = uuid.uuid4().hex[:8]
    if spill_dir is not None:
        check_path(spill_dir, "spill_dir")
    # A table whose size cannot be guessed counts as small; its rows are counted before the join.
    expected = [estimated_rows(relation) for relation in relations]
    guessed = Sizes.guessed([rows or 0 for rows in expected])
    sweep()
    run_storage = RunStorage.claim(storage, spark, query)
    plan = Plan(
        query=query,
        question=question,
        schemas=schemas,
        memory=each,
        instances=instances or slots.tasks,
        asked_instances=instances,
        keeps_operators=True,
        slots=slots,
        storage=run_storage.exchange,
        spill_dir=run_storage.spill_dir if spill_dir is None else str(spill_dir),
    )
    opening = Opening(
        spark=spark,
        relations=relations,
        plan=plan.fitted(guessed),
        expected=expected,
        seed=seed,
    )
    files = RunFiles(run_storage, spark, query=query)
    return JoinRun(opening, columns=result, files=files)
