"""Join tasks: they push the rows of a wave to the operator of one instance.

Operators that fit into memory together live in homes between waves, so that each is where its task
finds it, whichever worker gets the task. Otherwise, when a home has ended, and behind a first wave
that the driver has joined, an operator is built again by pushing the same batches from the storage
in the same order. Operators decide only by what they are given, so its state is the same as before;
its results on the way are dropped, since they have been delivered before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from math import ceil
from typing import Any

import pyarrow as pa

from watersmeet.errors import StateError
from watersmeet.operators.base import JoinOperator
from watersmeet.operators.family import make_operator
from watersmeet.rows.address import Matches, Rows
from watersmeet.rows.condition import Condition
from watersmeet.rows.leaves import Mask
from watersmeet.rows.rebatched import rebatched
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark import cache, homes
from watersmeet.spark.jobs import Record
from watersmeet.spark.tables.plan import Plan
from watersmeet.spark.tables.results import ResultWriter
from watersmeet.store.account import MemoryAccount
from watersmeet.store.claim import SpillClaim
from watersmeet.store.exchange import Sections

_FLUSHES_TOLD = 8
# How long operators wait for the next wave: people look at rows, and write them. Those of a run
# that is stopped or closed are told to end, and the others end with Spark.
_IDLE_S = 600.0
# A process keeps one bundle of operators.
_JOINING_HERE = threading.Lock()


Check = Callable[[], None]
"""Raises if nobody wants the work any more; called by long work now and then."""


@dataclass(frozen=True)
class Arrivals:
    """The files of one wave for one instance. `rows_out`: how many results it had, once known."""

    files: tuple[tuple[Sections, ...], ...]
    rows_out: int | None = None


@dataclass(frozen=True)
class JoinTask:
    instance: int
    waves: tuple[Arrivals, ...]
    """All waves so far, of which the last one is to be joined."""
    last: bool
    most_bytes: int | None = None
    """Stop when the result is larger than this: it is then better delivered in several waves."""

    @property
    def number(self) -> int:
        return len(self.waves)


class Instance:
    """An operator with its memory account and its spill directory."""

    def __init__(self, plan: Plan, check: Check = homes.check_wanted) -> None:
        self._claim = SpillClaim(plan.spill_dir)
        self.memory = MemoryAccount(plan.operator_memory)
        self.schema = _checked(plan.join, check)
        self.operator: JoinOperator = make_operator(
            plan.question.algorithm,
            self.schema,
            memory=self.memory,
            spill=self._claim.area,
            clock=lambda: 0.0,  # It must decide the same when it is built again later.
            coming=plan.coming,
        )

    def close(self) -> None:
        self.operator.close()
        self._claim.close()


@dataclass(frozen=True)
class _Checked(Condition):
    """A condition that may refuse billions of pairs, between which an operator yields nothing."""

    check: Check

    def holds(self, rows: Sequence[Rows]) -> Mask:
        self.check()
        return super().holds(rows)


def _checked(schema: JoinSchema, check: Check) -> JoinSchema:
    condition = schema.condition
    if condition is None:
        return schema
    checked = _Checked(condition.predicate, condition.columns, condition.schema, check)
    return replace(schema, condition=checked)


class Bundle:
    """Instances that one process keeps between waves, by their numbers."""

    def __init__(self) -> None:
        self.instances: dict[int, Instance] = {}

    def close(self) -> None:
        for instance in self.instances.values():
            instance.close()


def mean_rows(arrived: Sequence[Arrivals]) -> tuple[int, ...]:
    """How many rows of each input come to an instance."""
    inputs = zip(*(each.files for each in arrived), strict=True)
    totals = (sum(file.rows for files in input for file in files) for input in inputs)
    return tuple(ceil(total / len(arrived)) for total in totals)


def join_wave(tasks: Sequence[JoinTask], plan: Plan) -> list[Record]:
    """Join a wave in each instance of a bundle; the records name the files with the new results."""
    first = tasks[0]
    is_only = first.last and first.number == 1
    name = _home(plan, first.instance) if plan.has_homes and not is_only else None
    return homes.at_home(name, join_here, tasks, plan, batches=iter(()), idle_s=_IDLE_S)


def join_in_driver(bundles: Sequence[Sequence[JoinTask]], plan: Plan, check: Check) -> list[Record]:
    """Join a wave in this process instead of in tasks. It keeps no operators: homes build them
    again, from little."""
    with _JOINING_HERE:
        try:
            joined = [join_here(bundle, plan, iter(()), check) for bundle in bundles]
        finally:
            cache.clear()
    return list(chain.from_iterable(joined))


def _home(plan: Plan, first: int) -> str:
    """What the home of the bundle with this first instance is called. No other run's has the same
    name."""
    return f"{plan.query} {first}"


def end_homes(plan: Plan) -> None:
    """Let the homes of a run end that has no more waves to join."""
    for bundle in plan.bundles if plan.has_homes else ():
        homes.end(_home(plan, bundle[0]))


def join_here(
    tasks: Sequence[JoinTask],
    plan: Plan,
    batches: Iterator[pa.RecordBatch],
    check: Check = homes.check_wanted,
) -> list[Record]:
    """Join a wave in this process, which may have the operators of the wave before."""
    for _ in batches:  # There are none: rows are in the storage.
        pass
    first, version = tasks[0], tasks[0].number
    if first.last:
        homes.leave()
    before: Bundle = cache.take((plan.query, first.instance, version - 1)) or Bundle()
    after = Bundle()
    records: list[Record] = []
    try:
        # One writer for all: Spark takes some time for each file that it opens.
        with ResultWriter(plan, f"result-{version:03}-{first.instance:04}") as writer:
            for task in tasks:
                kept = before.instances.pop(task.instance, None)
                instance = kept or _replayed(task, plan, check)
                after.instances[task.instance] = instance
                record = _join(task, plan, instance, writer, check)
                records.append(record | {"kept": kept is not None})
                if task.last or not plan.keeps_operators:
                    after.instances.pop(task.instance).close()
        records[0]["files"] = writer.files
    except BaseException:
        before.close()
        after.close()
        raise
    if after.instances:
        cache.keep((plan.query, first.instance, version), after)
    return records


def _join(
    task: JoinTask, plan: Plan, instance: Instance, writer: ResultWriter, check: Check
) -> Record:
    before = instance.operator.metrics.as_dict()
    found = _feed(instance.operator, task.waves[-1], plan, check)
    for matches in chain(found, _finish(instance.operator, plan) if task.last else ()):
        # A block of rows may have billions of results, and the clean-up at the end more.
        check()
        if len(matches):
            writer.append(instance.schema.materialise(matches))
        if task.most_bytes is not None and writer.nbytes > task.most_bytes:
            return {"too_large": True, "files": []}
    return record_of(task, instance, before) | {"files": []}


def record_of(task: JoinTask, instance: Instance, before: dict[str, Any]) -> Record:
    """What the wave added to the operator's counters."""
    now = instance.operator.metrics.as_dict()
    fresh = min(now["flush_count"] - before["flush_count"], _FLUSHES_TOLD)
    log = list(instance.operator.metrics.flushes)
    return {
        "instance": task.instance,
        "rows_out": now["rows_out"] - before["rows_out"],
        "results": {
            stage: count - before["results"][stage] for stage, count in now["results"].items()
        },
        "rows_spilled": now["rows_spilled"] - before["rows_spilled"],
        "bytes_spilled": now["bytes_spilled"] - before["bytes_spilled"],
        "memory_peak": instance.memory.peak,
        "flushes": [f"instance {task.instance}, {flush}" for flush in log[len(log) - fresh :]],
    }


def _replayed(task: JoinTask, plan: Plan, check: Check) -> Instance:
    instance = Instance(plan, check)
    try:
        for number, wave in enumerate(task.waves[:-1], start=1):
            rows = sum(map(len, _feed(instance.operator, wave, plan, check)))
            if rows != wave.rows_out:
                raise StateError(
                    f"Instance {task.instance} gave {wave.rows_out:,} rows in wave {number} and "
                    f"{rows:,} when it was built again.",
                    remedy="This is a mistake in watersmeet: the run was stopped so that no row "
                    "is lost or repeated. Please report it.",
                )
    except BaseException:
        instance.close()
        raise
    return instance


def _feed(operator: JoinOperator, wave: Arrivals, plan: Plan, check: Check) -> Iterator[Matches]:
    """Push a wave's batches, the inputs in turn."""
    inputs = [
        rebatched(
            plan.storage.read_sections(wave.files[input], plan.schemas[input]),
            plan.pushed_rows,
            plan.pushed_bytes,
        )
        for input in plan.inputs
    ]
    for blocks in zip_longest(*inputs):
        for input, block in zip(plan.inputs, blocks, strict=True):
            if block is not None:
                check()
                yield from operator.push(input, block)


def _finish(operator: JoinOperator, plan: Plan) -> Iterator[Matches]:
    for input in plan.inputs:
        yield from operator.end(input)
    yield from operator.finish()


def arrivals(files: Sequence[Sequence[Sections]], *, instances: int) -> list[Arrivals]:
    """The sections of a wave's files, by the instance that they are for."""
    inputs = [[file.by_instance() for file in input] for input in files]
    return [
        Arrivals(
            tuple(tuple(file[instance] for file in input if instance in file) for input in inputs)
        )
        for instance in range(instances)
    ]
