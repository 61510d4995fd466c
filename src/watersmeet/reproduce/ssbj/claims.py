"""What SSBJ's sections 3 and 4 claim, each with a rule.

The paper's numbers are checked as they stand. Service rates are those with a disk of the paper's
time; the rates of this machine alone are beside them. That a row without skew costs no more is
checked with 0.95, and the cost model with 20%: both were chosen before anything was run. The other
tolerances were chosen when small runs had been seen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from watersmeet.reproduce.claim import Claim
from watersmeet.reproduce.ssbj.model import MostGain, loop_seconds, predicted_rate
from watersmeet.reproduce.ssbj.runs import Runs
from watersmeet.reproduce.ssbj.settings import (
    HERE,
    HISTORY,
    MASTER_BYTES,
    MESHJOIN,
    SSBJ,
    WEATHER,
    Experiments,
    Point,
    Workload,
)

NO_LOSS = 0.95
NEAR = 0.20
SAME_RATE = 0.05

# Reasons that were found by looking at what the joins did and at what is possible; each is shown
# only if its claim does not hold.

NOT_POSSIBLE = (
    "Theorem 1 says how much memory is least: every value where it takes less. With the paper's "
    "own rows of 20 and 120 bytes, its pointers of 4 bytes, 100 million values by Zipf's law with "
    "exponent 1, and nothing else in memory, a cache can serve at most 4.0 times MESHJOIN's rows "
    "in a cycle with 1% of R, and 6.3 times with 10%; for the same rows MESHJOIN needs at most "
    "3.4 and 4.6 times the memory (reproduce/ssbj/model.py). The paper's 7 to 8 times and 5 to 7 "
    "times are above that, so they cannot come from the memory that the cache saves. Perhaps they "
    "come from the implementation: a row in H_S cost it far more time than a row in the cache, or "
    "its stream had fewer values than the text says. Here rows in memory take more than their "
    "bytes (an index, a stamp, an entry of the cache), and tables are smaller, both of which "
    "lower what is possible."
)

NO_SKEW_THERE = (
    "Orders of TPC-H have no skew: each of two thirds of the customers is asked for equally "
    "often. With 10% of memory some 0.1 orders of a customer wait at a time, and the cache "
    "inequality asks for more than one, so SSBJ rightly caches nothing and is MESHJOIN. The paper "
    "says that it adapted the data, without saying how; as generated, its own inequality allows "
    "no gain."
)

ALIKE = (
    "If a value has many master rows because it has many stream rows, the inequality says the "
    "same of all values: m * vR < n * vS becomes R * vR < N * vS, where N are the rows that wait. "
    "Memory for 10% of R never has so many. So nothing is cached, and SSBJ is MESHJOIN with "
    "counters."
)

PASSING = (
    "Flights come in the order of time, so an hour that many flights ask for now is never asked "
    "for again, and SSBJ takes two cycles to move it into the cache. The paper assumes that the "
    "frequency of a value stays the same for a while (section 3). That explains no gain; why SSBJ "
    "may be slower than MESHJOIN here has not been looked into."
)

COUNTING = (
    "Three states cost time that MESHJOIN does not spend: master rows of waiting values are "
    "counted in one cycle of three, and waiting values are sorted in another. That is processor "
    "time, which other programs on the machine make longer."
)

ONE_RATE = (
    "In figure 5f the paper's arrival rate is constant, and here rows come as fast as they are "
    "served. A share of 54% can at most give 1 / (1 - 0.54) = 2.2 times MESHJOIN's rate in the "
    "same memory, so the paper's figures 5a and 5f cannot be of the same runs."
)

OFF = (
    "The constants are measured one by one, in seconds of the thread. What other programs do to "
    "the processor's caches shows in them and in the run, perhaps not by the same amount. That "
    "this is all has not been shown."
)

FLOODED = (
    "Here rows come faster than the scan goes, without end. SSBJ moves a value every third cycle, "
    "if many of its rows wait at that moment, so it takes some fifty cycles. Of the default of "
    "this package it is only suspected, from its code, that waiting rows leave no room at the "
    "moment at which a value could be cached."
)

FLAT = (
    "Around 1 the curve is flat: values near the limit cost as much in the cache as outside, so "
    "it matters little where they are, and a few per cent are noise."
)


def claims(each: Experiments, runs: Runs) -> list[Claim]:
    found = [_memory(runs, point, (7.0, 7.0)) for point in each.rates]
    found += [_memory(runs, point, (5.0, 7.0)) for point in each.sizes_at_rate]
    found += [_faster(runs, p, times=t) for p, t in _ends(each.memories, (7.0, 8.0))]
    found += [_faster(runs, p, times=t) for p, t in _ends(each.sizes_in_memory, (7.0, 5.7))]
    found += [_possible(runs, point) for point in each.memories]
    found.append(_no_loss(runs, each.skews[0]))
    found.append(_more_with_skew(runs, each.skews))
    found += [_customers(runs, p, t) for p, t in _ends(each.customers, (3.4, 7.4))]
    found += [_real(runs, p, WEATHER, PASSING) for p in each.real[WEATHER]]
    found += [_real(runs, p, HISTORY, ALIKE) for p in each.real[HISTORY]]
    found += [_through(runs, p, s) for p, s in _ends(each.memories, (0.39, 0.54))]
    found.append(_main_memory(runs, each.whole))
    found.append(_factor(runs, each.factors))
    found.append(_buffer(runs, each.portions))
    for skew, points in ((0, each.steady), (1, each.memories)):
        found += [_model(runs, points, name, skew) for name in (SSBJ, MESHJOIN)]
        found += [_planned(runs, points, name, skew) for name in (SSBJ, MESHJOIN)]
    found += [_here(runs, point) for point in (*each.memories, *each.skews[:-1])]
    found.append(_exact(runs))
    return found


def _ends(points: Sequence[Point], values: tuple[float, float]) -> list[tuple[Point, float]]:
    """The first and the last point, for which the paper gives numbers."""
    return [(points[0], values[0]), (points[-1], values[1])]


def _gain(runs: Runs, workload: Workload, name: str = SSBJ) -> float:
    return runs[workload, name].rate / runs[workload, MESHJOIN].rate


def _gain_here(runs: Runs, workload: Workload, name: str = SSBJ) -> float:
    return runs[workload, name].rate_here / runs[workload, MESHJOIN].rate_here


def _possible_words(runs: Runs, workload: Workload) -> str:
    run = runs[workload, MESHJOIN]
    data = workload.data
    paper = MostGain(data.rows, data.skew)
    memory = workload.memory * run.master_rows * MASTER_BYTES
    here = _most_here(runs, workload)
    return f"possible: {paper.in_memory(memory):.1f} with the paper's bytes, {here:.1f} with ours"


def _most_here(runs: Runs, workload: Workload) -> float:
    run = runs[workload, SSBJ]
    assert run.measured is not None
    most = MostGain(workload.data.rows, workload.data.skew, run.measured.sizes)
    return most.in_memory(0.75 * run.limit)


def _memory(runs: Runs, point: Point, times: tuple[float, float]) -> Claim:
    ssbj, meshjoin = (runs[point.workload, name] for name in (SSBJ, MESHJOIN))
    ratio = meshjoin.memory / ssbj.memory
    data = point.workload.data
    most = MostGain(data.rows, data.skew).memory(meshjoin.rows_a_cycle)
    low, high = times
    paper = f"about {low:g} times" if low == high else f"{high:g} to {low:g} times"
    return Claim(
        topic="Figure 4: MESHJOIN uses several times SSBJ's memory at the same rate",
        where=point.words,
        paper=f"{paper} more memory",
        check=f"at least {low:g} times, at rates within 5% of what arrives",
        measured=f"{meshjoin.memory / 1e6:.1f} MB and {ssbj.memory / 1e6:.1f} MB: {ratio:.1f} "
        f"times; possible: {most:.1f} with the paper's bytes",
        holds=ratio >= low and abs(ssbj.rate / meshjoin.rate - 1) <= SAME_RATE,
        why_not=NOT_POSSIBLE,
    )


def _faster(runs: Runs, point: Point, *, times: float) -> Claim:
    workload = point.workload
    bound = f"; {_possible_words(runs, workload)}" if runs[workload, SSBJ].measured else ""
    return Claim(
        topic="Figure 5: SSBJ serves several times MESHJOIN's rate in the same memory",
        where=point.words,
        paper=f"{times:g} times faster",
        check=f"the service rate is at least {times:g} times MESHJOIN's",
        measured=f"{_gain(runs, workload):.2f} times, on this machine without a disk "
        f"{_gain_here(runs, workload):.2f} times{bound}",
        holds=_gain(runs, workload) >= times,
        why_not=NOT_POSSIBLE,
    )


def _possible(runs: Runs, point: Point) -> Claim:
    """Not in the paper: how near its algorithm comes to its own theorem."""
    workload = point.workload
    ssbj, meshjoin = (runs[workload, name] for name in (SSBJ, MESHJOIN))
    gain, most = ssbj.rows_a_cycle / meshjoin.rows_a_cycle, _most_here(runs, workload)
    return Claim(
        topic="Theorem 1: SSBJ's use of memory is the best there is",
        where=point.words,
        paper="the overall memory consumption is minimal",
        check="rows of a cycle, beside MESHJOIN's, are at least 0.8 of what the theorem gives",
        measured=f"{gain:.2f} times; {most:.2f} times by the theorem",
        holds=gain >= 0.8 * most,
        why_not="Values are chosen by how many of their rows wait at one moment, which is a "
        "small number and often chance, and cached values wait ten cycles for their eviction.",
    )


def _no_loss(runs: Runs, point: Point) -> Claim:
    gain = _gain(runs, point.workload)
    return Claim(
        topic="Figure 5c: SSBJ loses nothing where there is no skew",
        where=point.words,
        paper="as soon as the data has even a slight skew, SSBJ starts to perform better",
        check=f"the service rate is at least {NO_LOSS:g} of MESHJOIN's",
        measured=f"{gain:.2f} times, without a disk {_gain_here(runs, point.workload):.2f} times",
        holds=gain >= NO_LOSS,
        why_not=COUNTING,
    )


def _more_with_skew(runs: Runs, points: Sequence[Point]) -> Claim:
    gains = [_gain(runs, point.workload) for point in points]
    return Claim(
        topic="Figure 5c: the more skew, the more SSBJ gains",
        where="10% memory",
        paper="this difference becomes more pronounced for increasing skew values",
        check="the ratio of the rates falls by no more than 5% at any step, and is largest last",
        measured=_list(points, [f"{gain:.2f}" for gain in gains]),
        holds=bool(np.all(np.diff(gains) >= -0.05)) and max(gains) == gains[-1],
    )


def _customers(runs: Runs, point: Point, times: float) -> Claim:
    workload = point.workload
    run = runs[workload, SSBJ]
    return Claim(
        topic="Figure 5d: TPC-H, Customer and Orders",
        where=point.words,
        paper=f"{times:g} times better" + (" (1% of R)" if times < 4 else ""),
        check=f"the service rate is at least {times:g} times MESHJOIN's",
        measured=f"{_gain(runs, workload):.2f} times; {run.cached:.1%} through the cache; the "
        f"default here {_gain(runs, workload, HERE):.2f} times",
        holds=_gain(runs, workload) >= times,
        why_not=NO_SKEW_THERE,
    )


def _real(runs: Runs, point: Point, kind: str, why_not: str) -> Claim:
    workload = point.workload
    run = runs[workload, SSBJ]
    which = "the weather of their hour" if kind == WEATHER else "all flights of their plane"
    return Claim(
        topic="Figure 5e: real data",
        where=f"flights and {which}, {point.words}",
        paper="SSBJ outperforms MESHJOIN under all memory settings",
        check="the service rate is above MESHJOIN's",
        measured=f"{_gain(runs, workload):.2f} times; {run.cached:.1%} through the cache; the "
        f"default here {_gain(runs, workload, HERE):.2f} times",
        holds=_gain(runs, workload) > 1,
        why_not=why_not,
    )


def _through(runs: Runs, point: Point, share: float) -> Claim:
    found = runs[point.workload, SSBJ].cached
    return Claim(
        topic="Figure 5f: the share of stream rows that the cache serves",
        where=point.words,
        paper=f"{share:.0%}",
        check=f"at least {share:.0%}",
        measured=f"{found:.1%}; the default here {runs[point.workload, HERE].cached:.1%}",
        holds=found >= share,
        why_not=ONE_RATE,
    )


def _main_memory(runs: Runs, workload: Workload) -> Claim:
    ssbj, here = (runs[workload, name] for name in (SSBJ, HERE))
    return Claim(
        topic="Theorem 3: with memory for all of R, SSBJ is a hash join in memory",
        where=f"{ssbj.master_rows:,} rows of R, skew 0",
        paper="it moves the whole of R into the cache",
        check="at least 99% of the rows are served by the cache, and so with the default here",
        measured=f"{ssbj.cached:.2%}, default {here.cached:.2%}; "
        f"{ssbj.cache_bytes / 1e6:.0f} MB and {here.cache_bytes / 1e6:.0f} MB of cache",
        holds=min(ssbj.cached, here.cached) >= 0.99,
        why_not=FLOODED,
    )


def _factor(runs: Runs, points: Sequence[Point]) -> Claim:
    rates = {point.x: runs[point.workload, SSBJ].rate for point in points}
    return Claim(
        topic="Figure 6a: a switching factor other than 1 makes it slower",
        where="10% memory, skew 1",
        paper="the optimal setting was 1",
        check="no other factor has a rate more than 2% above that of 1",
        measured=_list(points, [f"{rate / 1e3:,.0f} thousand" for rate in rates.values()]),
        holds=max(rates.values()) <= 1.02 * rates[1.0],
        why_not=FLAT,
    )


def _buffer(runs: Runs, points: Sequence[Point]) -> Claim:
    rates = [runs[p.workload, SSBJ].rate * (1 - runs[p.workload, SSBJ].cached) for p in points]
    best = int(np.argmax(rates))
    return Claim(
        topic="Figure 6b: the disk buffer has a best size",
        where="2% memory, every read seeks",
        paper="the rate improves up to a certain size, and is affected adversely after that",
        check="neither the smallest nor the largest is best",
        measured=", ".join(
            f"{point.x:.2f} MB: {rate / 1e3:,.1f} thousand"
            for point, rate in zip(points, rates, strict=True)
        ),
        holds=0 < best < len(rates) - 1,
    )


def _model(runs: Runs, points: Sequence[Point], name: str, skew: int) -> Claim:
    measured = [runs[point.workload, name].loop_seconds for point in points]
    calculated = [loop_seconds(runs[point.workload, name]) for point in points]
    off = [c / m - 1 for c, m in zip(calculated, measured, strict=True)]
    return Claim(
        topic="Figure 6c, d: the calculated c_loop is the measured one",
        where=f"{_label(name)}, skew {skew}",
        paper="the calculated cost closely resembled the measured cost",
        check=f"within {NEAR:.0%} at every size of memory",
        measured=", ".join(
            f"{point.x:g}%: {1e3 * c:.2f} of {1e3 * m:.2f} ms"
            for point, c, m in zip(points, calculated, measured, strict=True)
        ),
        holds=max(map(abs, off)) <= NEAR,
        why_not=OFF,
    )


def _planned(runs: Runs, points: Sequence[Point], name: str, skew: int) -> Claim:
    measured = [runs[point.workload, name].rate_here for point in points]
    planned = [predicted_rate(runs[point.workload, name]) for point in points]
    off = [p / m - 1 for p, m in zip(planned, measured, strict=True)]
    return Claim(
        topic="Equations 1 to 6: the rate that a memory limit gives, foretold",
        where=f"{_label(name)}, skew {skew}, this machine",
        paper="the cost model interrelates memory and service rate",
        check=f"within {NEAR:.0%} at every size of memory",
        measured=", ".join(
            f"{point.x:g}%: {p / 1e3:,.0f} of {m / 1e3:,.0f} thousand"
            for point, p, m in zip(points, planned, measured, strict=True)
        ),
        holds=max(map(abs, off)) <= NEAR,
        why_not=OFF,
    )


def _here(runs: Runs, point: Point) -> Claim:
    """Not in the paper: the default of this package."""
    workload = point.workload
    rates = {name: runs[workload, name] for name in (HERE, SSBJ, MESHJOIN)}
    best = max(rates[SSBJ].rate, rates[MESHJOIN].rate)
    best_here = max(rates[SSBJ].rate_here, rates[MESHJOIN].rate_here)
    ratios = rates[HERE].rate / best, rates[HERE].rate_here / best_here
    return Claim(
        topic="Not in the paper: the default of this package is at least as fast",
        where=f"skew {workload.data.skew:g}, {workload.memory:.0%} of R",
        paper="all of the master table is read again and again",
        check="its rate is at least that of the faster of SSBJ and MESHJOIN, and so without a disk",
        measured=f"{ratios[0]:.2f} times, without a disk {ratios[1]:.2f} times; "
        f"{_gain(runs, workload, HERE):.2f} times MESHJOIN",
        holds=min(ratios) >= 1,
        why_not="When hardly two rows wait for a block, blocks are passed over, and a disk that "
        "has to go elsewhere each time takes longer than one that reads on.",
    )


def _exact(runs: Runs) -> Claim:
    wrong = [f"{run.algorithm} ({run.workload})" for run in runs.values() if not run.exact]
    return Claim(
        topic="All runs have the same, exact join",
        where=f"{len(runs)} runs",
        paper="the exact join between a stream and master data",
        check="as many results as the keys of the stream rows have in the master table",
        measured="all are exact" if not wrong else "wrong: " + "; ".join(wrong),
        holds=not wrong,
    )


def _list(points: Sequence[Point], values: Sequence[str]) -> str:
    return ", ".join(f"{point.x:g}: {value}" for point, value in zip(points, values, strict=True))


def _label(name: str) -> str:
    return name.upper()
