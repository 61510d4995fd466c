"""Do intervals hold what they promise on real files, in the cells that a run itself trusts?

    python -m benchmarks.coverage_files --data once --json once.json --publish

Each situation is a Parquet file that is hard in its own way. Its blocks are read and joined once,
by the engine that queries use; then many runs draw their blocks in other orders, through the same
planner, looks, ledger, estimators and flags. `check` reads some of them from the files once more.
Counted are only cells that their run calls trusted: of those, 95% should hold the exact value.

Thresholds were set on the data "tuned" and on files of no name; what is printed is of "once": other
distributions, other sizes, other factors, other seeds, run once after the last change.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from benchmarks.sales import DATA, Asked
from benchmarks.situations import SITUATIONS
from watersmeet.aggregates.allowance import Allowance
from watersmeet.aggregates.ask.question import AggregateQuestion, ResolvedQuestion
from watersmeet.aggregates.ask.settings import Settings
from watersmeet.aggregates.block_reading import OneSide, Readings
from watersmeet.aggregates.partials.totals import BlockTotals
from watersmeet.aggregates.run import AggregateRun
from watersmeet.aggregates.sampling.designs import RANGES, RIPPLE
from watersmeet.aggregates.sampling.looks import Look
from watersmeet.aggregates.sampling.plan import ReadPlan, Table
from watersmeet.aggregates.sampling.planner import plan_reads
from watersmeet.local.aggregate import _describe, aggregate
from watersmeet.local.blocks import BlockTable, open_table
from watersmeet.local.engine import ThreadEngine
from watersmeet.model import Side

RUNS = 250
GOOD = 0.93
# Fewer trusted cells than this share say nothing about how often they hold.
FEW = 0.02
MEMORY = 1 << 30


def blocks_of(run: AggregateRun) -> OneSide:
    reading = run._reading
    assert isinstance(reading, OneSide)
    return reading


@dataclass(frozen=True)
class Outcome:
    """One aggregate of one situation, at one look or at all of them."""

    situation: str
    aggregate: str
    look: int  # 0: all
    cells: int
    trusted: int
    held: int  # of the trusted
    all_held: int
    width: float  # median relative half-width of the trusted
    reason: str  # the commonest

    @property
    def coverage(self) -> float:
        return self.held / self.trusted if self.trusted else float("nan")

    @property
    def flagged(self) -> float:
        return 1 - self.trusted / max(self.cells, 1)


class Replay:
    """Blocks that were read before, once more in another order. It is its own engine."""

    def __init__(self, found: dict[int, BlockTotals], plan: Any, tables: Any) -> None:
        self._found = found
        self._sampled = plan.sampled
        self._ranges = plan.design is RANGES
        self._tables = tables

    def totals(self, look: Look) -> list[BlockTotals]:
        # In the order of the engine: the first of them sets the centre of the squares.
        return [self._found[block] for block in sorted(look.blocks[self._sampled], key=self._key)]

    def _key(self, block: int) -> Any:
        keys = self._tables[self._sampled].blocks[block].keys if self._ranges else None
        return keys or (0, 0), block

    def one_side(self, plan: ReadPlan) -> Self:
        return self

    def both_sides(self, plan: ReadPlan) -> Self:
        return self

    def rows_of(self, side: Side, block: int) -> int:
        return int(self._tables[side].blocks[block].rows)

    def narrowed(self, question: ResolvedQuestion) -> Self:
        return self

    def way(self, side: Side) -> str:
        return "replayed"

    def cancel(self) -> None: ...

    def close(self) -> None: ...


def _opened(source: Any, side: Side) -> BlockTable:
    table = open_table(source, side=side)
    assert table is not None, "files and tables are read in blocks"
    return table


class Situation:
    """A question about files, with the totals of every block."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        question = AggregateQuestion.parse(
            asked.on, "inner", group_by=asked.group_by, where=asked.where,
            aggregates=asked.aggregates,
        )  # fmt: skip
        tables = tuple(
            _opened(path, side) for path, side in zip((asked.left, asked.right), Side, strict=True)
        )
        self.question = question.resolve((tables[0].schema, tables[1].schema))
        self.described: tuple[Table, Table] = _describe((tables[0], tables[1]), self.question)
        plan = self.plan = plan_reads(
            self.described, self.question.how, memory=MEMORY, seed=0,
            alike=self.question.ordered_alike,
            expressions=self.question.aggregates.expressions,
            filters=self.question.sides,
        )  # fmt: skip
        assert plan.design is not RIPPLE
        engine = ThreadEngine(
            (tables[0], tables[1]), self.question, plan, self.described,
            Allowance(MEMORY, os.cpu_count() or 1),
        )  # fmt: skip
        everything = plan.orders[plan.sampled]
        both = (everything, ()) if plan.sampled is Side.LEFT else ((), everything)
        self.found = {each.block: each for each in engine.totals(Look(both, last=False))}
        engine.close()
        self.replay = Replay(self.found, plan, self.described)

    def run(self, seed: int) -> AggregateRun:
        settings = Settings.parse(0.95, simultaneous=False, every_look=False, heavy_tails="flag")
        readings = Readings(self.question, self.described, self.replay, settings)
        return AggregateRun(readings.of(self.plan.drawn(seed)), settings=settings)

    def real(self, seed: int) -> AggregateRun:
        """The same through the files."""
        asked = self.asked
        aggregates: Any = dict(asked.aggregates)
        return aggregate(
            asked.left, asked.right, on=asked.on, group_by=asked.group_by, where=asked.where,
            seed=seed, **aggregates,
        )  # fmt: skip


def outcomes(name: str, situation: Situation, *, runs: int, first: int = 0) -> Iterator[Outcome]:
    with situation.run(first) as run:
        exact = run.exact()
        truth = _by_group(exact)
    kinds = list(exact.names)
    counts: dict[tuple[str, int], list[Any]] = defaultdict(lambda: [0, 0, 0, 0, [], []])
    for seed in range(first, first + runs):
        with situation.run(seed) as run:
            for number in range(len(blocks_of(run).looks.stops) - 1):
                look = run._advance(ahead=False)
                _count(counts, look, truth, number + 1, kinds)
    for (kind, depth), (cells, trusted, held, every, widths, reasons) in sorted(counts.items()):
        texts, times = np.unique(reasons or [""], return_counts=True)
        yield Outcome(
            name, kind, depth, cells, trusted, held, every,
            float(np.median(widths)) if widths else float("nan"),
            str(texts[np.argmax(times)]),
        )  # fmt: skip


def _count(counts: Any, look: Any, truth: Any, number: int, kinds: list[str]) -> None:
    groups = _groups(look)
    for place, kind in enumerate(kinds):
        cells = look.cells
        for group, key in enumerate(groups):
            value = truth[key][place]
            low, high = cells.low[place, group], cells.high[place, group]
            slack = 1e-9 * abs(value)
            holds = bool(low - slack <= value <= high + slack)
            trusted = bool(cells.trusted[place, group])
            for which in (0, number):
                count = counts[kind, which]
                count[0] += 1
                count[1] += trusted
                count[2] += trusted and holds
                count[3] += holds
                if trusted:
                    count[4].append(float(cells.relative[place, group]))
                else:
                    count[5].append(_words(cells.reason[place, group]))


def _words(reason: str) -> str:
    return "".join(letter for letter in reason if not letter.isdigit())


def _groups(look: Any) -> list[Any]:
    if not look.groups:
        return [()]
    return list(zip(*(values.to_pylist() for values in look.groups), strict=True))


def _by_group(exact: Any) -> dict[Any, list[float]]:
    values = exact.cells.value
    return {key: values[:, place].tolist() for place, key in enumerate(_groups(exact))}


def check(situation: Situation, seed: int) -> None:
    """The replayed estimates are those of the real engine, to the last digit but rounding."""
    with situation.run(seed) as replayed, situation.real(seed) as real:
        for _ in range(len(blocks_of(real).looks.stops) - 1):
            mine, theirs = replayed._advance(ahead=False), real._advance(ahead=False)
            order = {key: place for place, key in enumerate(_groups(mine))}
            places = [order[key] for key in _groups(theirs)]
            for name in ("value", "low", "high", "trusted"):
                ours = getattr(mine.cells, name)[:, places].astype(float)
                np.testing.assert_allclose(
                    ours, getattr(theirs.cells, name).astype(float), rtol=1e-9
                )


def measured(
    names: Iterable[str], *, data: str, runs: int, first: int, checked: int = 1
) -> Iterator[Outcome]:
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            situation = Situation(SITUATIONS[name](DATA[data], Path(folder)))
            for seed in range(checked):
                check(situation, first + seed)
            yield from outcomes(name, situation, runs=runs, first=first)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--data", choices=list(DATA), default="once")
    parser.add_argument("--first", type=int, help="the first seed of the orders")
    parser.add_argument("--only", nargs="*", help="situations whose names hold one of these")
    parser.add_argument("--looks", action="store_true", help="every look in a line of its own")
    parser.add_argument("--json", type=Path, help="where to write every line")
    parser.add_argument("--publish", nargs="*", type=Path, metavar="JSON",
                        help="write docs/coverage.md, from kept results too")  # fmt: skip
    arguments = parser.parse_args()
    names = [
        name for name in SITUATIONS
        if not arguments.only or any(part in name for part in arguments.only)
    ]  # fmt: skip
    first = DATA[arguments.data].first_order if arguments.first is None else arguments.first
    found = []
    for each in measured(names, data=arguments.data, runs=arguments.runs, first=first):
        found.append(each)
        if each.look == 0 or arguments.looks:
            mark = "  " if each.coverage >= GOOD or each.trusted < FEW * each.cells else "!!"
            print(
                f"{mark} {each.situation:34} {each.aggregate:7} look {each.look} "
                f"trusted {1 - each.flagged:6.1%} hold {each.coverage:6.1%} "
                f"(all {each.all_held / each.cells:6.1%}) ±{each.width:.2%}  {each.reason}",
                flush=True,
            )
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(each) for each in found], indent=1))
    if arguments.publish is not None:
        # It builds on this module.
        from benchmarks.coverage_files_page import publish_files

        kept: dict[str, Sequence[Outcome]] = {path.stem: _kept(path) for path in arguments.publish}
        if found:
            kept[arguments.data] = found
        publish_files(kept, runs=arguments.runs)


def _kept(path: Path) -> list[Outcome]:
    return [Outcome(**each) for each in json.loads(path.read_text())]


if __name__ == "__main__":
    main()
