"""Two questions beside the matrix: do heavy tails yield, and does stopping early cost coverage?

Extremes: values beyond the 99.5% quantile of the first 20 blocks are joined completely, the
rest is sampled. Pareto(1.5), with one population for all runs and with a new one for each.

Stopping: a run looks after every block from the 20th and stops at the first trusted cell whose
half-width is within the target, the strictest reading of `stop at 1%`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.coverage import (
    CLUSTER,
    KINDS,
    LAYOUTS,
    POPULATIONS,
    ROWS,
    Floats,
    Pairs,
    Units,
    judged,
    orders,
    population,
    truth,
)
from watersmeet.estimators import (
    ClusterSample,
    Evidence,
    Kind,
    OrderCheck,
    TailSketch,
    cells,
    take_all,
)

BLOCKS, DEPTHS = CLUSTER
# The largest 0.5% of the first look.
EXTREME = ROWS // BLOCKS * DEPTHS[0] // 200
TARGETS = (0.05, 0.01)


@dataclass(frozen=True)
class Extremes:
    population: str  # "one" or "redrawn"
    layout: str
    depth: int
    aggregate: str
    taken: bool
    coverage: float
    flagged: float
    width: float


@dataclass(frozen=True)
class Stopped:
    population: str
    layout: str
    aggregate: str
    target: float
    early: float  # share of the runs that stopped before everything was read
    coverage: float | None  # of those
    blocks: float | None  # median of those


def _drawn(layout: str, rng: np.random.Generator) -> Floats:
    """[block, row]; each left row has one partner, so a value is a pair."""
    return population("Pareto 1.5", layout, rng).values.reshape(BLOCKS, -1)


def extremes(*, runs: int, seed: int) -> Iterator[Extremes]:
    for redrawn in (False, True):
        for layout in ("random", "value-sorted"):
            rng = np.random.default_rng([seed, 4, LAYOUTS.index(layout), redrawn])
            fixed = _drawn(layout, rng)
            populations = [_drawn(layout, rng) if redrawn else fixed for _ in range(runs)]
            order = orders(BLOCKS, runs, rng)
            for taken in (False, True):
                name = "redrawn" if redrawn else "one"
                for depth, number, part in _sampled(populations, order, taken=taken):
                    yield Extremes(name, layout, depth, KINDS[number].kind.value, taken, *part)


def _sampled(
    populations: list[Floats], order: np.ndarray, *, taken: bool
) -> Iterator[tuple[int, int, tuple[float, float, float]]]:
    runs = len(populations)
    everyone = np.arange(runs)
    centre = 3.0
    sums = np.zeros((runs, BLOCKS, 4))
    exact = np.zeros((runs, 4))
    answers = np.zeros((runs, len(KINDS)))
    sketches, kept = [], []
    for run, values in enumerate(populations):
        threshold = np.inf
        if taken:
            pilot = TailSketch(kept=EXTREME)
            pilot.add(values[order[run, : DEPTHS[0]]].ravel())
            threshold = pilot.threshold()
        moments = _moments(values, centre)
        small = values <= threshold
        sums[run] = (moments * small[..., None]).sum(axis=1)
        whole = moments.sum(axis=(0, 1))
        exact[run] = whole - sums[run].sum(axis=0)
        answers[run] = [kind.evaluate(whole[None], centre=centre)[0][0] for kind in KINDS]
        rest = values[small]
        sketches.append(TailSketch(centre=centre, bounds=(float(rest.min()), float(rest.max()))))
        kept.append(np.where(small, values, np.nan))
    sample = ClusterSample(blocks=BLOCKS, rows=ROWS, moments=4)
    evidence = Evidence(expressions=1)
    for number in range(max(DEPTHS)):
        drawn = order[:, number]
        block = sums[everyone, drawn]
        values = np.array([kept[run][drawn[run]] for run in everyone])
        sample.add(everyone, block, rows=ROWS // BLOCKS)
        evidence.add(
            everyone,
            pairs=block[:, 0],
            left_rows=block[:, 0],
            least=np.nanmin(values, axis=1, initial=np.inf)[:, None],
            most=np.nanmax(values, axis=1, initial=-np.inf)[:, None],
        )
        for sketch, some in zip(sketches, values, strict=True):
            sketch.add(some)
        if number + 1 in DEPTHS:
            totals = take_all(exact, sample.totals())
            result = judged(totals, evidence, sketches, centre=centre, layout=OrderCheck())
            holds = (answers >= result.low.T) & (answers <= result.high.T)
            for which in (1, 2):  # SUM and AVG
                yield (
                    number + 1,
                    which,
                    (
                        float(holds[:, which].mean()),
                        float((~result.trusted[which]).mean()),
                        float(np.median(result.relative[which])),
                    ),
                )


def _moments(values: Floats, centre: float) -> Floats:
    one = np.ones_like(values)
    return np.stack([one, one, values - centre, (values - centre) ** 2], axis=-1)


def stopping(*, runs: int, seed: int) -> Iterator[Stopped]:
    for name in ("FK", "Zipf keys", "1% filter"):
        for layout in ("random", "value-sorted", "drifting"):
            yield from _stopped(name, layout, runs=runs, seed=seed)


def _stopped(name: str, layout: str, *, runs: int, seed: int) -> Iterator[Stopped]:
    rng = np.random.default_rng([seed, 5, POPULATIONS.index(name), LAYOUTS.index(layout)])
    p = population(name, layout, rng)
    centre = float(p.values[:100].mean())
    pairs = Pairs.of(p, centre)
    unit = pairs.left // (ROWS // BLOCKS)
    units = Units.of(pairs, left=unit, right=unit, units=BLOCKS)
    answers = truth(pairs, centre)
    order = orders(BLOCKS, runs, rng)
    everyone = np.arange(runs)
    sample, evidence = ClusterSample(blocks=BLOCKS, rows=ROWS, moments=4), Evidence(expressions=1)
    shape = (len(TARGETS), len(KINDS), runs)
    at, held = np.full(shape, BLOCKS), np.zeros(shape, np.bool_)
    for number in range(BLOCKS - 1):
        drawn = order[:, number]
        sample.add(everyone, units.totals[drawn], rows=ROWS // BLOCKS)
        evidence.add(
            everyone,
            pairs=units.totals[drawn, 0],
            left_rows=units.left_rows[drawn],
            least=units.least[drawn, None],
            most=units.most[drawn, None],
        )
        if number + 1 < DEPTHS[0]:
            continue
        result = cells(sample.totals(), evidence, KINDS, centres=[centre])
        holds = (result.low <= answers[:, None]) & (answers[:, None] <= result.high)
        for which, target in enumerate(TARGETS):
            now = result.trusted & (result.relative <= target) & (at[which] == BLOCKS)
            at[which][now] = number + 1
            held[which][now] = holds[now]
    for which, target in enumerate(TARGETS):
        for number, quantity in enumerate(KINDS):
            if quantity.kind not in (Kind.SUM, Kind.AVG):
                continue
            early = at[which, number] < BLOCKS
            some = bool(early.any())
            yield Stopped(
                name,
                layout,
                quantity.kind.value,
                target,
                early=float(early.mean()),
                coverage=float(held[which, number, early].mean()) if some else None,
                blocks=float(np.median(at[which, number, early])) if some else None,
            )
