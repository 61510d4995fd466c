"""The rule for ordered rows and for watermarks: nothing comes far below the largest value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet.kernels import promised
from watersmeet.model import Side
from watersmeet.promises.axes import Axis
from watersmeet.promises.rules import Rule, Step
from watersmeet.promises.values import Scale, comparable, from_json, present, to_json
from watersmeet.promises.watched import Watched
from watersmeet.rows.band_codecs import float_text, step_text
from watersmeet.rows.bands import Width
from watersmeet.rows.encoded import Codes
from watersmeet.rows.leaves import Mask
from watersmeet.rows.promises import LAST_CODE, Promise

_BEFORE = "what rows before it in its batch allow"


class OrderRule(Rule):
    """All values below a bound have been promised: the largest value so far, less the slack; or
    above it, where values fall."""

    def __init__(
        self,
        place: int,
        words: str,
        column: str,
        scale: Scale,
        watched: Watched,
        side: Side,
        *,
        ascending: bool,
        slack: Width | None,
        in_batches: bool,
    ) -> None:
        super().__init__(place, side, words)
        self.column = column
        self.ascending = ascending
        self._place = watched.schema.stored(side).get_field_index(column)
        self._scale = scale
        self._watched = watched
        self._slack = slack
        self._in_batches = in_batches
        """Whether rows of one batch must be in order among themselves."""
        self._axes: list[tuple[int, Axis]] = watched.about(side, column)
        self._bound = pa.nulls(1, scale.plain_type)
        """Nothing comes beyond it any more; null as long as nothing was promised."""
        self._told: dict[int, int] = {}
        """The same as a code, under each watched predicate."""

    def prior(self, rows: pa.RecordBatch) -> Mask | None:
        if self._in_batches or not self._bound[0].is_valid:
            return None
        codes, there, bound = self._codes(rows)
        return there & (codes < bound)

    def step(self, rows: pa.RecordBatch) -> Step | None:
        if not self._in_batches:
            return None
        codes, there, bound = self._codes(rows)
        floors = self._floors(codes)
        return Step(promised.ORDERED, codes, floors, there, bound=bound)

    def furthest(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The one of these rows that promises as much as all of them; none if all are null."""
        codes, there, _ = self._codes(rows)
        index = np.flatnonzero(there)
        if len(index):
            index = index[np.argmax(codes[index], keepdims=True)]
        return rows.take(pa.array(index))

    def is_further(self, rows: pa.RecordBatch) -> bool:
        """Whether these rows promise more than was promised before."""
        codes, there, bound = self._codes(rows)
        if not self._bound[0].is_valid:
            return bool(there.any())
        return bool((self._floors(codes[there]) > bound).any())

    def _codes(self, rows: pa.RecordBatch) -> tuple[Codes, Mask, int]:
        """Codes that rise as values are promised to, and the bound as one of them."""
        values = self._scale.plain(rows.column(self._place))
        codes, bounds = comparable(values, self._bound)
        there = present(values)
        if not self._bound[0].is_valid:
            return self._upwards(codes), there, 0
        return self._upwards(codes), there, int(self._upwards(bounds)[0])

    def _upwards(self, codes: Codes) -> Codes:
        return codes if self.ascending else ~codes

    def _floors(self, codes: Codes) -> Codes:
        moved = self._scale.moved(self._upwards(codes), self._slack, up=not self.ascending)
        return self._upwards(moved)

    def accept(self, rows: pa.RecordBatch) -> list[Promise]:
        values = self._scale.plain(rows.column(self._place))
        values = values.drop_null()
        if not len(values):
            return []
        (codes,) = comparable(values)
        # Of all values, the one that promises most: codes of one call cannot be compared with
        # those of another, if they are ranks of texts.
        furthest = values[int(np.argmax(self._upwards(codes)))]
        self._raise(pa.array([furthest.as_py()], values.type))
        made: list[Promise] = []
        for number, axis in self._axes:
            coded = axis.encode(rows.column(self._place))
            known = self._upwards(coded.codes[coded.present])
            if len(known):
                made += self._tell(number, axis, int(known.max()))
        return made

    def _raise(self, value: pa.Array) -> None:
        """Move the bound to what a value promises, if that is further."""
        if self._scale.axis is not None:
            moved = self._scale.moved(comparable(value)[0], self._slack, up=not self.ascending)
            value = pa.array(moved, pa.uint64())
        if self._bound[0].is_valid:
            new, old = (self._upwards(codes)[0] for codes in comparable(value, self._bound))
            if new <= old:
                return
        self._bound = value

    def _tell(self, number: int, axis: Axis, furthest: int) -> list[Promise]:
        code = self._upwards(np.array([furthest], np.uint64))
        bound = int(axis.moved(code, self._slack, up=not self.ascending)[0])
        before = self._told.get(number)
        if before is not None and (bound <= before if self.ascending else bound >= before):
            return []
        self._told[number] = bound
        first, last = (0, bound - 1) if self.ascending else (bound + 1, LAST_CODE)
        if first > last:
            return []
        return [self._watched.promise(number, self.side, np.array([[first, last]], np.uint64))]

    @property
    def promised_codes(self) -> tuple[int, int] | None:
        """The first and the last code of the column itself that has been promised."""
        if self._scale.axis is None or not self._bound[0].is_valid:
            return None
        bound = int(self._bound[0].as_py())
        if bound == (0 if self.ascending else LAST_CODE):
            return None
        return (0, bound - 1) if self.ascending else (bound + 1, LAST_CODE)

    def why(self, row: pa.RecordBatch) -> str:
        value = row.column(self._place)[0].as_py()
        beyond = "below" if self.ascending else "above"
        codes, _, bound = self._codes(row)
        # Otherwise only rows of its own batch promised it.
        known = self._bound[0].is_valid and codes[0] < bound
        return f"{self.column} = {value} is {beyond} {self._bound_text() if known else _BEFORE}"

    def _bound_text(self) -> str:
        kind = self._scale.kind
        if self._scale.axis is None:
            text = self._bound.cast(pa.string()) if pt.is_decimal(kind) else self._bound
            return str(pc.cast(text, pa.large_binary())[0].as_py().decode("utf-8", "replace"))
        code = int(self._bound[0].as_py())
        if pt.is_floating(kind):
            return "NaN" if code == LAST_CODE else float_text(code)
        return str(code) if pt.is_unsigned_integer(kind) else step_text(code, kind)

    def save(self) -> dict[str, Any]:
        told = sorted(self._told.items())
        return {"bound": to_json(self._bound), "told": [list(each) for each in told]}

    def load(self, saved: dict[str, Any]) -> None:
        self._bound = from_json(saved["bound"], self._scale.plain_type)
        self._told = {number: bound for number, bound in saved["told"]}  # noqa: C416
