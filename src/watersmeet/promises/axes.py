"""One column as codes that rise with its values, so that promises about it merge into few ranges.

A code is *exact* for a value if no other value of the column has it. Codes of numbers, dates and
times are. Those of texts are if the text has at most seven bytes; those of numbers with more digits
than a double has, which are compared as doubles, are not. A promise about a value whose code is not
exact says nothing about that code, because other values have it too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from watersmeet.kernels import promised
from watersmeet.rows.band_codecs import float_code, float_of, floats_of, step_code
from watersmeet.rows.bands import Width, number_of, steps_in
from watersmeet.rows.buffers import has_offsets, variable_bytes
from watersmeet.rows.encoded import Codes
from watersmeet.rows.leaves import Leaves, Mask, slots_of
from watersmeet.rows.promises import LAST_CODE
from watersmeet.rows.types import (
    Incomparable,
    converted,
    is_bytes,
    padded,
    plain,
    rounds,
    unwrapped,
)

_CODE_BITS = 64


@dataclass(frozen=True, slots=True)
class Coded:
    """Codes of values; None for `valid` if none is null, for `exact` if all codes are exact."""

    codes: Codes
    valid: Mask | None
    exact: Mask | None = None

    @property
    def present(self) -> Mask:
        return np.ones(len(self.codes), np.bool_) if self.valid is None else self.valid

    @property
    def known(self) -> Mask:
        """Which codes stand for one value."""
        return self.present if self.exact is None else self.present & self.exact


@dataclass(frozen=True, slots=True)
class Axis:
    """Values of a type `source`, compared as `kind`; `padding` as for keys."""

    kind: pa.DataType
    source: pa.DataType
    padding: int = 0

    @classmethod
    def of(cls, kind: pa.DataType, source: pa.DataType, padding: int = 0) -> Axis | None:
        """None for types whose values have no order, or none that 64 bits can show."""
        kind = plain(kind)
        if not is_bytes(kind):
            if pt.is_struct(kind) or pt.is_null(kind) or pt.is_nested(kind):
                return None
            try:
                bits = slots_of(kind)[0].bits
            except (AttributeError, ValueError):
                return None
            if bits is None or bits > _CODE_BITS:
                return None
        return cls(kind, plain(source), padding)

    @property
    def is_text(self) -> bool:
        return is_bytes(self.kind)

    @property
    def rounds(self) -> bool:
        """Whether several values may have one code, because they are compared as doubles."""
        return rounds(self.source, self.kind)

    def encode(self, values: pa.Array) -> Coded:
        if self.is_text:
            return self._encode_text(values)
        if pt.is_floating(self.kind):
            floats, valid = floats_of(unwrapped(values))
            codes = float_code(floats)
            codes[np.isnan(floats)] = LAST_CODE  # NaN is the largest number, on both sides
            exact = np.zeros(len(codes), np.bool_) if self.rounds else None
            return Coded(codes, valid, exact)
        leaves = Leaves()
        leaves.add(values, self.kind)
        (steps,) = leaves.fixed
        if steps.dtype.kind == "u":
            return Coded(steps.astype(np.uint64), leaves.valid)
        return Coded(step_code(steps.astype(np.int64, copy=False)), leaves.valid)

    def _encode_text(self, values: pa.Array) -> Coded:
        values = unwrapped(values)
        if self.padding:
            values = padded(values, self.padding)
        if not has_offsets(values.type):
            values = converted(values, pa.binary())
        data, offsets = variable_bytes(values)
        codes = np.empty(len(values), np.uint64)
        promised.text_codes(data, offsets, codes)
        valid = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else None
        return Coded(codes, valid, np.diff(offsets) <= promised.TEXT_BYTES)

    # ---- values that lie some way before others -------------------------------------------------

    def check_slack(self, slack: Width) -> None:
        """Raise `Incomparable` if values of this type do not differ by such a slack."""
        self._slack(slack)

    def _slack(self, slack: Width) -> Fraction:
        if self.is_text or pt.is_boolean(self.kind):
            raise Incomparable(f"{self.kind} has no differences", "Leave the slack out.")
        if pt.is_floating(self.kind) or self.kind == pa.uint64():
            return number_of(slack)
        return steps_in(slack, self.kind)

    def moved(self, codes: Codes, slack: Width | None, *, up: bool) -> Codes:
        """The code of each value less `slack`, or plus it; cut off at the first and last code."""
        if slack is None:
            return codes
        wide = self._slack(slack)
        if pt.is_floating(self.kind):
            floats = float_of(codes)
            with np.errstate(over="ignore", invalid="ignore"):
                # Where values were rounded already, what is promised stays that much behind.
                far = float(wide) + (2 * np.spacing(np.abs(floats)) if self.rounds else 0.0)
                there = float_code((floats + far if up else floats - far) + 0.0)
            return np.where(np.isnan(floats), np.uint64(LAST_CODE), there)
        steps = np.uint64(min(math.floor(wide), LAST_CODE))
        if up:
            return np.where(codes > LAST_CODE - steps, np.uint64(LAST_CODE), codes + steps)
        return np.where(codes < steps, np.uint64(0), codes - steps)
