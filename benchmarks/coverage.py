"""Do the intervals hold what they promise, and do the flags warn where they do not?

    python -m benchmarks.coverage --seeds 31 32 --publish

Each population is joined once, and the totals of its blocks (or pairs of blocks) are kept. A
run draws a random order of the blocks and reads ahead to three depths; the estimators and
flags are the ones that queries use. Runs stand side by side as groups of one sample, so that
a thousand of them cost little more than one.

The thresholds of the flags were set on seeds 4 to 9 (populations and orders), and seeds 11 and
12 have been looked at. The figures in print are of seeds 31 and 32, looked at once.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from watersmeet.estimators import (
    Cells,
    ClusterSample,
    Evidence,
    Kind,
    OrderCheck,
    Quantity,
    RippleSample,
    TailSketch,
    Totals,
    cells,
)
from watersmeet.model import Side

ROWS = 20_000
KINDS = [Quantity(Kind.COUNT), *(Quantity(kind, 0) for kind in (Kind.SUM, Kind.AVG, Kind.STDDEV))]
POPULATIONS = ("1:1", "FK", "m:n", "Zipf keys", "Pareto 1.5", "1% filter")
LAYOUTS = ("random", "key-sorted", "value-sorted", "drifting")
# Blocks per side, and how many are read at each depth.
CLUSTER = (200, (20, 50, 100))
RIPPLE = (100, (20, 35, 60))
# Runs whose pairs of blocks are held at once.
AT_ONCE = 50
GOOD = 0.93
DESIGNS = ("cluster", "key ranges", "ripple")

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Population(NamedTuple):
    left: Integers  # join keys, in the order of the file
    right: Integers
    values: Floats  # of the left rows
    passes: NDArray[np.bool_]  # the filter, on the left


@dataclass(frozen=True)
class Outcome:
    """One cell of the matrix."""

    design: str
    population: str
    layout: str
    depth: int  # blocks read per sampled side
    aggregate: str
    coverage: float
    flagged: float  # share of the runs
    silent: float  # share of the runs that missed without a flag
    width: float  # median relative half-width
    classic: float | None  # our width over that of the classic ripple formula, same quantile
    reason: str  # the commonest

    @property
    def good(self) -> bool:
        return self.coverage >= GOOD

    @property
    def warned(self) -> bool:
        return self.flagged > 0.5


def population(name: str, layout: str, rng: np.random.Generator) -> Population:
    left = right = np.arange(ROWS)
    if name in ("FK", "Pareto 1.5", "1% filter"):
        right = np.arange(ROWS // 4)
        left = rng.integers(0, ROWS // 4, ROWS)
    elif name == "m:n":
        left = right = np.arange(ROWS) // 10
    elif name == "Zipf keys":
        shares = np.arange(1, 5001) ** -0.8
        left, right = (rng.choice(5000, ROWS, p=shares / shares.sum()) for _ in Side)
    values = rng.lognormal(0, 0.5, ROWS)
    if name == "Pareto 1.5":
        values = rng.pareto(1.5, ROWS) + 1
    passes = rng.random(ROWS) < (0.01 if name == "1% filter" else 1)
    # Numbers of keys must not say where their rows are.
    names = rng.permutation(ROWS)
    left, right = names[left], names[right]
    orders = rng.permutation(len(left)), rng.permutation(len(right))
    left, right, values = left[orders[0]], right[orders[1]], values[orders[0]]
    if layout == "key-sorted":
        order = np.argsort(left, kind="stable")
        left, right, values = left[order], np.sort(right), values[order]
    elif layout == "value-sorted":
        order = np.argsort(values)
        left, values = left[order], values[order]
    elif layout == "drifting":
        values = values * np.linspace(0.5, 1.5, ROWS)
    return Population(left, right, values, passes)


class Pairs(NamedTuple):
    """Every joined pair: its rows, and the moments it adds."""

    left: Integers
    right: Integers
    moments: Floats
    values: Floats

    @classmethod
    def of(cls, p: Population, centre: float) -> Pairs:
        order = np.argsort(p.right, kind="stable")
        ascending = p.right[order]
        start = np.searchsorted(ascending, p.left, "left")
        count = np.searchsorted(ascending, p.left, "right") - start
        count = np.where(p.passes, count, 0)
        left = np.repeat(np.arange(len(p.left)), count)
        within = np.arange(len(left)) - np.repeat(np.cumsum(count) - count, count)
        right = order[np.repeat(start, count) + within]
        values = p.values[left]
        one = np.ones_like(values)
        moments = np.stack([one, one, values - centre, (values - centre) ** 2], axis=1)
        return cls(left, right, moments, values)


class Units(NamedTuple):
    """What each block, or pair of blocks, contributes; arrays over unit numbers."""

    totals: Floats
    left_rows: Floats
    right_rows: Floats
    least: Floats
    most: Floats

    @classmethod
    def of(cls, pairs: Pairs, *, left: Integers, right: Integers, units: int) -> Units:
        """`left` and `right` are the unit of each pair as its left and right row see it."""
        totals: Floats = np.stack(
            [np.bincount(left, column, units).astype(np.float64) for column in pairs.moments.T],
            axis=1,
        )
        rows = []
        for unit, row in ((left, pairs.left), (right, pairs.right)):
            distinct = np.unique(unit.astype(np.int64) * ROWS + row)
            rows.append(np.bincount(distinct // ROWS, minlength=units).astype(float))
        least, most = np.full(units, np.inf), np.full(units, -np.inf)
        np.minimum.at(least, left, pairs.values)
        np.maximum.at(most, left, pairs.values)
        return cls(totals, rows[0], rows[1], least, most)


def truth(pairs: Pairs, centre: float) -> Floats:
    total = pairs.moments.sum(axis=0)[None]
    return np.array([kind.evaluate(total, centre=centre)[0][0] for kind in KINDS])


def orders(blocks: int, runs: int, rng: np.random.Generator) -> Integers:
    return np.argsort(rng.random((runs, blocks)), axis=1)


def judged(
    totals: Totals,
    evidence: Evidence,
    sketches: list[TailSketch],
    *,
    centre: float,
    layout: OrderCheck,
) -> Cells:
    """Cells of all runs. A sketch belongs to a query, so runs are split by what theirs says."""
    result = cells(totals, evidence, KINDS, centres=[centre], layout=layout)
    heavy = np.array([bool(sketch.reason()) for sketch in sketches])
    if heavy.any():
        sketch = sketches[int(np.argmax(heavy))]
        warned = cells(totals, evidence, KINDS, centres=[centre], layout=layout, tails=[sketch])
        result.trusted[:, heavy] = warned.trusted[:, heavy]
        result.reason[:, heavy] = warned.reason[:, heavy]
    return result


class Score:
    """Collects the runs of one design, population and layout."""

    def __init__(self, design: str, name: str, layout: str, exact: Floats) -> None:
        self.where = (design, name, layout)
        self.exact = exact
        self._cells: dict[int, list[Cells]] = {}
        self._classic: dict[int, list[Floats]] = {}

    def add(self, depth: int, result: Cells, classic: Floats | None = None) -> None:
        self._cells.setdefault(depth, []).append(result)
        if classic is not None:
            self._classic.setdefault(depth, []).append(classic)

    def outcomes(self) -> Iterator[Outcome]:
        for depth, parts in self._cells.items():
            joined = Cells(*(np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True)))
            exact = self.exact[:, None]
            # Rounding is no miss: a join where every block has the same ratio has no width.
            slack = 1e-9 * np.abs(exact)
            holds = (joined.low <= exact + slack) & (joined.high >= exact - slack)
            for number, kind in enumerate(KINDS):
                trusted = joined.trusted[number]
                reasons, counts = np.unique(joined.reason[number][~trusted], return_counts=True)
                classic = self._classic.get(depth)
                yield Outcome(
                    *self.where,
                    depth,
                    kind.kind.value,
                    coverage=float(holds[number].mean()),
                    flagged=float((~trusted).mean()),
                    silent=float((trusted & ~holds[number]).mean()),
                    width=float(np.nanmedian(joined.relative[number])),
                    classic=None
                    if classic is None
                    else float(np.nanmedian(np.concatenate(classic, axis=1)[number])),
                    reason=str(reasons[np.argmax(counts)]) if len(reasons) else "",
                )


def cluster(name: str, layout: str, *, runs: int, seed: int) -> Iterator[Outcome]:
    """Blocks of the left input, the right one complete."""
    rng = np.random.default_rng([seed, 1, POPULATIONS.index(name), LAYOUTS.index(layout)])
    p = population(name, layout, rng)
    centre = float(p.values[:100].mean())
    pairs = Pairs.of(p, centre)
    blocks, depths = CLUSTER
    rows = ROWS // blocks
    unit = pairs.left // rows
    units = Units.of(pairs, left=unit, right=unit, units=blocks)
    order = orders(blocks, runs, rng)
    sample, evidence = ClusterSample(blocks=blocks, rows=ROWS, moments=4), Evidence(expressions=1)
    everyone = np.arange(runs)
    bounds = float(p.values.min()), float(p.values.max())
    sketches = [TailSketch(centre=centre, bounds=bounds) for _ in everyone]
    values = [pairs.values[unit == block] for block in range(blocks)]
    score = Score("cluster", name, layout, truth(pairs, centre))
    known = 0  # blocks whose values the sketches have
    for number in range(max(depths)):
        drawn = order[:, number]
        sample.add(everyone, units.totals[drawn], rows=rows)
        evidence.add(
            everyone,
            pairs=units.totals[drawn, 0],
            left_rows=units.left_rows[drawn],
            least=units.least[drawn, None],
            most=units.most[drawn, None],
        )
        if number + 1 in depths:
            for run, sketch in enumerate(sketches):
                sketch.add(np.concatenate([values[b] for b in order[run, known : number + 1]]))
            known = number + 1
            result = judged(sample.totals(), evidence, sketches, centre=centre, layout=OrderCheck())
            score.add(number + 1, result)
    yield from score.outcomes()


def key_ranges(name: str, *, runs: int, seed: int) -> Iterator[Outcome]:
    """Both inputs sorted by the key: a block is a range of keys of both."""
    rng = np.random.default_rng([seed, 2, POPULATIONS.index(name)])
    p = population(name, "key-sorted", rng)
    centre = float(p.values[:100].mean())
    pairs = Pairs.of(p, centre)
    blocks, depths = CLUSTER
    # A range ends where a key ends, so a hot key makes a large range.
    ends = np.unique(p.left[ROWS // blocks :: ROWS // blocks])
    of_row = np.searchsorted(ends, p.left, "right")
    blocks = len(ends) + 1
    rows = np.bincount(of_row, minlength=blocks)
    unit = of_row[pairs.left]
    units = Units.of(pairs, left=unit, right=unit, units=blocks)
    values = [pairs.values[unit == block] for block in range(blocks)]
    score = Score("key ranges", name, "key-sorted", truth(pairs, centre))
    zero = np.zeros(1, np.int64)
    bounds = float(p.values.min()), float(p.values.max())
    for order in orders(blocks, runs, rng):
        sample = ClusterSample(blocks=blocks, rows=ROWS, moments=4)
        evidence, sketch = Evidence(expressions=1), TailSketch(centre=centre, bounds=bounds)
        for number, block in enumerate(order[: max(depths)]):
            sample.add(zero, units.totals[block, None], rows=int(rows[block]))
            evidence.add(
                zero,
                pairs=units.totals[block, :1],
                left_rows=units.left_rows[block, None],
                least=units.least[block, None, None],
                most=units.most[block, None, None],
            )
            sketch.add(values[block])
            if number + 1 in depths:
                score.add(
                    number + 1,
                    judged(sample.totals(), evidence, [sketch], centre=centre, layout=OrderCheck()),
                )
    yield from score.outcomes()


def ripple(name: str, layout: str, *, runs: int, seed: int) -> Iterator[Outcome]:
    """Blocks of both inputs."""
    rng = np.random.default_rng([seed, 3, POPULATIONS.index(name), LAYOUTS.index(layout)])
    p = population(name, layout, rng)
    centre = float(p.values[:100].mean())
    pairs = Pairs.of(p, centre)
    blocks, depths = RIPPLE
    sizes = [len(keys) // blocks for keys in (p.left, p.right)]
    unit = pairs.left // sizes[0] * blocks + pairs.right // sizes[1]
    units = Units.of(pairs, left=unit, right=unit, units=blocks**2)
    # A left row shows its value once it has met a partner: one of them stands for all.
    shown, partner = np.unique(pairs.left, return_index=True)
    places = shown // sizes[0], pairs.right[partner] // sizes[1]
    bounds = float(p.values.min()), float(p.values.max())
    score = Score("ripple", name, layout, truth(pairs, centre))
    for first in range(0, runs, AT_ONCE):
        some = np.arange(min(AT_ONCE, runs - first))
        drawn = [orders(blocks, len(some), rng) for _ in Side]
        for depth in depths:
            sample = RippleSample(
                blocks=(blocks, blocks), rows=(len(p.left), len(p.right)), moments=4
            )
            for side in Side:
                for block in range(depth):
                    sample.read(side, block, rows=sizes[side])
            run, b, c = (axis.ravel() for axis in np.mgrid[: len(some), :depth, :depth])
            cell = drawn[0][run, b] * blocks + drawn[1][run, c]
            full = units.totals[cell, 0] > 0
            run, b, c, cell = run[full], b[full], c[full], cell[full]
            sample.add(b, c, run, units.totals[cell])
            evidence = Evidence(expressions=1)
            evidence.add(some, pairs=np.zeros(len(some)))
            evidence.add(
                run,
                pairs=units.totals[cell, 0],
                left_rows=units.left_rows[cell],
                right_rows=units.right_rows[cell],
                least=units.least[cell, None],
                most=units.most[cell, None],
            )
            sketches = []
            for left, right in zip(*drawn, strict=True):
                read = np.zeros((2, blocks), np.bool_)
                read[0, left[:depth]] = read[1, right[:depth]] = True
                sketch = TailSketch(centre=centre, bounds=bounds)
                sketch.add(p.values[shown[read[0, places[0]] & read[1, places[1]]]])
                sketches.append(sketch)
            totals = sample.totals()
            result = judged(totals, evidence, sketches, centre=centre, layout=OrderCheck())
            assert totals.floor is not None
            # The classic formula is twice the floor; the quantile is the same.
            loose = totals._replace(covariance=2 * totals.floor)
            classic = cells(loose, evidence, KINDS, centres=[centre])
            with np.errstate(invalid="ignore", divide="ignore"):
                ratio = result.relative / classic.relative
            score.add(depth, result, ratio)
    yield from score.outcomes()


def matrix(*, runs: int, seed: int, designs: list[str]) -> Iterator[Outcome]:
    for name in POPULATIONS:
        if "key ranges" in designs:
            yield from key_ranges(name, runs=runs, seed=seed)
        for layout in LAYOUTS:
            if "cluster" in designs:
                yield from cluster(name, layout, runs=runs, seed=seed)
            if "ripple" in designs:
                yield from ripple(name, layout, runs=runs, seed=seed)


def table(outcomes: list[Outcome]) -> str:
    lines = [
        "| design | population | layout | blocks | "
        + " | ".join(k.kind.value for k in KINDS)
        + " |",
        "|---|---|---|---|" + "---|" * len(KINDS),
    ]
    rows: dict[tuple[str, str, str, int], list[str]] = {}
    for o in outcomes:
        flag = f" ⚑{o.flagged:.0%}" if o.flagged >= 0.005 else ""
        text = f"{100 * o.coverage:.1f}{flag} ±{o.width:.1%}"
        rows.setdefault((o.design, o.population, o.layout, o.depth), []).append(text)
    lines += [
        "| " + " | ".join(map(str, key)) + " | " + " | ".join(texts) + " |"
        for key, texts in rows.items()
    ]
    return "\n".join(lines)


def summary(outcomes: list[Outcome]) -> str:
    good = [o for o in outcomes if o.good]
    silent = [o for o in outcomes if not o.good and not o.warned]
    ratios = [
        o.classic
        for o in outcomes
        if o.classic is not None
        and o.population in ("1:1", "FK")
        and o.layout == "random"
        and o.aggregate in ("count", "sum")
    ]
    lines = [
        f"{len(outcomes)} cells, {len(good)} with coverage of at least {GOOD:.0%}.",
        f"Below {GOOD:.0%} without a flag in most runs: {len(silent)}.",
        f"Most misses without a flag in one cell: {max(o.silent for o in outcomes):.1%} of runs.",
        f"Good cells flagged in most runs: {sum(o.warned for o in good)} of {len(good)}.",
        f"Good cells, share of runs flagged: {np.mean([o.flagged for o in good]):.1%}.",
    ]
    if ratios:
        lines.append(
            "Width over the classic ripple formula, 1:1 and FK: "
            f"{min(ratios):.2f} to {max(ratios):.2f}."
        )
    for o in silent:
        lines.append(
            f"  silent: {o.design}, {o.population}, {o.layout}, {o.depth}, {o.aggregate}: "
            f"{o.coverage:.1%}, flagged {o.flagged:.0%}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[31])
    parser.add_argument("--designs", nargs="+", default=list(DESIGNS), choices=DESIGNS)
    parser.add_argument("--json", type=Path, help="where to write every cell")
    parser.add_argument("--publish", action="store_true", help="write docs/coverage.md")
    arguments = parser.parse_args()
    seeds = {}
    for seed in arguments.seeds:
        outcomes = list(matrix(runs=arguments.runs, seed=seed, designs=arguments.designs))
        print(f"{table(outcomes)}\n\nSeed {seed}. {summary(outcomes)}", flush=True)
        seeds[seed] = outcomes
    if arguments.json:
        rows = {seed: [asdict(outcome) for outcome in found] for seed, found in seeds.items()}
        arguments.json.write_text(json.dumps({"runs": arguments.runs, "seeds": rows}, indent=1))
    if arguments.publish:
        # These build on this module.
        from benchmarks.coverage_extras import extremes, stopping
        from benchmarks.coverage_page import publish

        first, runs = arguments.seeds[0], arguments.runs
        publish(
            seeds,
            list(extremes(runs=runs, seed=first)),
            list(stopping(runs=runs, seed=first)),
            runs=runs,
        )


if __name__ == "__main__":
    main()
