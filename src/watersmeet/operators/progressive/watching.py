"""Which rows will find no partner among rows to come, by what was promised of watched predicates.

Promises speak of codes. The codes under a join's first predicate are stored with its rows, but they
are hashes of keys: a year of promises about them stays a long list. So promises may speak of other
*watched* predicates: the join's bands, and bands of width 0 over single key columns, whose codes
have the order of the values, so that neighbouring ranges are merged. These codes are computed from
the stored columns when they are asked for: a join that is promised nothing does nothing for them.
All watched predicates hold for every result, so a row can go if one of them has no partner for it.

Where several keys may have the same code, a promise names keys. Rows whose code is that of such a
key are compared with it byte by byte. Keys do not merge, so only the latest are remembered: older
ones are forgotten when all rows that are there have been looked at with them in mind.

`promises` are remembered at once. The rows in memory are looked through for those that may go only
now and then (MJoin, section 4.3), and `swept` is what had been promised when that was done last: by
it a restored join knows which rows of its segments had gone (operators/progressive/purging.py).
Joins that remember keys know it without promises, from a bit for each row (operators/leaving.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.errors import InvalidArgument, StateError
from watersmeet.model import Side
from watersmeet.rows.address import Index, Rows
from watersmeet.rows.batch import BatchRows
from watersmeet.rows.edges import TakenRows
from watersmeet.rows.encoded import Codes
from watersmeet.rows.leaves import Mask
from watersmeet.rows.predicates import Columns, Encode, EqualKeys, Predicate
from watersmeet.rows.promised_keys import REMEMBERED
from watersmeet.rows.promises import Promise, Promises, Ranges
from watersmeet.rows.types import as_bytes
from watersmeet.store.runs import Span, Spans, SpilledRun

# Of promised keys at most so many times as many are there as are remembered, or so many for each
# row on disk, since all of these are read before some are forgotten.
_MOST_EXCESS = 2
_FOR_EACH_ROW = 1 / 16


class CodedRows:
    """Rows and their codes under each watched predicate, computed when first asked for, and once:
    for the check of promises and for the question who has no partners."""

    def __init__(self, encoders: Sequence[Encode], codes: Codes, columns: Columns) -> None:
        self._encoders = encoders
        self.columns = columns
        self._codes: dict[int, Codes] = {0: codes}

    def __len__(self) -> int:
        return len(self._codes[0])

    def __getitem__(self, number: int) -> Codes:
        """The codes under predicate `number`."""
        found = self._codes.get(number)
        if found is None:
            found = self._codes[number] = self._encoders[number](self.columns).codes
        return found

    def part(self, place: slice, columns: Columns) -> CodedRows:
        """Some of these rows; `columns` are theirs."""
        part = CodedRows(self._encoders, self._codes[0][place], columns)
        part._codes |= {number: codes[place] for number, codes in self._codes.items()}
        return part


class Watching:
    """What was promised about each side, and the codes that it is about.

    Promises have the numbers of `predicates`; the first is the one whose codes rows are stored
    with. `keys` are the stored columns of both sides that have its exact keys, if promises may name
    some.
    """

    def __init__(
        self, predicates: Sequence[Predicate], keys: tuple[int, int] | None = None
    ) -> None:
        self.predicates = tuple(predicates)
        self._keys = keys
        self._named = {
            number
            for number, each in enumerate(self.predicates)
            if isinstance(each, EqualKeys)
            and not each.codes_decide
            and (number or keys is not None)
        }
        """The predicates of which promises may name keys."""
        self._encoders = [[each.encoder(side) for side in Side] for each in self.predicates]
        self.promises = Promises()
        self.swept = Promises()
        self.unswept = [0, 0]
        """How many promises about each side have come since the rows in memory were last swept."""
        self.times_swept = 0
        """How often the rows in memory have been swept since the join was made or restored."""
        self.heard = 0
        """How many promises have come, and how often a row that had no partner to come was kept,
        because it might have partners on disk."""

    def accept(self, side: Side, promise: Promise) -> None:
        """Remember a promise about rows of a side. One about the hashes of keys says something
        about keys only if no two keys have the same, or if it names them."""
        if not 0 <= promise.predicate < len(self.predicates):
            raise InvalidArgument(
                f"A promise is about predicate {promise.predicate}, and this join has "
                f"{len(self.predicates)}.",
                remedy="Number predicates from 0 on, in the order of `on`.",
            )
        first = self.predicates[0]
        if promise.keys is not None:
            is_useful = promise.predicate in self._named
        else:
            is_useful = bool(promise.predicate) or first.codes_decide or promise.is_everything
        if is_useful:
            self.promises.accept(side, promise)
            self.unswept[side] += 1
            self.heard += 1

    def sweep_is_done(self) -> None:
        """All rows in memory that may go because of what was promised so far have gone."""
        self.swept, self.unswept = self.promises.copy_of_ranges(), [0, 0]
        self.times_swept += 1

    def forget(self, ranges: Ranges) -> None:
        """Forget promises of both sides about codes under the first predicate."""
        for promises in (self.promises, self.swept):
            for side in Side:
                promises.forget(side, 0, ranges)

    @property
    def remembers_keys(self) -> bool:
        """Whether promises may name keys."""
        return bool(self._named)

    def is_crowded(self, on_disk: int) -> bool:
        """Whether so many keys were promised that some should be forgotten, when all rows have been
        looked at; `on_disk` are the rows that have to be read for it."""
        most = max(_MOST_EXCESS, on_disk * _FOR_EACH_ROW / REMEMBERED)
        return any(keys.excess > most for keys in self.promises.keys.values())

    def forget_keys(self) -> None:
        """Forget all but the latest promised keys. To be called when all rows that may go because
        of them have gone."""
        if not any(self.unswept):
            for keys in self.promises.keys.values():
                keys.forget_oldest()

    def is_promised(self, side: Side) -> bool:
        """Whether there is a promise about rows of a side."""
        return bool(self.promises) and bool(self.promises.about(side))

    def coded(self, side: Side, codes: Codes, columns: Columns) -> CodedRows:
        """Rows of a side with their codes. `codes` are those under the first predicate, and
        `columns` the stored columns."""
        return CodedRows([encode[side] for encode in self._encoders], codes, columns)

    def without_partners(
        self, side: Side, rows: CodedRows, *, promises: Promises | None = None
    ) -> Mask:
        """Which rows of a side will find no partner among rows to come."""
        promises = self.promises if promises is None else promises
        gone: Mask | None = None
        for number in promises.about(side.other):
            first, last = self.predicates[number].reach(side, rows[number])
            covered = promises.cover(side.other, number, first, last)
            covered = self._with_named(covered, promises, side.other, number, (side, rows))
            gone = covered if gone is None else gone | covered
        return np.zeros(len(rows), np.bool_) if gone is None else gone

    def broken_by(self, side: Side, rows: CodedRows) -> int:
        """How many rows of a side have come although it was promised that they would not."""
        broken: Mask | None = None
        for number in self.promises.about(side):
            mine = self.promises.broken_by(side, number, rows[number])
            mine = self._with_named(mine, self.promises, side, number, (side, rows))
            broken = mine if broken is None else broken | mine
        return 0 if broken is None else int(np.count_nonzero(broken))

    def _with_named(
        self,
        covered: Mask,
        promises: Promises,
        about: Side,
        number: int,
        came: tuple[Side, CodedRows],
    ) -> Mask:
        """The rows that are covered already, and those of a side that have a key which was promised
        by name."""
        keys = promises.keys.get((about, number))
        if keys is None:
            return covered
        side, rows = came
        keys_at = partial(self._keys_at, side, number, rows.columns)
        return covered | keys.cover(rows[number], keys_at)

    def _keys_at(self, side: Side, number: int, columns: Columns, index: Index) -> pa.Array:
        """The keys of some rows under a predicate, as bytes."""
        if isinstance(columns, pa.RecordBatch):
            columns = TakenRows(Rows(BatchRows(columns), np.arange(len(columns))))
        assert isinstance(columns, TakenRows)
        some = columns.some(index)
        if number == 0:
            assert self._keys is not None
            return as_bytes(some.column(self._keys[side]))
        predicate = self.predicates[number]
        assert isinstance(predicate, EqualKeys)
        return predicate.keys_of(side, self._encoders[number][side](some), some)

    # ---- whole runs -----------------------------------------------------------------------------

    @property
    def knows_spans(self) -> bool:
        """Whether there are predicates of which `spans` says something."""
        return len(self.predicates) > 1

    def spans(self, side: Side, columns: Columns) -> Spans:
        """The smallest and the largest code of some rows under each predicate after the first."""
        if not self.knows_spans or not columns.num_rows:
            return ()
        each = (encode[side](columns).codes for encode in self._encoders[1:])
        return tuple((int(codes.min()), int(codes.max())) for codes in each)

    def no_row_has_partners(self, side: Side, run: SpilledRun) -> bool:
        """Whether it is certain, without reading the run, that none of its rows will find a partner
        among rows to come."""
        for number in self.promises.about(side.other):
            first, last = self._reach(side, number, run)
            if len(first) and self.promises.cover(side.other, number, first, last).all():
                return True
        return False

    def blocks_to_read(self, side: Side, run: SpilledRun) -> Mask:
        """Which blocks of a run may have rows that will find no partner among rows to come."""
        touched = np.zeros(run.block_count, np.bool_)
        for number in self.promises.about(side.other):
            first, last = self._reach(side, number, run)
            if len(first):
                found = self.promises.touch(side.other, number, first, last)
                if (keys := self.promises.keys.get((side.other, number))) is not None:
                    found |= keys.touch(first, last)
                touched |= found if number == 0 else found.any()
            else:
                touched[:] = True
        return touched

    def _reach(self, side: Side, number: int, run: SpilledRun) -> tuple[Codes, Codes]:
        """The first and the last code that partners of a run's rows can have, by block for the
        first predicate; none if the run does not know its codes."""
        spans: Iterable[Span] = run.spans[number - 1 : number]
        if number == 0:
            spans = [(block.first_code, block.last_code) for block in run.blocks]
        ends = np.array([*spans], np.uint64).reshape(-1, 2)
        predicate = self.predicates[number]
        return predicate.reach(side, ends[:, 0])[0], predicate.reach(side, ends[:, 1])[1]

    # ---- saved ----------------------------------------------------------------------------------

    def save(self) -> dict[str, Any]:
        return {
            "promises": self.promises.save(),
            "keys": self.promises.save_keys(),
            "swept": self.swept.save() if any(self.unswept) else None,
            "unswept": list(self.unswept),
            "heard": self.heard,
        }

    def load(self, saved: dict[str, Any]) -> None:
        self.promises = Promises.load(saved["promises"])
        self.promises.load_keys(saved.get("keys", []))
        swept = saved.get("swept")
        self.swept = self.promises.copy_of_ranges() if swept is None else Promises.load(swept)
        self.unswept, self.heard = list(saved.get("unswept", (0, 0))), saved.get("heard", 0)
        numbers = [number for side in Side for number in self.promises.about(side)]
        if max(numbers, default=0) >= len(self.predicates):
            raise StateError(
                f"The saved state has promises about {max(numbers) + 1} predicates, and this join "
                f"watches {len(self.predicates)}.",
                remedy="Restore it with the same promises, or start anew.",
            )
