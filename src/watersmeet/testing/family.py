"""Makes the published joins for the contract's checks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from watersmeet.model import Side
from watersmeet.operators.base import JoinOperator, Manifest, StateArea
from watersmeet.operators.family import find_algorithm, make_operator, restore_operator
from watersmeet.operators.tuning import Tuning
from watersmeet.operators.workspace import Workspace
from watersmeet.rows.bands import Band
from watersmeet.rows.predicates import Predicate, ValuesInBand
from watersmeet.rows.schema import JoinSchema
from watersmeet.testing.schedule import Resources

_IN_MEMORY = 64 * 2**20


@dataclass(frozen=True)
class PublishedJoin:
    """Makes one algorithm by name. `block_bytes` makes blocks smaller than the operator would.

    >>> from watersmeet.model import Side
    >>> from watersmeet.testing.schedule import Case, End, Push, play
    >>> arrivals = (Push(Side.LEFT, (1, None)), Push(Side.RIGHT, (1, 2)))
    >>> play(PublishedJoin("rpj"), Case((*arrivals, End(Side.LEFT), End(Side.RIGHT))))
    """

    name: str
    tuning: Tuning = field(default_factory=Tuning)
    block_bytes: int | None = None
    tuning_after_restore: Tuning | None = None
    watches_values: bool = False
    """Whether promises may speak of the values of key columns, as predicates after the first."""
    one_partner: tuple[Side, ...] = ()

    @property
    def chunk_rows(self) -> int:
        return self.tuning.chunk_rows

    @property
    def least_memory(self) -> int:
        return 0 if find_algorithm(self.name).spills else _IN_MEMORY

    @property
    def _tuning(self) -> Tuning:
        # A join that never spills cannot work with `memory_rows`.
        return replace(self.tuning, memory_rows=None) if self.least_memory else self.tuning

    def make(self, schema: JoinSchema, resources: Resources) -> JoinOperator:
        join = make_operator(
            self.name,
            schema,
            memory=resources.memory,
            spill=resources.spill,
            clock=resources.clock,
            tuning=self._tuning,
            watched=self._watched(schema),
            one_partner=self.one_partner,
            coming=self._tuning.expected_rows,
        )
        self._with_small_blocks(join)
        return join

    def restore(
        self, schema: JoinSchema, resources: Resources, *, area: StateArea, manifest: Manifest
    ) -> JoinOperator:
        changed = self.tuning_after_restore or self._tuning
        tuning = replace(
            self._tuning,
            fan_in=changed.fan_in,
            whole_tasks=changed.whole_tasks,
            page_rows=changed.page_rows,
            flush_share=changed.flush_share,
        )
        join = restore_operator(
            self.name,
            schema,
            area=area,
            manifest=manifest,
            memory=resources.memory,
            spill=resources.spill,
            clock=resources.clock,
            tuning=tuning,
            watched=self._watched(schema),
            one_partner=self.one_partner,
        )
        self._with_small_blocks(join)
        return join

    def _watched(self, schema: JoinSchema) -> tuple[Predicate, ...] | None:
        return watched_values(schema) if self.watches_values else None

    def _with_small_blocks(self, join: JoinOperator) -> None:
        if self.block_bytes is not None:
            workspace = getattr(join, "workspace", None)
            if isinstance(workspace, Workspace):  # others have no blocks
                workspace.block_bytes = self.block_bytes


def watched_values(schema: JoinSchema) -> tuple[Predicate, ...]:
    """The first predicate of a join, and a band of width 0 over each pair of its key columns."""
    bands = []
    for key in schema.keys:
        fields = schema.left.field(key.left), schema.right.field(key.right)
        columns = schema.left.names.index(key.left), schema.right.names.index(key.right)
        band = Band(key.left, key.right, low=0, high=0)
        bands.append(ValuesInBand((0, 1), columns, band.resolve(*fields), str(band)))
    return (schema.predicates[0], *bands)
