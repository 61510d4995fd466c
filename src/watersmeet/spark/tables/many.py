"""`wm.join_many`: checks a join of several DataFrames, so that errors are raised by the call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.sql import DataFrame

from watersmeet.operators.many import relations_of
from watersmeet.rows.condition import ConditionLike
from watersmeet.spark.frames import check_dataframe, parse_instances
from watersmeet.spark.many import OnMany, asked_many, settled_many
from watersmeet.spark.scans.relation import open_relation
from watersmeet.spark.tables.join import begin
from watersmeet.spark.tables.run import JoinRun


def join_many(
    relations: Mapping[str, DataFrame] | Sequence[tuple[str, DataFrame]],
    on: OnMany,
    *,
    algorithm: str = "auto",
    memory: int | str = "256MB",
    storage: str | Path | None = None,
    spill_dir: str | Path | None = None,
    instances: int | None = None,
    condition: ConditionLike | str | None = None,
    seed: int = 0,
) -> JoinRun:
    """Join up to eight DataFrames at once and have the first rows of the result early.

    Rows go to the instances in which all their partners are, some of them to several. No
    intermediate result is computed or stored. Nothing is read before the first wave, `to_df` or
    `write` is asked for.

    Parameters
    ----------
    relations
        A dict of names and DataFrames of one session, not streaming.
    on
        Which rows belong together: ("orders.id", "items.order") or "orders.id = items.order" for
        columns that must be equal, wm.within(("a.time", "b.time"), "5 seconds") or wm.band for
        values that must be close, or a list of these. The relations must form a tree. "symbol"
        alone is a column that all of them have.
    algorithm
        auto, which is miner; miner-plain, its nested loop as published; mjoin, for joins on one
        column by equality.
    condition
        What a combination of rows must also meet: SQL text or a `pyarrow.compute` expression over
        the columns of the result, or a function of a batch of them.
    memory, storage, spill_dir, instances, seed
        As in `wm.join`.

    Columns of one name that must be equal are one column of the result. Any other name that several
    relations have is followed by an underscore and the name of the relation.
    """
    names, frames = relations_of(relations)
    question = asked_many(names, on, algorithm=algorithm, condition=condition)
    for name, frame in zip(question.names, frames, strict=True):
        check_dataframe(frame, name)
    opened = [
        open_relation(frame, argument=name)
        for name, frame in zip(question.names, frames, strict=True)
    ]
    question, schemas = settled_many(frames, [each.schema for each in opened], question)
    return begin(
        frames,
        opened,
        question,
        schemas,
        memory=memory,
        storage=storage,
        spill_dir=spill_dir,
        instances=None if instances is None else parse_instances(instances),
        seed=seed,
    )
