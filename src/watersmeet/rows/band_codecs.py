"""How bands are found by codes and decided on values, for columns of each kind of type.

A row's code is an unsigned number that never falls when the value rises. For each value of one
side there is a range of the other side's codes in which all its partners are, its reach. An index
finds the rows there, and `holds` decides by their values which are in the band.

Whole numbers, dates, times and decimals are counted in steps of their type, and their difference
is the true one, also where it leaves 64 bits (Spark raises an error there in ANSI mode).
Floating-point numbers are subtracted as Spark subtracts them: in 32 bits if both have 32, else in
64. Spark takes NaN for larger than everything, so a difference that is NaN is inside every band
that has no upper end, and in no other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from watersmeet.errors import SchemaError
from watersmeet.model import Side
from watersmeet.rows.buffers import fixed_bytes
from watersmeet.rows.encoded import Codes, Encoded
from watersmeet.rows.leaves import Mask
from watersmeet.rows.types import converted

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_LEAST, _MOST = -(2**63), 2**63 - 1
_LAST_CODE = 2**64 - 1
_SIGN = np.uint64(2**63)
_MOST_BUCKETS = 2.0**38
_SMALLEST_WIDTH = 1e-290


class BandCodec(Protocol):
    """How a band is found and decided for two columns of certain types."""

    @property
    def low(self) -> float | None: ...

    @property
    def high(self) -> float | None: ...

    def encode(self, side: Side, values: pa.Array) -> Encoded: ...

    def reach(self, side: Side, codes: Codes) -> tuple[Codes, Codes]:
        """For each code of a side, the first and the last code that partners on the other side can
        have; there are no partners if the first is above the last."""
        ...

    def holds(self, left: pa.Array, right: pa.Array) -> Mask:
        """Which pairs are in the band. None of the values is null."""
        ...

    @property
    def reach_decides(self) -> bool:
        """Whether all rows whose codes are within reach of each other are in the band."""
        ...

    @property
    def has_buckets(self) -> bool:
        """Whether values can be divided into buckets: the band has two ends, and a width."""
        ...

    def buckets(self, side: Side, codes: Codes) -> Integers:
        """The number of each value's bucket. Those of two values in the band differ by at most 1.

        Buckets are about half as wide as the band.
        """
        ...

    def text(self, code: int) -> str:
        """The value that has a code, for a person to read."""
        ...


# ---- values that are whole numbers of steps -----------------------------------------------------


@dataclass(frozen=True, slots=True)
class IntegerBand:
    """Values as whole numbers of steps of their common type."""

    kind: pa.DataType
    low: int | None
    high: int | None

    @property
    def reach_decides(self) -> bool:
        return True

    @property
    def has_buckets(self) -> bool:
        return self.low is not None and self.high is not None

    def buckets(self, side: Side, codes: Codes) -> Integers:
        assert self.low is not None
        assert self.high is not None
        steps: Integers = (codes ^ _SIGN).view(np.int64)
        middle = (self.low + self.high) // 2
        if side is Side.LEFT:
            # Then left and right differ by no more than `wide`, whichever is larger.
            steps = _plus(steps, -middle)
        wide = max(self.high - middle, 1)
        # Two buckets are enough for all numbers, if one is wider than half of them.
        numbers: Integers = steps // wide if wide <= _MOST else steps >> 63
        return numbers

    def encode(self, side: Side, values: pa.Array) -> Encoded:
        steps, valid = steps_of(values, self.kind)
        return Encoded(step_code(steps), valid)

    def reach(self, side: Side, codes: Codes) -> tuple[Codes, Codes]:
        steps: Integers = (codes ^ _SIGN).view(np.int64)
        low, high = (self.low, self.high) if side is Side.RIGHT else _negated(self.high, self.low)
        first, last = np.zeros(len(steps), np.uint64), np.full(len(steps), _LAST_CODE, np.uint64)
        if low is not None:
            first = step_code(_plus(steps, low))
        if high is not None:
            last = step_code(_plus(steps, high))
        # An end that is beyond all numbers, not only cut off there: nothing is in reach.
        if low is not None and low > 0:
            beyond = steps > _MOST - low
            first[beyond], last[beyond] = 1, 0
        if high is not None and high < 0:
            beyond = steps < _LEAST - high
            first[beyond], last[beyond] = 1, 0
        return first, last

    def holds(self, left: pa.Array, right: pa.Array) -> Mask:
        (x, _), (y, _) = steps_of(left, self.kind), steps_of(right, self.kind)
        inside = np.ones(len(x), np.bool_)
        if self.low is not None:
            inside &= _at_least(x, y, self.low)
        if self.high is not None:
            inside &= _at_least(y, x, -self.high)
        return inside

    def text(self, code: int) -> str:
        return step_text(code, self.kind)


def step_text(code: int, kind: pa.DataType) -> str:
    """The value that has a code, as text.

    >>> step_text(2**63 - 250, pa.decimal128(9, 2)), step_text(2**63 + 19_000, pa.date32())
    ('-2.50', '2022-01-08')
    """
    steps = code - 2**63
    if pt.is_decimal(kind):
        return str(Decimal(steps).scaleb(-kind.scale))
    if pt.is_integer(kind):
        return str(steps)
    whole = pa.int32() if kind.bit_width == 32 else pa.int64()
    try:
        return str(pa.array([steps], whole).view(kind).cast(pa.string())[0])
    except (pa.ArrowException, OverflowError):
        return f"{steps} steps of {kind}"


def steps_of(values: pa.Array, kind: pa.DataType) -> tuple[Integers, Mask | None]:
    """Values as whole numbers of steps of a type, and which of them are not null."""
    values, valid = _filled(values)
    if pt.is_decimal(kind):
        # Two's complement, low word first: a short decimal is its low word.
        words = fixed_bytes(values.cast(pa.decimal128(38, kind.scale)), 16).view("<i8")
        return np.ascontiguousarray(words[::2]), valid
    try:
        values = values.cast(kind)
    except pa.ArrowInvalid as error:
        raise SchemaError(
            f"A value of type {values.type} cannot be expressed as {kind}: {error}.",
            remedy="Cast all columns that are compared to the same unit first.",
        ) from error
    if not pt.is_integer(kind):
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return values.to_numpy().astype(np.int64, copy=False), valid


def _negated(low: int | None, high: int | None) -> tuple[int | None, int | None]:
    return (None if low is None else -low), (None if high is None else -high)


def step_code(steps: Integers) -> Codes:
    codes: Codes = steps.view(np.uint64) ^ _SIGN
    return codes


def _plus(steps: Integers, width: int) -> Integers:
    """Each number plus `width`, or the largest or smallest number where that would overflow."""
    moved = (steps.view(np.uint64) + np.uint64(width % 2**64)).view(np.int64)
    if width >= 0:
        limit = max(_MOST - width, _LEAST - 1)
        beyond = steps > limit if limit >= _LEAST else np.ones(len(steps), np.bool_)
        return np.where(beyond, np.int64(_MOST), moved)
    limit = min(_LEAST - width, _MOST + 1)
    beyond = steps < limit if limit <= _MOST else np.ones(len(steps), np.bool_)
    return np.where(beyond, np.int64(_LEAST), moved)


def _at_least(x: Integers, y: Integers, least: int) -> Mask:
    """Whether x - y >= least, also where the difference has more than 64 bits."""
    rises = x >= y
    apart = np.where(rises, x, y).view(np.uint64) - np.where(rises, y, x).view(np.uint64)
    if least > 0:
        return rises & (apart >= least) if least <= _LAST_CODE else np.zeros(len(x), np.bool_)
    return rises | (apart <= -least) if -least <= _LAST_CODE else np.ones(len(x), np.bool_)


# ---- floating-point numbers ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FloatBand:
    """Values as Spark subtracts them, in 32 bits if they are `narrow`.

    NaN has the last code on the left and the first on the right. In a band without an upper end the
    reach of a right row goes up to the last code and that of a left row down to the first, so they
    find NaN there, as they must.
    """

    narrow: bool
    low: float | None
    high: float | None
    low_open: bool
    high_open: bool
    reach_decides: bool = False

    @property
    def has_buckets(self) -> bool:
        if self.low is None or self.high is None:
            return False
        width = self.high - self.low
        # Where the ends are much larger than their distance, rounding moves values too far.
        most = 2**12 if self.narrow else 2**30
        far = max(abs(self.low), abs(self.high)) > most * width
        return _SMALLEST_WIDTH < width < math.inf and not far

    def buckets(self, side: Side, codes: Codes) -> Integers:
        """A bucket is a little wider than half of the band, to make up for rounding. Beyond numbers
        so large that rounding might move them by a whole bucket, all are in one."""
        assert self.low is not None
        assert self.high is not None
        floats = float_of(codes)
        if side is Side.LEFT:
            floats = floats - (self.low / 2 + self.high / 2)
        wide = (self.high - self.low) / 2 * (1 + 2**-10)
        with np.errstate(invalid="ignore", over="ignore"):
            numbers = np.clip(np.floor(floats / wide), -_MOST_BUCKETS, _MOST_BUCKETS)
        whole: Integers = np.nan_to_num(numbers).astype(np.int64)
        return whole

    def encode(self, side: Side, values: pa.Array) -> Encoded:
        floats, valid = floats_of(values)
        codes = float_code(floats)
        codes[np.isnan(floats)] = _LAST_CODE if side is Side.LEFT else 0
        return Encoded(codes, valid)

    def reach(self, side: Side, codes: Codes) -> tuple[Codes, Codes]:
        floats = float_of(codes)
        first = np.zeros(len(floats), np.uint64)
        last = np.full(len(floats), _LAST_CODE, np.uint64)
        # `holds` compares rounded differences. If one is inside of an end, then the true difference
        # is inside of the next float beyond that end.
        with np.errstate(invalid="ignore", over="ignore"):
            if self.low is not None:
                before = self._next(self.low, -math.inf)
                if side is Side.LEFT:
                    last = float_code(_rounded(floats - before, math.inf))
                else:
                    first = float_code(_rounded(floats + before, -math.inf))
            if self.high is not None:
                behind = self._next(self.high, math.inf)
                if side is Side.LEFT:
                    first = float_code(_rounded(floats - behind, -math.inf))
                else:
                    last = float_code(_rounded(floats + behind, math.inf))
        nan = np.isnan(floats)
        first[nan], last[nan] = (0, _LAST_CODE) if self.high is None else (1, 0)
        return first, last

    def holds(self, left: pa.Array, right: pa.Array) -> Mask:
        (x, _), (y, _) = floats_of(left), floats_of(right)
        with np.errstate(invalid="ignore", over="ignore"):
            if self.narrow:
                apart = (x.astype(np.float32) - y.astype(np.float32)).astype(np.float64)
            else:
                apart = x - y
        inside = np.ones(len(x), np.bool_)
        if self.low is not None:
            above = apart > self.low if self.low_open else apart >= self.low
            inside &= above | np.isnan(apart)
        if self.high is not None:
            inside &= apart < self.high if self.high_open else apart <= self.high
        return inside

    def text(self, code: int) -> str:
        return float_text(code)

    def _next(self, end: float, towards: float) -> float:
        """The next number beyond an end that a difference can have, in 32 bits or 64."""
        if not self.narrow:
            return float(np.nextafter(end, towards))
        with np.errstate(over="ignore"):
            near = np.float32(end)
        # `near` may lie on either side of the end.
        if (towards > 0 and float(near) > end) or (towards < 0 and float(near) < end):
            return float(near)
        return float(np.nextafter(near, np.float32(towards)))


def float_text(code: int) -> str:
    return f"{float(float_of(np.array([code], np.uint64))[0]):.6g}"


def floats_of(values: pa.Array) -> tuple[Floats, Mask | None]:
    """Values as Spark converts them to 64 bits, and which of them are not null."""
    values, valid = _filled(values)
    if pt.is_decimal(values.type):
        values = converted(values, pa.float64())
    floats = values.to_numpy(zero_copy_only=False).astype(np.float64)
    return floats + 0.0, valid  # -0.0 becomes 0.0


def float_code(floats: Floats) -> Codes:
    bits = floats.view(np.uint64)
    codes: Codes = np.where(bits & _SIGN != 0, ~bits, bits | _SIGN)
    return codes


def float_of(codes: Codes) -> Floats:
    """The number that has this code; NaN for the two codes that NaN has."""
    bits = np.where(codes & _SIGN != 0, codes & ~_SIGN, ~codes)
    floats: Floats = bits.view(np.float64)
    return floats


def _rounded(bounds: Floats, outwards: float) -> Floats:
    """Each bound moved outwards by one number, since it may have been rounded inwards; infinity
    for inf - inf."""
    bounds = np.nextafter(bounds, outwards)
    bounds[np.isnan(bounds)] = outwards
    return bounds + 0.0


def _filled(values: pa.Array) -> tuple[pa.Array, Mask | None]:
    if pt.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not values.null_count:
        return values, None
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    return pc.fill_null(values, _zero(values.type)), valid


def _zero(kind: pa.DataType) -> pa.Scalar:
    if pt.is_decimal(kind) or pt.is_integer(kind) or pt.is_floating(kind):
        return pa.scalar(0, kind)
    whole = pa.array([0], pa.int32() if kind.bit_width == 32 else pa.int64())
    return whole.view(kind)[0]
