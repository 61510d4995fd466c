"""What is decided before the first wave: who joins, with how many instances, in how many waves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pyspark.sql import SparkSession

from watersmeet.model import Side
from watersmeet.spark.cluster import is_one_machine
from watersmeet.spark.jobs import side_by_side
from watersmeet.spark.scans.relation import PlainScan, Relation
from watersmeet.spark.tables import small
from watersmeet.spark.tables.histograms import Histogram
from watersmeet.spark.tables.inputs import Inputs
from watersmeet.spark.tables.instances import Check
from watersmeet.spark.tables.partitions import StagedPartitions, sizes_of
from watersmeet.spark.tables.plan import Plan, Sizes, bytes_of
from watersmeet.spark.tables.ranging import ranged
from watersmeet.spark.tables.slices import staged_partitions
from watersmeet.spark.tables.small import Small
from watersmeet.spark.tables.staging import Staged, divided, staged
from watersmeet.spark.tables.stretches import key_ranges
from watersmeet.spark.tables.waves import (
    LARGEST_CLOSED,
    MEDIUM_BYTES,
    SMALL_BYTES,
    WHOLE,
    shares,
)
from watersmeet.store.exchange import Sections


@dataclass(frozen=True)
class Computed:
    """The tables that are no plain scans, as far as Spark, or tasks of ours, have computed them."""

    files: Staged = field(default_factory=dict)
    """Of those that are computed whole."""
    partitions: Mapping[int, StagedPartitions] = field(default_factory=dict)
    """Those that are computed some partitions at a time."""
    at_once: Mapping[int, str] = field(default_factory=dict)
    """Why others are not, if it was asked."""
    seen: Mapping[Side, Histogram] = field(default_factory=dict)
    """Where values are, if rows are divided by them."""

    @property
    def all_files(self) -> Staged:
        """Of all these tables, once all partitions are there."""
        parts = {input: each.files(0, each.count) for input, each in self.partitions.items()}
        return {**self.files, **parts}


@dataclass
class InWaves:
    """Tables that tasks join wave by wave."""

    inputs: Inputs
    several: Sequence[float]
    """Where waves end if there are several: as fractions of each table."""
    first_is_here: bool
    """Whether the driver joins the first of several."""
    ends: Sequence[float] = field(default=(), init=False)
    """Where they do end."""
    most_bytes: int | None = field(default=None, init=False)
    """Of results of an instance: with more, several waves are better than one."""

    def cut_as_one(self, *, most_bytes: int | None = None) -> None:
        """Have a single wave, which is the least work."""
        self._cut(WHOLE, most_bytes)

    def cut_in_several(self) -> None:
        """Have a first wave soon; also if a single one has turned out to have a large result."""
        self._cut(self.several, None)

    def _cut(self, ends: Sequence[float], most_bytes: int | None) -> None:
        self.ends = ends
        self.most_bytes = most_bytes
        self.inputs.cut(ends)

    @property
    def are_closed(self) -> bool:
        """Whether no rows of a wave have partners in another."""
        return len(self.ends) == 1 or self.inputs.stretches is not None

    def is_here(self, number: int) -> bool:
        """Whether the driver does the work of a wave's tasks."""
        return number == 0 and len(self.ends) > 1 and self.first_is_here


@dataclass(frozen=True)
class Opened:
    """What was decided."""

    plan: Plan
    way: Small | InWaves
    """The result, if the driver has joined small tables; else how tasks join."""
    computed: Computed = field(default_factory=Computed)

    @property
    def waves(self) -> int:
        return 1 if isinstance(self.way, Small) else len(self.way.ends)


@dataclass(frozen=True, kw_only=True)
class Opening:
    """Tables of which nothing has been read yet, and what is known of them."""

    spark: SparkSession
    relations: Sequence[Relation]
    plan: Plan
    """For tables of the sizes that they are guessed to have."""
    expected: Sequence[int | None]
    """How many rows each table seems to have, if anything is known of it."""
    seed: int

    def open(self, *, whole: bool, check: Check) -> Opened:
        """Join small tables at once. Of others, let Spark compute and count those that need it, or
        their first partitions, and choose instances and waves; a single one for the `whole`.

        `check` raises if nobody wants the rows any more: no job is cancelled in the driver.
        """
        may_be_small = self._can_join_here and small.may_be_small(
            self.relations, self.plan, most=self._most_here
        )
        batches: small.Collected = {}
        if may_be_small:
            batches = small.collected(self.relations, self.plan, most=self._most_here)
            if self._are_known(batches):
                found = self._joined_here(batches, {}, check)
                if found is not None:
                    return Opened(self.plan, found)
                may_be_small = False
        in_parts = not whole and not (may_be_small and self._seem_small())
        computed = self._computed(batches, in_parts=in_parts)
        if may_be_small and self._are_small(computed):
            found = self._joined_here({}, computed.all_files, check)
            if found is not None:
                return Opened(self.plan, found, computed)
        return self._divided(computed, whole=whole)

    # ---- by the driver ---------------------------------------------------------------------------

    @property
    def _can_join_here(self) -> bool:
        """Whether the driver may join: not with a function of the user's, which might take long, or
        end the process; and not for other machines, whose directories it may not have."""
        plain = (each for each in self.relations if isinstance(each, PlainScan))
        has_functions = callable(self.plan.question.condition) or any(
            scan.has_functions for scan in plain
        )
        return is_one_machine(self.spark) and not has_functions

    @property
    def _most_here(self) -> int:
        """The most bytes of all tables together that the driver joins as a whole."""
        return min(small.most_bytes(self.plan), SMALL_BYTES)

    def _are_known(self, batches: small.Collected) -> bool:
        """Whether all tables are plain scans, or among those that were collected."""
        return all(n in batches or isinstance(r, PlainScan) for n, r in enumerate(self.relations))

    def _seem_small(self) -> bool:
        return small.seem_small(self.expected, self.plan, most=self._most_here)

    def _are_small(self, computed: Computed) -> bool:
        # The rows of joins of many tables are copied when they are staged.
        return self.plan.cube is None and self._bytes(computed) <= self._most_here

    def _is_small_wave(self, share: float, computed: Computed) -> bool:
        """Whether the driver joins a wave of this share of all tables sooner than tasks, whose two
        jobs would take several times as long."""
        plain = (each.nbytes for each in self.relations if isinstance(each, PlainScan))
        nbytes = max(self._bytes(computed), sum(plain))
        return nbytes * share <= small.most_bytes(self.plan)

    def _joined_here(self, batches: small.Collected, files: Staged, check: Check) -> Small | None:
        """What the driver finds in all tables; None if it is much."""
        return small.join_small(
            self.relations, self.plan, batches=batches, files=files, check=check
        )

    # ---- by tasks --------------------------------------------------------------------------------

    def _computed(self, batches: small.Collected, *, in_parts: bool) -> Computed:
        """Let Spark compute what was not collected; `in_parts`, only the first partitions of tables
        that can be had so."""
        files: dict[int, Sequence[Sections]] = {}
        if self.plan.placing is None:  # Else Spark computes them again, to look at them.
            files |= small.stored(batches, self.plan)
        partitions: dict[int, StagedPartitions] = {}
        at_once: dict[int, str] = {}
        if in_parts:
            partitions, at_once = staged_partitions(
                self.spark, self.relations, self.plan, seed=self.seed
            )
        others = set(self.plan.inputs) - partitions.keys() - files.keys()
        whole, seen = staged(self.spark, self.relations, self.plan, inputs=others)
        side_by_side(self.spark, [each.begin for each in partitions.values()])
        computed = Computed(files | whole, partitions, at_once, seen)
        if self._bytes(computed) <= SMALL_BYTES:
            # So they seem. A single wave needs all of them, and then their sizes are known.
            rest = [partial(each.stage, each.count) for each in partitions.values()]
            side_by_side(self.spark, rest)
        return computed

    def _divided(self, computed: Computed, *, whole: bool) -> Opened:
        """Choose instances and waves for what was counted, and divide among them what is there."""
        plan, sizes = self.plan, self._sizes(computed)
        if plan.placing is not None:
            plan = ranged(
                self.spark, self.relations, sizes, plan=plan, seen=computed.seen, seed=self.seed
            )
        nbytes = bytes_of(plan.schemas, sizes)
        one = whole or nbytes <= SMALL_BYTES
        plain = {n: each for n, each in enumerate(self.relations) if isinstance(each, PlainScan)}
        known = key_ranges(plan, plain)
        is_closed = not one and known is not None and known.has_many_parts
        held = sizes.times(LARGEST_CLOSED) if is_closed else sizes
        plan, files = divided(self.spark, computed.files, held, plan=plan)
        for partitions in computed.partitions.values():
            partitions.fit(plan)
        computed = replace(computed, files=files)
        inputs = Inputs(
            self.spark,
            self.relations,
            plan,
            staged=files,
            partitions=computed.partitions,
            known=known,
            seed=self.seed,
        )
        several = shares(
            rebuilt=not plan.keeps_operators,
            inputs=len(plan.inputs),
            in_order=inputs.key_order is not None,
            closed=known is not None and known.has_many_parts,
            # Small tables that come in several waves after all have a large result.
            medium=not one and nbytes <= MEDIUM_BYTES,
        )
        first_is_here = self._can_join_here and self._is_small_wave(several[0], computed)
        way = InWaves(inputs, several, first_is_here)
        if whole:
            way.cut_as_one()
        elif one:
            way.cut_as_one(most_bytes=2 * SMALL_BYTES // plan.slots.tasks)
        else:
            way.cut_in_several()
        return Opened(plan, way, computed)

    def _sizes(self, computed: Computed) -> Sizes:
        return sizes_of(self.relations, computed.files, computed.partitions)

    def _bytes(self, computed: Computed) -> int:
        return bytes_of(self.plan.schemas, self._sizes(computed))
