"""What runs in a task: one instance of a join takes in one micro-batch, exactly once.

For batch n the host takes version n-1 of its instance, feeds the batch's rows, writes the result to
a file, and commits version n, which names that file. Only then does it emit, from the committed
file. An attempt that finds version n committed emits the same rows and does nothing else, so it
does not matter how often a batch is run, in which order its rows come, or where it was killed.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from watersmeet.operators.base import JoinOperator
from watersmeet.operators.tuning import Tuning
from watersmeet.spark import cache
from watersmeet.spark.homes import at_home
from watersmeet.spark.microbatches.arrivals import Arrivals
from watersmeet.spark.microbatches.contents import Contents
from watersmeet.spark.microbatches.failure import in_one_sentence
from watersmeet.spark.microbatches.gaps import missing, rolled_back
from watersmeet.spark.microbatches.hosted import Hosted, Resources, output_of
from watersmeet.spark.microbatches.identity import Identity, another_query
from watersmeet.spark.microbatches.metrics import BatchCounts, appended
from watersmeet.spark.microbatches.output import Output, emit
from watersmeet.spark.microbatches.places import check_apart_from_checkpoints
from watersmeet.spark.microbatches.quarantine import release, take_back
from watersmeet.spark.microbatches.state import InstanceState, Manifest
from watersmeet.spark.microbatches.task import Task, check_instance
from watersmeet.store.account import MemoryAccount
from watersmeet.store.claim import SpillClaim
from watersmeet.store.device import Costs, measure_costs
from watersmeet.store.leftovers import Leftovers
from watersmeet.store.spill import SpillArea


@dataclass
class Live:
    """An operator with what it lives on, and the committed version that it stands for."""

    operator: JoinOperator
    claim: SpillClaim
    version: str | None
    restored: bool
    leftovers: Leftovers
    """Memory that allocators keep is handed back now and then, however small the batches are."""

    def close(self) -> None:
        self.operator.close()
        self.claim.close()


Attempt = Callable[[Hosted, Task, Iterator[pa.RecordBatch]], Manifest]


def take_in(plan: Hosted, task: Task, batches: Iterator[pa.RecordBatch]) -> Manifest:
    """Take in a batch of one instance and commit it; runs where its operator is."""
    state = plan.state.instance(task.instance)
    done = state.read(task.batch)
    if done is not None:
        # Another attempt was at home meanwhile. This one's rows are the same.
        for _ in batches:
            pass
        return done
    return BatchRun(plan, task, identity=plan.identity(task.query), state=state).run(batches)


def run_batch(
    plan: Hosted, batches: Iterator[pa.RecordBatch], *, attempt: Attempt = take_in
) -> Iterator[pa.RecordBatch]:
    """The rows that this batch adds to the result of one instance."""
    with in_one_sentence():
        task = Task.current()
        if task.instance >= plan.instances:
            raise task.moved()
        identity = plan.identity(task.query)
        state = plan.state.instance(task.instance)
        done = state.read(task.batch)
        if done is None:
            name = task.home if plan.homes else None
            done = at_home(name, attempt, plan, task, batches=batches)
        else:
            identity.check(done)
            _check_again(task, done, state)
            _check_contents(plan, task, done, state=state, batches=batches)
        release(plan.state, state, done)
        yield from plan.emitted(emit(done, state, output_of(plan)), done)


def _check_again(task: Task, done: Manifest, state: InstanceState) -> None:
    """Refuse a second call with the same partition and the same attempt at a task: Spark has
    computed two partitions in one.

    The state is refused from then on. The next attempt may bring no rows, and would not notice.
    """
    if done["attempt"] == task.attempt:
        state.give_up()
    if state.given_up:
        raise task.moved()


def _check_contents(
    plan: Hosted,
    task: Task,
    done: Manifest,
    *,
    state: InstanceState,
    batches: Iterator[pa.RecordBatch],
) -> None:
    """Read a batch that is there already, and see that it is the same one.

    Within one run of a query it is. A run that goes on from an older checkpoint than the state's
    makes other batches of the same numbers.
    """
    same_run = Task.run_of(done["attempt"]) == task.run
    contents = Contents(plan.wire.tags)
    for batch in batches if same_run else plan.rows(task, batches):
        kinds = check_instance(batch, plan.wire.tags, task)
        if not same_run:
            contents.add(batch, kinds)
    if not same_run and contents.describe() != done["contents"]:
        before = done["contents"]["rows"]
        raise rolled_back(task, state, before=before, now=contents.rows, names=plan.names)


class BatchRun:
    """One attempt at one batch of one instance."""

    def __init__(
        self, plan: Hosted, task: Task, *, identity: Identity, state: InstanceState
    ) -> None:
        self._plan = plan
        self._task = task
        self._identity = identity
        self._state = state

    def run(self, batches: Iterator[pa.RecordBatch]) -> Manifest:
        """Take the batch in and commit it; the manifest that counts, be it another attempt's."""
        began = time.monotonic()
        batch = self._task.batch
        before = self._previous()
        self._state.begin(batch)
        live = self._operator(before)
        try:
            counts = BatchCounts(live.operator.metrics)
            arrivals = self._plan.arrivals(self._task, before, live.claim.area)
            output = Output(live.claim.area, self._plan.join, self._plan.marked)
            for matches in arrivals.feed(live.operator, batches, live.leftovers):
                output.append(matches)
            if (markers := arrivals.markers(live.operator)) is not None:
                output.append_rows(markers)
            manifest = self._describe(live, arrivals, output)
            record = counts.record(
                owed=manifest["owed"],
                batch=batch,
                query=self._task.query,
                instance=self._task.instance,
                restored=int(live.restored),
                memory_limit=self._plan.memory,
                state_bytes=sum(size for size, _ in manifest["files"].values()),
                seconds=round(time.monotonic() - began, 3),
                **arrivals.record(live.operator),
            )
            manifest["batches"] = appended(before, record)
            won = self._state.commit(batch, manifest)
        except BaseException:
            live.close()
            raise
        if not won:
            live.close()
            return self._committed()
        self._state.clean(batch, {*manifest["files"], *(before["files"] if before else ())})
        if arrivals.finished:
            live.close()
        else:
            live.version = manifest["id"]
            cache.keep(self._task.key(batch), live)
        return manifest

    def _previous(self) -> Manifest | None:
        """The version that this batch goes on from; None for the first batch."""
        batch, versions = self._task.batch, self._state.versions()
        if batch == 0 and not versions:
            self._begin()
            take_back(self._plan.state, self._state, batch)
            return None
        manifest = self._state.read(batch - 1) if batch - 1 in versions else None
        if manifest is None:
            raise missing(self._task, self._state)
        # A sink that reads only a part of each batch leaves instances out, and an instance that is
        # left out cannot say so. So each instance checks that the next has the version, too.
        next_one = self._plan.state.instance((self._task.instance + 1) % self._plan.instances)
        if not next_one.has(batch - 1):
            raise missing(self._task, next_one)
        self._identity.check(manifest)
        self._state.verify(manifest)
        if Task.run_of(manifest["attempt"]) != self._task.run:
            # Whoever took the state back left what was put aside since then.
            take_back(self._plan.state, self._state, batch)
        return manifest

    def _begin(self) -> None:
        """A query's first batch: of two queries that begin at once, one gets the state."""
        owner = self._plan.state.claim(self._task.query)
        if owner != self._task.query:
            raise another_query(owner, self._task.query)
        check_apart_from_checkpoints(self._plan.state)

    def _committed(self) -> Manifest:
        manifest = self._state.read(self._task.batch)
        if manifest is None:
            raise missing(self._task, self._state)
        self._identity.check(manifest)
        return manifest

    def _operator(self, before: Manifest | None) -> Live:
        """The operator that the worker has kept, if it is of the right version, or a new one."""
        kept: Live | None = cache.take(self._task.key(self._task.batch - 1))
        if kept is not None:
            if before is not None and kept.version == before["id"]:
                kept.restored = False
                return kept
            kept.close()
        claim = SpillClaim(self._plan.spill_dir)
        try:
            resources = self._resources(claim)
            if before is None or before["operator"] is None:
                operator, saved = self._plan.make(self._task, resources), False
            else:
                operator = self._plan.restore(
                    self._task, resources, area=self._state, before=before
                )
                saved = True
        except BaseException:
            claim.close()
            raise
        leftovers = Leftovers(self._plan.memory)
        return Live(operator, claim, None, restored=saved, leftovers=leftovers)

    def _resources(self, claim: SpillClaim) -> Resources:
        return {
            "memory": MemoryAccount(self._plan.memory),
            "spill": claim.area,
            "tuning": self._tuning(claim.area),
        }

    def _tuning(self, area: SpillArea) -> Tuning:
        return Tuning(costs=_costs(area, self._plan.page_bytes))

    def _describe(self, live: Live, arrivals: Arrivals, output: Output) -> Manifest:
        """The new version, whose files are all in place."""
        operator = None if arrivals.finished else live.operator.save(self._state)
        described = output.finish(self._state)
        names = arrivals.put_files(self._state)
        about = arrivals.describe(live.operator)
        names += [] if operator is None else list(operator["files"])
        if described is not None:
            names.append(described["name"])
        return self._identity.describe() | {
            "id": uuid.uuid4().hex,
            "batch": self._task.batch,
            "attempt": self._task.attempt,
            **about,
            "owed": [0] * len(self._plan.names) if operator is None else live.operator.owed(),
            "operator": operator,
            "output": described,
            "files": {name: list(self._state.files[name]) for name in names},
        }


_measured: dict[tuple[int, int], Costs] = {}


def _costs(area: SpillArea, page_bytes: int) -> Costs:
    """What the disk costs, measured once in a process: operators come and go with every batch."""
    page_bytes = min(page_bytes, area.block_bytes)
    key = (area.path.stat().st_dev, page_bytes)
    if key not in _measured:
        _measured[key] = measure_costs(area.path, page_bytes)
    return _measured[key]
