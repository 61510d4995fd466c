"""Mistakes that are easy to make in joins with a master table, made on purpose (see
`test_planted_bugs.py`): the contract must notice each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.contract.enriching import HOWS, Enrichment, Player, play
from tests.contract.enriching_schedules import mixture
from tests.contract.test_planted_bugs import Bug
from tests.operators import test_semi_stream_papers as papers
from watersmeet.kernels import semistream as kernels
from watersmeet.operators.semistream import state
from watersmeet.operators.semistream.cache import Cache
from watersmeet.operators.semistream.caching import AdaptiveCaching
from watersmeet.operators.semistream.cyclic import CyclicScan
from watersmeet.operators.semistream.join import SemiStreamJoin
from watersmeet.operators.semistream.reading import WantedBlocks
from watersmeet.operators.semistream.rotating import RotatingCaching, Switching
from watersmeet.operators.semistream.skipping import SkippingScan
from watersmeet.operators.semistream.unique import UniqueCaching
from watersmeet.operators.semistream.waiting import RowOrder, WaitingRows
from watersmeet.operators.semistream.workspace import SemiStreamWorkspace
from watersmeet.rows.address import Matches

SEEDS = range(16)
# So many are never made by the schedules of one bug.
MOST_STEPS = 100_000


class Papers:
    """Runs tests of `tests/operators/test_semi_stream_papers.py`, to their very end."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        self.directory, self.patch = directory, patch
        self.players: list[Player] = []

    def __call__(self, case: Enrichment) -> Player:
        self.players.append(Player(case, self.directory, clock=lambda: 0.0))
        return self.players[-1]

    def of_one_size(self, test: Callable[[Papers], None]) -> None:
        papers.have_rows_of_one_size(self.patch)
        test(self)

    def finish(self) -> None:
        for player in self.players:
            player.finish()


BUGS = {
    # ---- no value is cached with some of its rows missing ----
    "a code that goes on in the next step is cached as it is": Bug(
        "skipping", (SkippingScan, "step"), "slice(begun, leaving)", "slice(0, leaving)",
    ),
    "a code that goes on in the next portion is cached as it is": Bug(
        "cmeshjoin", (UniqueCaching, "met"), "alone[read.codes == places.first[stop]] = False",
        "pass",
    ),
    "keys of one hash are cached one by one": Bug(
        "cmeshjoin", (UniqueCaching, "met"), "worth = alone &", "worth = ",
    ),
    "rows of the old version stay in the cache": Bug(
        "skipping", (SemiStreamJoin, "take_over"), "self.workspace.memory.cache.clear()", "pass",
    ),
    "the old version is cached while it is finished": Bug(
        "skipping", (SkippingScan, "_cache"), "if self._closing or", "if",
    ),
    "evicted entries are found": Bug("skipping", (Cache, "keep"), "self._build_slots()", "pass"),
    # ---- each row sees exactly one full cycle ----
    "a row leaves one step early": Bug(
        "meshjoin", (CyclicScan, "_expire"), "+ blocks <= self.passed",
        "+ blocks - 1 <= self.passed",
    ),
    "a row leaves one step late": Bug(
        "meshjoin", (CyclicScan, "_expire"), "+ blocks <= self.passed", "+ blocks < self.passed",
    ),
    "a portion goes on over the place where a chunk has to leave": Bug(
        "meshjoin", (CyclicScan, "_next_portion"), "begin, min(stop, begin + leaves)",
        "begin, stop",
    ),
    "rows that have left are found": Bug(
        "meshjoin", (CyclicScan, "_meet"), "workspace.pairs, workspace.expired)",
        "workspace.pairs, 0)",
    ),
    "rows for the next version meet the old one": Bug(
        "meshjoin", (CyclicScan, "_meet"), "if self._closing:", "if False:",
    ),
    "rows that came during a step have seen its portion": Bug(
        "meshjoin", (CyclicScan, "take_in"), "Chunk(until, self.passed)",
        "Chunk(until, max(self.passed - 1, 0))",
    ),
    # ---- each row sees the blocks of its code once ----
    "a row whose code has been passed is put ahead": Bug(
        "skipping", (SkippingScan, "_sort_in"), "if self.block:", "if False:",
    ),
    "a row whose code has partly been passed is put ahead": Bug(
        "skipping", (SkippingScan, "_sort_in"), 'side="right"', 'side="left"',
    ),
    "rows leave although their code goes on": Bug(
        "skipping", (WantedBlocks, "_reached"), "return leaving, ahead.until(places.first[stop])",
        "return ahead.until(places.first[stop]), ahead.until(places.first[stop])",
    ),
    "rows meet the last block of a step in the next one again": Bug(
        "skipping", (SkippingScan, "step"), "self.block = stop", "self.block = max(stop - 1, 0)",
    ),
    "the restored scan begins a code again": Bug(
        "skipping", (SkippingScan, "_load"), "if self.inside is not None:", "if False:",
    ),
    "rows that came inside a code count as having seen its beginning": Bug(
        "skipping", (SkippingScan, "_load"), "table.stamps[rows] < self.inside", "True",
    ),
    "those behind are forgotten when a cycle begins": Bug(
        "skipping", (SkippingScan, "_begin_cycle"),
        "self.ahead, self.behind = self.behind, self.ahead", "pass",
    ),
    "codes in no block make the next ones be in none": Bug(
        "skipping", (WantedBlocks, "_stretch"), "if not is_wanted:",
        "if places.first[begin] > codes[0]:",
    ),
    "rows keep their numbers when others go": Bug(
        "skipping", (SkippingScan, "close_gaps"), "self.behind.renumber(numbers)", "pass",
    ),
    "rows that arrived last are forgotten when gaps are closed": Bug(
        "skipping", (SkippingScan, "close_gaps"), "keep[: self._merged]", "keep",
    ),
    "rows that have left are there again": Bug(
        "skipping", (WaitingRows, "leave"), "self._left.array[index] = True", "pass",
    ),
    "an order that was taken from the front is merged as a whole": Bug(
        "skipping", (RowOrder, "merge"), "if self._start:", "if False:",
    ),
    # ---- kernels ----
    "a probe ends at the first slot": Bug(
        "skipping", (kernels, "probe"), "while number != 0 and code != want:", "while False:",
    ),
    "pairs that did not fit are forgotten": Bug(
        "skipping", (kernels, "expand"), "return limit, at, inside + room",
        "return limit, at + 1, 0",
    ),
    "only the first of several waiting rows is located": Bug(
        "skipping", (kernels, "locate"), "low = stop", "low = stop + 1",
    ),
    "new rows are written over old ones": Bug(
        "skipping", (kernels, "merge_into"), "codes[left] > new_codes[right]",
        "codes[left] < new_codes[right]",
    ),
    # ---- versions, deadlines, states ----
    "rows that arrive are for the version that is finished": Bug(
        "skipping", (SkippingScan, "take_in"), "if self._closing:", "if False:",
    ),
    "a row says the newest version, not the one it met": Bug(
        "skipping", (SemiStreamWorkspace, "of_version"), "version or self.master.version",
        "'v1'",
    ),
    "rows without a partner wait no more after the first version": Bug(
        "skipping", (SemiStreamJoin, "_switch"), "yield from self._return_patient_rows()", "pass",
    ),
    "patient rows in memory are not saved": Bug(
        "skipping", (state, "save"), "patient.write()", "pass",
    ),
    "a row with a partner is patient": Bug(
        "skipping", (SemiStreamWorkspace, "without_partner"),
        "index[emitter.marks.unmarked(table.stamps[index])]", "index",
    ),
    "where the scan stood is forgotten": Bug(
        "meshjoin", (CyclicScan, "begin_anew"), 'stood["passed"]', "0",
    ),
    "rows in no chunk are restored as rows that have begun": Bug(
        "meshjoin", (CyclicScan, "begin_anew"), 'stood["taken"], stood["closing"]',
        'self._workspace.stamp, stood["closing"]',
    ),
    "marks are forgotten too early": Bug(
        "skipping", (SemiStreamWorkspace, "oldest"), "int(stamps[0])", "int(stamps[-1])",
    ),
}  # fmt: skip

# What it takes to see these is seldom made by chance: the test that does.
SHOWN: dict[str, tuple[Bug, Callable[[Papers], None]]] = {
    "what is switched is decided anew for every portion": (
        Bug(
            "ssbj", (Switching, "collect"),
            "self.counts[mine] += counts",
            "self.counts[mine] += np.where(counts <= most[mine], counts, 0)",
        ),
        lambda made: made.of_one_size(papers.test_a_value_of_two_portions_is_given_up_as_a_whole),
    ),
    "a value of two portions is cached without the first": (
        Bug("ssbj", (Switching, "pieces"), "if rest is not None:", "if False:"),
        lambda made: made.of_one_size(
            papers.test_a_value_of_two_portions_is_cached_with_all_its_rows
        ),
    ),
    "a value with a row is taken for one without": (
        Bug(
            "ssbj", (RotatingCaching, "_move"), "switching.counts == 0)", "switching.counts <= 1)",
        ),
        lambda made: made.of_one_size(
            papers.test_a_value_that_turns_out_to_have_more_rows_is_given_up_as_a_whole
        ),
    ),
    "a new entry is judged by cycles before it came": (
        Bug(
            "ssbj", (RotatingCaching, "_evict_infrequent"),
            "np.minimum(self._cycle - cache.born, EVICTION_CYCLES)",
            "np.full(len(cache), EVICTION_CYCLES)",
        ),
        lambda made: made.of_one_size(
            papers.test_a_new_entry_is_not_judged_by_cycles_before_it_came
        ),
    ),
    "a code gets a second entry": (
        Bug(
            "skipping", (AdaptiveCaching, "admit"),
            "np.flatnonzero(self._cache.find(codes) < 0)", "np.arange(len(codes))",
        ),
        lambda made: papers.test_rows_that_came_before_their_code_was_cached_are_no_second_entry(
            made
        ),
    ),
    "rows that come now are put before those that were behind": (
        Bug(
            "skipping", (SkippingScan, "step"), "self.block = stop\n    if stop == len(places):",
            "self.block = stop % max(len(places), 1)\n    if False:",
        ),
        lambda made: papers.test_a_row_sees_the_blocks_of_its_code_once_and_few_others(
            made, made.patch
        ),
    ),
}  # fmt: skip


# One of each kind; the others take the same way.
QUICK = ("a row leaves one step early", "a row whose code has partly been passed is put ahead")


def limit_steps(patch: pytest.MonkeyPatch) -> None:
    """With some bugs a row never leaves, and a scan never ends."""
    step, made = SemiStreamJoin._step, count()

    def limited(join: SemiStreamJoin) -> Iterator[Matches]:
        assert next(made) < MOST_STEPS, "the scan does not end"
        return step(join)

    patch.setattr(SemiStreamJoin, "_step", limited)


def is_noticed(bug: Bug) -> bool:
    for seed in SEEDS:
        try:
            play(mixture(bug.algorithm, HOWS[seed % 4], seed))
        except (AssertionError, IndexError, KeyError, ValueError, RuntimeError, TypeError):
            return True
    return False


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in BUGS]
)
def test_a_bug_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    BUGS[name].plant(monkeypatch)
    limit_steps(monkeypatch)
    assert is_noticed(BUGS[name])


@pytest.mark.parametrize("name", SHOWN)
def test_a_bug_is_shown(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug, test = SHOWN[name]
    bug.plant(monkeypatch)
    made = Papers(tmp_path, monkeypatch)
    with pytest.raises((AssertionError, IndexError, ValueError)):
        _run(test, made)


def _run(test: Callable[[Papers], None], made: Papers) -> None:
    test(made)
    made.finish()
