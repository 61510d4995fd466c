"""A checkpoint and a state that do not belong together: what is wrong, and what to restore."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.errors import StateError
from watersmeet.spark.microbatches.state import InstanceState
from watersmeet.spark.microbatches.task import Task
from watersmeet.words import listed

_COPY = (
    "Bring back the checkpoint that belongs to this state, or a copy of the state that is as old "
    "as the checkpoint"
)
_ANEW = "To begin anew, use an empty state and a new checkpoint."


def rolled_back(
    task: Task,
    state: InstanceState,
    *,
    before: Sequence[int],
    now: Sequence[int],
    names: Sequence[str],
) -> StateError:
    """Spark has made another batch of a number that the state has."""
    batch, versions = task.batch, state.versions()
    others = "as many others" if before == now else listed([f"{rows:,}" for rows in now])
    were = listed([f"{rows:,} {name}" for rows, name in zip(before, names, strict=True)])
    difference = f"with {were} rows, and now has {others}"
    back = ""
    if batch == 0:
        back = ", which is an empty one"
    elif batch - 1 in versions:
        # Files that only removed versions need are removed with the next one.
        names = ", ".join(f"{each:08}.json" for each in versions if each >= batch)
        back = (
            f"; or take the state back to batch {batch - 1}: remove {names} in every instance-* "
            "folder of it, and what the sink got from there on"
        )
    return StateError(
        f"Batch {batch} came to {state} {difference}: the checkpoint is older than the state, or "
        "the sources, or a function that makes their columns, give other rows when asked again.",
        remedy=f"No row was emitted. {_COPY}{back}.",
    )


def missing(task: Task, state: InstanceState) -> StateError:
    """The version that a batch goes on from is not there."""
    batch, versions = task.batch, state.versions()
    if batch == 0:
        return StateError(
            f"This is a query's first batch, and {state} has version {versions[-1]} of "
            "another query's state.",
            remedy="Begin anew with an empty state, or go on from the old checkpoint.",
        )
    needed = batch - 1
    if versions and versions[-1] >= batch:
        return StateError(
            f"Batch {batch} needs version {needed} of {state}, and the oldest that is kept is "
            f"{versions[0]}: the checkpoint is older than the state.",
            remedy=f"{_COPY}. {_ANEW}",
        )
    found = f"the newest there is {versions[-1]}" if versions else "there is none"
    return StateError(
        f"Batch {batch} needs version {needed} of {state}, and {found}. Either the state was "
        "deleted or replaced by an older one, or a sink has read only a part of a batch, as "
        "show(), take(), first() and limit() do in foreachBatch.",
        remedy="Bring back the state that belongs to this checkpoint, or a checkpoint that is as "
        "old as the state. In foreachBatch, write or count the whole batch before looking at a "
        f"part of it. {_ANEW}",
    )
