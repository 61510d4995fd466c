"""How intervals that overlap are found by codes and decided on values.

The code of an interval has its *class* first and then its start. The class is the number of bits of
its length, so an interval of class c is shorter than 2^c. Those of class c that overlap an interval
from s to e begin from s - 2^c to e: they are a range of codes, and most of that range overlaps,
since an interval of class c is at least half as long as that. Partners are so found class by class,
however much lengths differ. A point is an interval of length 0, and has class 0.

Starts have 58 bits. Whole numbers begin again at 0 after the last, so that any value has a start;
those a whole turn apart are told apart by their values. Floating-point numbers lose their last bits
instead, and never begin again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet.rows.band_codecs import (
    float_code,
    float_text,
    floats_of,
    step_code,
    step_text,
    steps_of,
)
from watersmeet.rows.encoded import Codes, Encoded
from watersmeet.rows.leaves import Mask
from watersmeet.rows.types import converted

CLASS_BITS = 6
START_BITS = 64 - CLASS_BITS
LAST_CLASS = 2**CLASS_BITS - 1

_STARTS = np.uint64(2**START_BITS - 1)
_MIDDLE = np.uint64(2 ** (START_BITS - 1))
_LAST_CODE = 2**64 - 1
_LONG_DIGITS = 18

Interval = tuple[pa.Array, pa.Array]
"""Where intervals start and end; twice the same array for points."""


def is_counted(kind: pa.DataType) -> bool:
    """Whether values of a type are whole numbers of steps that fit 64 bits; the others are compared
    as floating-point numbers where a close one is enough."""
    if pt.is_decimal(kind):
        return bool(kind.precision <= _LONG_DIGITS)
    return not pt.is_floating(kind) and kind != pa.uint64()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Whether low <= high, or low < high if it is `strict`, as Spark compares two types: NaN is
    larger than everything else."""

    kind: pa.DataType
    strict: bool

    def holds(self, low: pa.Array, high: pa.Array) -> Mask:
        """None of the values is null."""
        if pt.is_floating(self.kind):
            (x, _), (y, _) = floats_of(low), floats_of(high)
            above = np.isnan(y)
            return (x < y) | (above & ~np.isnan(x)) if self.strict else (x <= y) | above
        if is_counted(self.kind):
            (n, _), (m, _) = steps_of(low, self.kind), steps_of(high, self.kind)
            return n < m if self.strict else n <= m
        compare = pc.less if self.strict else pc.less_equal
        held = compare(converted(low, self.kind), converted(high, self.kind))
        mask: Mask = held.to_numpy(zero_copy_only=False)
        return mask


@dataclass(frozen=True, slots=True)
class OverlapCodec:
    """Intervals of two sides that overlap: the left one starts before the right one ends, and the
    right one starts before the left one ends.

    An interval that ends before it starts overlaps those that have both its start and its end
    inside. So it is found as the point where it starts.
    """

    kind: pa.DataType
    """In which all columns have codes. Each comparison has a type of its own."""
    left_starts: Comparison
    right_starts: Comparison

    @property
    def turns(self) -> bool:
        """Whether starts begin again at 0 after the last."""
        return is_counted(self.kind)

    def encode(self, interval: Interval) -> Encoded:
        start, end = interval
        codes, valid = self.codes(start)
        if start is end:
            return Encoded(self._starts(codes), valid)
        others, also = self.codes(end)
        low, high = codes, np.maximum(codes, others)
        if valid is not None and also is not None:
            valid = valid & also
        length = (high - low) if self.turns else self._starts(high) - self._starts(low)
        # Rounded to a float, a length may seem a little longer, and never shorter.
        bits = np.frexp(length.astype(np.float64))[1]
        classes = np.minimum(bits, LAST_CLASS).astype(np.uint64)
        found = (classes << np.uint64(START_BITS)) | self._starts(low)
        return Encoded(found, valid if valid is not None else also)

    def holds(self, left: Interval, right: Interval) -> Mask:
        """Which pairs overlap. None of the values is null."""
        return self.left_starts.holds(left[0], right[1]) & self.right_starts.holds(
            right[0], left[1]
        )

    def codes(self, values: pa.Array) -> tuple[Codes, Mask | None]:
        """Numbers that never fall when values of any of the columns rise, and which values are not
        null."""
        if is_counted(self.kind):
            steps, valid = steps_of(values, self.kind)
            return step_code(steps), valid
        floats, valid = floats_of(values)
        codes = float_code(floats)
        codes[np.isnan(floats)] = _LAST_CODE
        return codes, valid

    def text(self, code: int) -> str:
        """The value that has one of `codes`, for a person to read."""
        return step_text(code, self.kind) if is_counted(self.kind) else float_text(code)

    def _starts(self, codes: Codes) -> Codes:
        if self.turns:
            # Values around 0 are in the middle, so that no turn is between them.
            return (codes + _MIDDLE) & _STARTS
        return codes >> np.uint64(CLASS_BITS)
