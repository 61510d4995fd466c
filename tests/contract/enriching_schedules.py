"""Schedules of joins with a master table: by Hypothesis, and long ones made by chance."""

from __future__ import annotations

from random import Random

from hypothesis import strategies as st

from tests.contract.enriching import (
    ENOUGH,
    FAR,
    HOWS,
    NEAR,
    Arrive,
    Enrichment,
    Keys,
    Lend,
    Resize,
    Save,
    Scan,
    Step,
    TakeOver,
    Tidy,
    Wait,
)
from watersmeet.model import JoinType
from watersmeet.testing.schedule import REHASHES

_KEYS = [
    st.none() | st.integers(-2, 2),
    st.integers(0, 40),
    st.just(7),
    st.sampled_from([7, 7, 7, 0, 1, 2, None]),
]
_KINDS = [Arrive] * 8 + [Scan] * 4 + [TakeOver, TakeOver, Resize, Lend, Save, Save, Tidy, Wait]
_MEMORIES = st.sampled_from([2**20, 32 * 2**10, 12 * 2**10, 8 * 2**10, 5000])


@st.composite
def _schedules(draw: st.DrawFn) -> tuple[Keys, tuple[Step, ...]]:
    """The keys of the first version, and steps in any order."""
    longest, most = draw(st.sampled_from([(30, 1), (24, 3), (16, 8), (8, 40)]))
    keys = draw(st.sampled_from(_KEYS))
    rows = st.lists(keys, min_size=most // 2, max_size=most).map(tuple)
    master = st.lists(draw(st.sampled_from([keys, _KEYS[1]])), max_size=60).map(tuple)
    steps: list[Step] = []
    for _ in range(draw(st.integers(0, longest))):
        kind = _KINDS[draw(st.integers(0, len(_KINDS) - 1))]
        if kind is Arrive:
            steps.append(Arrive(draw(rows)))
        elif kind is Scan:
            steps.append(Scan(draw(st.sampled_from([0, 1, 1, 2, 3, 7, ENOUGH]))))
        elif kind is TakeOver:
            steps.append(TakeOver(draw(master)))
        elif kind is Resize:
            steps.append(Resize(draw(_MEMORIES)))
        elif kind is Lend:
            steps.append(Lend(draw(st.sampled_from([0, 1000, 10**6]))))
        elif kind is Tidy:
            steps.append(Tidy())
        elif kind is Wait:
            steps.append(Wait(draw(st.sampled_from([20, 300]))))
        else:
            steps.append(Save(restores=draw(st.booleans())))
    return draw(master), tuple(steps)


def _unique(keys: Keys) -> Keys:
    """CMESHJOIN is for master tables whose keys are unique."""
    return tuple(dict.fromkeys(keys))


@st.composite
def enrichments(
    draw: st.DrawFn, algorithms: tuple[str, ...] = ("auto",), hows: tuple[JoinType, ...] = ()
) -> Enrichment:
    """Schedules in all circumstances."""
    master, steps = draw(_schedules())
    algorithm = draw(st.sampled_from(algorithms))
    if algorithm == "cmeshjoin":
        master = _unique(master)
        steps = tuple(
            TakeOver(_unique(step.keys)) if isinstance(step, TakeOver) else step for step in steps
        )
    return Enrichment(
        steps,
        master=master,
        how=draw(st.sampled_from(hows or HOWS)),
        algorithm=algorithm,
        memory=draw(_MEMORIES),
        portion_bytes=draw(st.sampled_from([4000, 2000, 10_000])),
        block_bytes=draw(st.sampled_from([1, 100, 300])),
        chunk_rows=draw(st.sampled_from([100, 1, 2, 7])),
        costs=draw(st.sampled_from([NEAR, FAR])),
        key=draw(st.sampled_from(["int64", "int64", "string"])),
        codes=draw(st.sampled_from(list(REHASHES))),
        uneven=draw(st.booleans()),
        deadline=draw(st.sampled_from([None, None, 100])),
    )


def mixture(algorithm: str, how: JoinType, seed: int) -> Enrichment:
    """A long schedule with all kinds of steps, for one algorithm: made by chance, but the same each
    time. Hypothesis looks for short ones, which few mistakes show in."""
    random = Random(seed)
    # SSBJ takes three cycles to cache anything, and begins anew when it is restored.
    rotates = algorithm == "ssbj"
    often = 0.2 if rotates else 1.0
    # Few keys that are frequent, some that are not, some that no master row has.
    frequent = [random.randrange(60) for _ in range(3)]
    likely = 0.85 if rotates else 0.6

    def keys(most: int) -> Keys:
        rows = random.randrange(most)
        return tuple(
            random.choice(frequent) if random.random() < likely else random.randrange(70)
            for _ in range(rows)
        )

    def master() -> Keys:
        every = [*range(0, 60, 1 + seed % 2), *keys(60)]
        return _unique(tuple(every)) if algorithm == "cmeshjoin" else tuple(every)

    steps: list[Step] = []
    for _ in range(45):
        steps.append(Arrive((*keys(24), *([None] if random.random() < 0.1 else []))))
        steps += [Scan(random.choice([0, 1, 1, 2, 3, 8])) for _ in range(random.randrange(3))]
        chance = random.random()
        if chance < 0.06 * often:
            steps.append(TakeOver(master()))
        elif chance < 0.2:
            steps.append(Save(restores=random.random() < 0.6 * often))
        elif chance < 0.23:
            steps.append(Resize(random.choice([2**20, 40_000, 12_000])))
        elif chance < 0.26:
            steps.append(Lend(random.choice([0, 3000])))
        elif chance < 0.32:
            steps.append(Wait(random.choice([20, 300])))
    return Enrichment(
        tuple(steps), master(), how, algorithm=algorithm,
        memory=[2**20, 20_000, 12_000, 60_000][seed % 4],
        portion_bytes=[2000, 4000][seed % 2],
        block_bytes=[1, 300][seed // 2 % 2],
        chunk_rows=[100, 9][seed % 2],
        costs=[NEAR, FAR][seed % 2],
        key=["int64", "string"][seed // 4 % 2],
        codes=["true hashes", "true hashes", "three hashes"][seed % 3],
        deadline=[None, 100][seed // 2 % 2],
    )  # fmt: skip
