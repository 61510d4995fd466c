"""The published joins, each a row of settings for a mechanism, and the list of mechanisms."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from watersmeet.errors import InvalidArgument
from watersmeet.model import Side
from watersmeet.operators.base import JoinOperator, Manifest, StateArea
from watersmeet.operators.progressive.algorithm import PROGRESSIVE
from watersmeet.operators.progressive.join import ProgressiveJoin
from watersmeet.operators.promised.join import KeepsRows, PromisedJoin, SetAside, made_with
from watersmeet.operators.rectangle.algorithm import RECTANGLE
from watersmeet.operators.rectangle.join import RectangleJoin
from watersmeet.operators.reference.algorithm import REFERENCE
from watersmeet.operators.reference.join import ReferenceJoin
from watersmeet.operators.regions.algorithm import REGIONS
from watersmeet.operators.regions.join import RegionJoin
from watersmeet.operators.semistream.algorithm import DEFAULT, SEMI_STREAM
from watersmeet.operators.semistream.join import SemiStreamJoin
from watersmeet.operators.semistream.patience import Patience
from watersmeet.operators.tree.algorithm import TREE
from watersmeet.operators.tree.join import TreeJoin, check_tree
from watersmeet.operators.tuning import Tuning
from watersmeet.promises.keeper import PromiseKeeper
from watersmeet.promises.kinds import PromiseOfValues
from watersmeet.promises.passing import Passing
from watersmeet.promises.subjects import Subject
from watersmeet.rows.predicates import EqualKeys, IntervalsOverlap, Predicate
from watersmeet.rows.schema import MOST_INPUTS, JoinSchema
from watersmeet.store.account import MemoryAccount
from watersmeet.store.master.table import Master
from watersmeet.store.spill import SpillArea


class Published(Protocol):
    """What runtimes ask an algorithm of any mechanism."""

    @property
    def name(self) -> str: ...
    @property
    def words(self) -> str:
        """What it does, in words for `explain`."""
        ...

    @property
    def spills(self) -> bool:
        """Whether it spills rows when memory is full; otherwise it fails."""
        ...

    @property
    def reacts(self) -> bool:
        """Whether it joins spilled rows while the inputs stall."""
        ...


@dataclass(frozen=True)
class Mechanism:
    """One operator class and the algorithms that are settings of it.

    `operator` is made with (schema, algorithm, memory=, spill=, clock=, tuning=). `purges` says
    whether promises (`punctuate`) let it forget rows, or are ignored. A new mechanism is a row in
    `MECHANISMS`.
    """

    name: str
    operator: Callable[..., JoinOperator]
    algorithms: Mapping[str, Published]
    most_inputs: int = 2
    takes_bands: bool = False
    takes_bands_beside_keys: bool = False
    """Whether it takes bands and intervals if some keys must be equal, too."""
    takes_pairs: bool = True
    """Whether it is for joins of two inputs, of every type. Otherwise it is for inner joins of
    many."""
    for_users: bool = True
    """Whether its algorithms are listed in messages and documentation."""
    purges: bool = False
    watches: bool = False
    """Whether promises may speak of other predicates than the join's."""
    prepares: bool = False
    """Whether it is faster if it is told how many rows will come."""
    check: Callable[..., None] | None = None
    """Refuses a schema and an algorithm that the rest of this row allows."""


MECHANISMS = (
    Mechanism(
        "progressive",
        ProgressiveJoin,
        PROGRESSIVE,
        takes_bands_beside_keys=True,
        purges=True,
        watches=True,
        prepares=True,
    ),
    Mechanism("rectangle", RectangleJoin, RECTANGLE),
    Mechanism("regions", RegionJoin, REGIONS, takes_bands=True),
    Mechanism(
        "tree",
        TreeJoin,
        TREE,
        most_inputs=MOST_INPUTS,
        takes_bands=True,
        takes_pairs=False,
        check=check_tree,
    ),
    Mechanism(
        "reference",
        ReferenceJoin,
        REFERENCE,
        most_inputs=MOST_INPUTS,
        takes_bands=True,
        for_users=False,
        purges=True,
    ),
)


def _listed(*, takes_pairs: bool) -> dict[str, Published]:
    return {
        name: algorithm
        for mechanism in MECHANISMS
        if mechanism.for_users and mechanism.takes_pairs is takes_pairs
        for name, algorithm in mechanism.algorithms.items()
    }


ALGORITHMS = _listed(takes_pairs=True)
"""Those for two inputs."""
MANY_INPUTS = _listed(takes_pairs=False)
"""Those for many inputs."""
ENRICHING: Mapping[str, Published] = SEMI_STREAM
"""Those for a stream and a master table, which `make_enricher` makes."""


def find_algorithm(name: str) -> Published:
    return find_mechanism(name).algorithms[name.lower()]


def find_mechanism(name: str) -> Mechanism:
    """The mechanism of an algorithm."""
    for mechanism in MECHANISMS:
        if name.lower() in mechanism.algorithms:
            return mechanism
    raise InvalidArgument(
        f"algorithm={name!r} is not known.",
        remedy="Use auto, or one of " + ", ".join(ALGORITHMS) + ".",
    )


def has_partitions(name: str) -> bool:
    """Whether `Tuning.partitions` says in how many partitions an algorithm spills. Others have none
    or find the number by themselves."""
    return name.lower() in PROGRESSIVE


def make_operator(
    name: str,
    schema: JoinSchema,
    *,
    memory: MemoryAccount,
    spill: SpillArea,
    clock: Callable[[], float] = time.monotonic,
    tuning: Tuning | None = None,
    watched: Sequence[Predicate] | None = None,
    one_partner: Sequence[Side] = (),
    coming: Sequence[int] | None = None,
) -> JoinOperator:
    """A new operator for the named algorithm.

    `watched` are the predicates that promises may speak of, if they are not those of the schema;
    the first is the schema's first. Rows of the sides `one_partner` have one partner at most.
    Mechanisms that ignore promises ignore both. `coming` is about how many rows of each input will
    come, if that is known; no result depends on it.
    """
    check_predicates(name, schema)
    mechanism = find_mechanism(name)
    more: dict[str, Any] = {}
    if mechanism.watches:
        more |= {"watched": watched, "one_partner": one_partner}
    if mechanism.prepares:
        more |= {"coming": coming}
    return mechanism.operator(
        schema, find_algorithm(name), memory=memory, spill=spill, clock=clock, tuning=tuning, **more
    )


def restore_operator(
    name: str,
    schema: JoinSchema,
    *,
    area: StateArea,
    manifest: Manifest,
    memory: MemoryAccount,
    spill: SpillArea,
    clock: Callable[[], float] = time.monotonic,
    tuning: Tuning | None = None,
    watched: Sequence[Predicate] | None = None,
    one_partner: Sequence[Side] = (),
) -> JoinOperator:
    """An operator for the named algorithm, restored from a state that was saved in an area."""
    join = make_operator(
        name,
        schema,
        memory=memory,
        spill=spill,
        clock=clock,
        tuning=tuning,
        watched=watched,
        one_partner=one_partner,
    )
    try:
        join.load(area, manifest)
    except BaseException:
        join.close()
        raise
    return join


# ---- promises of values -------------------------------------------------------------------------


def make_promised(
    name: str,
    schema: JoinSchema,
    promises: Sequence[PromiseOfValues],
    *,
    memory: MemoryAccount,
    spill: SpillArea,
    clock: Callable[[], float] = time.monotonic,
    tuning: Tuning | None = None,
    on_broken: str = "fail",
    purge: str | int = "output_rate",
    set_aside: SetAside | None = None,
    ordered_batches: bool = True,
    passed_on: Sequence[Subject] = (),
    make: Callable[..., KeepsRows] | None = None,
) -> PromisedJoin:
    """A new operator for the named algorithm, whose sources promise what they will not send.

    `on_broken` and `ordered_batches` are those of `PromiseKeeper`; `set_aside` is given rows that
    broke a promise. `purge` is "output_rate", "memory", or after how many promises to purge.
    Promises about the subjects `passed_on` are passed on. `make` makes the join that is told the
    promises, if that is not one operator: it is given what `make_operator` takes for promises.
    """
    check_promised(name)
    check_predicates(name, schema)
    keeper = PromiseKeeper(schema, promises, on_broken=on_broken, ordered_batches=ordered_batches)
    if make is None:
        make = partial(_make_watching, name, schema, memory=memory, spill=spill, clock=clock)
    inner = make(**made_with(schema, promises, watched=keeper.watched, purge=purge, tuning=tuning))
    passing = Passing(passed_on) if passed_on else None
    return PromisedJoin(inner, keeper, set_aside=set_aside, passing=passing)


def _make_watching(name: str, schema: JoinSchema, **options: Any) -> KeepsRows:
    operator = make_operator(name, schema, **options)
    assert isinstance(operator, ProgressiveJoin), "no other mechanism watches"
    return operator


def check_promised(name: str) -> None:
    """Refuse an algorithm that ignores promises."""
    if not find_mechanism(name).watches:
        raise InvalidArgument(
            f"algorithm={name!r} can make no use of promises.",
            remedy=f"Join on equal keys, by one of {', '.join(PROGRESSIVE)}.",
        )


def restore_promised(
    name: str,
    schema: JoinSchema,
    promises: Sequence[PromiseOfValues],
    *,
    area: StateArea,
    manifest: Manifest,
    memory: MemoryAccount,
    spill: SpillArea,
    clock: Callable[[], float] = time.monotonic,
    tuning: Tuning | None = None,
    on_broken: str = "fail",
    purge: str | int = "output_rate",
    set_aside: SetAside | None = None,
    ordered_batches: bool = True,
    passed_on: Sequence[Subject] = (),
) -> PromisedJoin:
    """A join with promises that goes on from a saved state."""
    join = make_promised(
        name,
        schema,
        promises,
        memory=memory,
        spill=spill,
        clock=clock,
        tuning=tuning,
        on_broken=on_broken,
        purge=purge,
        set_aside=set_aside,
        ordered_batches=ordered_batches,
        passed_on=passed_on,
    )
    try:
        join.load(area, manifest)
    except BaseException:
        join.close()
        raise
    return join


# ---- a stream and a master table ----------------------------------------------------------------


def make_enricher(
    name: str,
    schema: JoinSchema,
    *,
    master: Master,
    memory: MemoryAccount,
    spill: SpillArea,
    clock: Callable[[], float] = time.monotonic,
    tuning: Tuning | None = None,
    deadline: float | None = None,
    wall: Callable[[], float] = time.time,
) -> SemiStreamJoin:
    """A new join of a stream, input 0 of the schema, with a master table that was laid down with
    the schema's codes of input 1. `auto` is the algorithm that skips. The join closes `master`.

    With a `deadline`, rows that have no partner wait for newer versions, which `take_over` brings,
    until so many seconds have passed since they arrived, by the clock `wall`.
    """
    return SemiStreamJoin(
        schema,
        SEMI_STREAM[find_enricher(name).name],
        master=master,
        memory=memory,
        spill=spill,
        clock=clock,
        tuning=tuning,
        patience=None if deadline is None else Patience(deadline, wall),
    )


def restore_enricher(
    name: str,
    schema: JoinSchema,
    *,
    masters: Sequence[Master],
    area: StateArea,
    manifest: Manifest,
    memory: MemoryAccount,
    spill: SpillArea,
    clock: Callable[[], float] = time.monotonic,
    tuning: Tuning | None = None,
    deadline: float | None = None,
    wall: Callable[[], float] = time.time,
) -> SemiStreamJoin:
    """A join that goes on from a saved state. `masters` are the one or two versions that the
    manifest names in `versions`, in that order."""
    join = SemiStreamJoin(
        schema,
        SEMI_STREAM[find_enricher(name).name],
        master=masters[0],
        following=masters[1] if len(masters) > 1 else None,
        memory=memory,
        spill=spill,
        clock=clock,
        tuning=tuning,
        patience=None if deadline is None else Patience(deadline, wall),
    )
    try:
        join.load(area, manifest)
    except BaseException:
        join.close()
        raise
    return join


def find_enricher(name: str) -> Published:
    """The algorithm of this name that joins a stream with a master table."""
    found = ENRICHING.get(DEFAULT if name.lower() == "auto" else name.lower())
    if found is None:
        raise InvalidArgument(
            f"algorithm={name!r} does not join a stream with a master table.",
            remedy="Use auto, or one of " + ", ".join(ENRICHING) + ".",
        )
    return found


def check_predicates(name: str, schema: JoinSchema) -> None:
    """Refuse predicates, or a number of inputs, that the algorithm's mechanism cannot join."""
    mechanism = find_mechanism(name)
    able = [each for each in MECHANISMS if each.for_users and _takes(each, schema)]
    if _takes(mechanism, schema):
        if mechanism.check is not None:
            mechanism.check(schema, find_algorithm(name))
        return
    near = "intervals" if _has_intervals(schema) else "a band of values"
    what = f"{len(schema.inputs)} inputs" if len(schema.inputs) > 2 else near
    names = ", ".join(algorithm for each in able for algorithm in each.algorithms)
    raise InvalidArgument(
        f"algorithm={name!r} joins two inputs on equal keys, not {what}.",
        remedy=f"Use one of {names}." if names else "Join on equal keys, and filter the result.",
    )


def _has_intervals(schema: JoinSchema) -> bool:
    return any(isinstance(each, IntervalsOverlap) for each in schema.predicates)


def _takes(mechanism: Mechanism, schema: JoinSchema) -> bool:
    if len(schema.inputs) > mechanism.most_inputs:
        return False
    equal = [isinstance(each, EqualKeys) for each in schema.predicates]
    beside_keys = mechanism.takes_bands_beside_keys and any(equal)
    return mechanism.takes_bands or beside_keys or all(equal)
