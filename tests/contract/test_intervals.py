"""The joins by regions, with intervals: nothing lost, nothing twice, nothing left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import settings

from tests.contract.test_bands import LONG, MODES, VALUES, check_band_mode
from tests.contract.test_every_operator import FEW_ROWS
from tests.contract.test_planted_bugs import Bug
from tests.unit import test_intervals as codes
from watersmeet.model import JoinType, Side
from watersmeet.operators.regions.algorithm import REGIONS
from watersmeet.operators.regions.loops import NestedLoop
from watersmeet.rows.interval_codecs import OverlapCodec
from watersmeet.rows.interval_order import ByKeyThenClass
from watersmeet.rows.predicates import IntervalsOverlap
from watersmeet.store.sorted_index import SortedIndex
from watersmeet.testing.contract import check_predicates
from watersmeet.testing.family import PublishedJoin
from watersmeet.testing.schedule import Case, End, Push, Save, Stall, Step, play
from watersmeet.testing.strategies import published_joins

INTERVALS = ["between", "overlaps", "equal and overlaps"]
FORCED = {
    "small memory": "between",
    "save after every step": "overlaps",
    "flush on every push": "equal and overlaps",
}


@pytest.mark.parametrize("predicates", INTERVALS)
def test_every_schedule_gives_the_join(predicates: str) -> None:
    check_predicates(published_joins("diner"), predicates, search=settings(max_examples=12))


@pytest.mark.parametrize(("mode", "predicates"), FORCED.items())
def test_forced_modes_give_the_join(mode: str, predicates: str) -> None:
    """Each with other predicates and values; the slow test has more of them in each."""
    check_band_mode("diner", mode, predicates, list(VALUES)[INTERVALS.index(predicates)])


@pytest.mark.slow
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != LONG])
@pytest.mark.parametrize("name", REGIONS)
def test_every_forced_mode_gives_the_join(name: str, mode: str) -> None:
    for number, predicates in enumerate(INTERVALS):
        for values in list(VALUES)[number % 2 :: 2]:
            check_band_mode(name, mode, predicates, values)


@pytest.mark.slow
@pytest.mark.parametrize("predicates", INTERVALS)
@pytest.mark.parametrize("name", REGIONS)
def test_many_more_schedules_give_the_join(name: str, predicates: str) -> None:
    check_predicates(published_joins(name), predicates, search=settings(max_examples=150))


# ---- mistakes that are planted on purpose --------------------------------------------------------


PUSHES: list[Step] = [
    Push(side, tuple(range(start, start + 9))) for start in (0, 5, -6) for side in Side
]
ENDS: list[Step] = [End(Side.LEFT), End(Side.RIGHT)]


def play_spilled() -> None:
    """Blocks of a row, and of some rows, that are joined in stalls and after a save."""
    steps = (*PUSHES, Stall(3), Save(), *PUSHES[:2], Stall(2), *ENDS)
    for block_bytes in (1, 300):
        maker = PublishedJoin("diner", replace(FEW_ROWS, memory_rows=7), block_bytes=block_bytes)
        play(maker, Case(steps, JoinType.FULL, predicates="overlaps"))


def play_equal_hashes() -> None:
    case = Case((*PUSHES, *ENDS), predicates="equal and overlaps", codes="every hash 0")
    play(PublishedJoin("diner"), case)


SMALL = codes.test_small_intervals_are_found
# With what must notice it.
BUGS: dict[str, tuple[Bug, Callable[[], None]]] = {
    "a class is one too small": (
        Bug(
            "", (OverlapCodec, "encode"), "np.frexp(length.astype(np.float64))[1]",
            "np.maximum(np.frexp(length.astype(np.float64))[1] - 1, 0)",
        ),
        SMALL,
    ),
    "the first start in reach is one too late": (
        Bug("", (ByKeyThenClass, "_spans"), "2**bits - 1, int", "max(2**bits - 2, 0), int"),
        SMALL,
    ),
    "the last start in reach is one too early": (
        Bug(
            "", (ByKeyThenClass, "reaches"), "(start + behind) & most)",
            "(start + behind - np.uint64(1)) & most)",
        ),
        SMALL,
    ),
    "an interval that ends before it starts seems long": (
        Bug("", (OverlapCodec, "encode"), "np.maximum(codes, others)", "others"),
        codes.test_few_that_do_not_overlap_are_looked_at_however_lengths_differ,
    ),
    "one of the two comparisons is left out": (
        Bug(
            "", (OverlapCodec, "holds"), "self.left_starts.holds(left[0], right[1]) &", "",
        ),
        SMALL,
    ),
    "start and end are exchanged": (
        Bug(
            "", (IntervalsOverlap, "_holds"), "self.codec.holds(mine, others)",
            "self.codec.holds(mine, others[::-1])",
        ),
        SMALL,
    ),
    "a block that reaches one start less is not read": (
        Bug("", (ByKeyThenClass, "can_meet"), "(behind <= wide)", "(behind < wide)"), SMALL,
    ),
    "a block that begins before what is in reach is not read": (
        Bug("", (ByKeyThenClass, "can_meet"), " | (ahead <= length)", ""), SMALL,
    ),
    "a block of several classes is taken for one": (
        Bug("", (ByKeyThenClass, "_pieces"), "groups[1] - groups[0] == 1", "groups[0] < 0"),
        codes.test_a_block_with_the_end_of_a_class_and_the_beginning_of_another_is_read,
    ),
    "a block of several keys is taken for one": (
        Bug(
            "", (ByKeyThenClass, "can_meet"), "(low & keys) <= (last & keys)",
            "(low & keys) <= (first & keys)",
        ),
        codes.test_a_block_of_many_classes_or_keys_is_read_for_each,
    ),
    "the beginning of the next class is forgotten": (
        Bug("", (ByKeyThenClass, "_pieces"), "last[two] & ~self._starts", "last[two]"),
        codes.test_a_block_with_the_end_of_a_class_and_the_beginning_of_another_is_read,
    ),
    "the end of the class before is forgotten": (
        Bug("", (ByKeyThenClass, "_pieces"), "first[two] | self._starts", "first[two]"),
        codes.test_a_block_with_the_end_of_a_class_and_the_beginning_of_another_is_read,
    ),
    "the sum of what is in reach has more than 64 bits": (
        Bug("", (ByKeyThenClass, "can_meet"), "min(high - low, most)", "(high - low)"),
        codes.test_a_block_from_the_first_code_to_the_last_is_read,
    ),
    "of the outer blocks only the last counts": (
        Bug("", (ByKeyThenClass, "can_meet"), "meets |= near", "meets = near"),
        codes.test_a_block_of_many_classes_or_keys_is_read_for_each,
    ),
    "an interval without an end has one": (
        Bug("", (OverlapCodec, "encode"), "valid if valid is not None else also", "valid"),
        codes.test_an_interval_that_lacks_an_end_overlaps_nothing,
    ),
    "an end counts only if the start does": (
        Bug("", (OverlapCodec, "encode"), "valid = valid & also", "pass"),
        codes.test_an_interval_that_lacks_an_end_overlaps_nothing,
    ),
    "values around 0 are where starts begin again": (
        Bug(
            "", (ByKeyThenClass, "code"), "start + np.uint64(2 ** (self._start_bits - 1))", "start",
        ),
        codes.test_only_the_classes_that_are_there_are_looked_at,
    ),
    "rows of one class are taken for rows of one key": (
        Bug("", (ByKeyThenClass, "decides"), "return False", "return part == 0"),
        play_equal_hashes,
    ),
    "new classes are not noticed": (
        Bug(
            "", (SortedIndex, "add_in_order"), "self.present |= self._classes(codes)",
            "self.present = self.present or self._classes(codes)",
        ),
        play_spilled,
    ),
    "classes are forgotten when rows leave": (
        Bug("", (SortedIndex, "drop"), "self._classes(self._codes[:to]) if to else 0", "0"),
        play_spilled,
    ),
    "a load has one class": (
        Bug(
            "", (NestedLoop, "_join_load"), "self._workspace.edge.order.classes)",
            "lambda codes: 1)",
        ),
        play_spilled,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug, test = BUGS[name]
    bug.plant(monkeypatch)
    with pytest.raises((AssertionError, IndexError, RuntimeWarning)):
        test()


@pytest.mark.parametrize("test", [play_spilled, play_equal_hashes])
def test_without_a_bug_all_is_well(test: Callable[[], None]) -> None:
    """Otherwise any bug would be noticed."""
    test()
