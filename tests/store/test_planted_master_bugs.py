"""Mistakes in laying a master table down, made on purpose: its tests must notice each of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.test_planted_bugs import Bug
from tests.store import test_master as tests
from watersmeet.errors import StateError
from watersmeet.store.master import laying, merging, writing
from watersmeet.store.master.laying import _Laying
from watersmeet.store.master.table import Master
from watersmeet.store.spill import SpillArea

# So much that tables are merged once: with some of these bugs, further merges would have no end.
MEMORY = 512 * 1024
LITTLE_MEMORY = 64 * 1024


def in_order(area: SpillArea) -> None:
    tests.test_all_rows_are_there_in_order_of_code(MEMORY, area)


def in_order_of_many(area: SpillArea) -> None:
    tests.test_all_rows_are_there_in_order_of_code(LITTLE_MEMORY, area)


def hot_code(area: SpillArea) -> None:
    tests.test_one_code_may_have_more_rows_than_fit_in_memory(LITTLE_MEMORY, area)


BUGS: dict[str, tuple[Callable[[SpillArea], None], tuple[Any, str], str, str]] = {
    "rows at the end of a portion come twice": (
        in_order,
        (merging, "_cut"),
        "return block.slice(start, stop - start)",
        "return block.slice(start)",
    ),
    "rows at the beginning of a portion come twice": (
        in_order,
        (merging, "_cut"),
        "return block.slice(start, stop - start)",
        "return block.slice(0, stop)",
    ),
    "a block that goes on in the next portion is left out there": (
        in_order,
        (merging, "_within"),
        "start = int(np.searchsorted(table.last, low))",
        "start = int(np.searchsorted(table.first, low))",
    ),
    "a portion ends before the last rows": (
        in_order,
        (merging, "portions"),
        "yield Portion(low, None)\n            return\n        later",
        "return\n        later",
    ),
    "rows of one code are those of the first table": (
        hot_code,
        (laying, "merged"),
        "for table in tables:\n                yield",
        "for table in tables[:1]:\n                yield",
    ),
    "the first block of a code is left out": (
        hot_code,
        (merging, "_of_one_code"),
        "for block in range(start, stop)",
        "for block in range(start + 1, stop)",
    ),
    "the rows of a code that begins inside a block are left out": (
        hot_code,
        (merging, "_of_one_code"),
        "if high > low:",
        "if low == 0:",
    ),
    "codes are in order, and rows as they came": (
        in_order,
        (merging, "in_order"),
        "order.astype(np.int64)",
        "np.arange(len(codes))",
    ),
    "what was gathered last is lost": (
        in_order,
        (_Laying, "in_order"),
        "if self._gathered:",
        "if not self._gathered:",
    ),
    "tables that are merged come again": (
        in_order_of_many,
        (_Laying, "_merge_some"),
        "self._write(merged(some, nbytes=self._most))",
        "self._write(merged([*some, some[0]], nbytes=self._most))",
    ),
    "a code that goes on in the next piece counts twice": (
        hot_code,
        (writing.MasterWriter, "_count"),
        "self._last == int(codes[0])",
        "False",
    ),
    "a damaged block is used": (
        tests.test_a_flipped_byte_is_noticed_wherever_it_is,
        (Master, "read_blocks"),
        'raise damaged(self._file.name, "has been altered")',
        "pass",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_noticed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test, place, right, wrong = BUGS[name]
    Bug("", place, right, wrong).plant(monkeypatch)
    area = SpillArea(tmp_path)
    try:
        with pytest.raises((AssertionError, StateError, ValueError, pytest.fail.Exception)):
            test(area)
    finally:
        area.close()
