"""True, false or unknown for each row, and the comparisons that decide it.

An answer is held as who found it has it: in Arrow's bits, or in numpy's bytes for whoever computes
with numbers. It is put into the other form only when somebody asks for that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from watersmeet.expressions.numbers import Mask, both

Data = Any
"""An Arrow array or scalar: pyarrow has no types of its own to say so."""


class Truth:
    """With SQL's logic of three values. Constants have no dimension."""

    def __init__(self, answer: Data | None, parts: tuple[Mask, Mask | None] | None) -> None:
        self._answer = answer
        self._known = parts

    @classmethod
    def of(cls, answer: Data) -> Truth:
        """From Arrow's booleans."""
        chunked = isinstance(answer, pa.ChunkedArray)
        return cls(answer.combine_chunks() if chunked else answer, None)

    @classmethod
    def known(cls, values: Mask, valid: Mask | None) -> Truth:
        """From numpy's; `values` count where `valid`, which is None if they do everywhere."""
        return cls(None, (values, valid))

    @cached_property
    def answer(self) -> Data:
        """As an Arrow array or scalar."""
        if self._answer is not None:
            return self._answer
        assert self._known is not None
        values, valid = self._known
        if not values.ndim and (valid is None or not valid.ndim):
            return pa.scalar(bool(values) if valid is None or valid else None, pa.bool_())
        if valid is None:
            return _bits(values)
        values, valid = np.broadcast_arrays(values, valid)
        return _bits(values, valid)

    @cached_property
    def _parts(self) -> tuple[Mask, Mask | None]:
        if self._known is not None:
            return self._known
        answer = self._answer
        if isinstance(answer, pa.Scalar):
            known = None if answer.is_valid else np.asarray(False)
            return np.asarray(answer.as_py() is True), known
        assert answer is not None
        valid = None
        if answer.null_count:
            valid = answer.is_valid().to_numpy(zero_copy_only=False)
            answer = answer.fill_null(False)
        return answer.to_numpy(zero_copy_only=False), valid

    @property
    def values(self) -> Mask:
        return self._parts[0]

    @property
    def valid(self) -> Mask | None:
        return self._parts[1]

    @property
    def holds(self) -> Mask:
        values, valid = self._parts
        return values if valid is None else np.asarray(values & valid)

    @property
    def fails(self) -> Mask:
        values, valid = self._parts
        fails = np.asarray(~values)
        return fails if valid is None else np.asarray(fails & valid)

    def opposite(self) -> Truth:
        if self._answer is not None:
            return Truth.of(pc.invert(self._answer))
        return Truth.known(np.asarray(~self.values), self.valid)

    def and_(self, other: Truth) -> Truth:
        if self._answer is not None and other._answer is not None:
            return Truth.of(pc.and_kleene(self._answer, other._answer))
        return _settled(self.holds & other.holds, self.fails | other.fails, self, other)

    def or_(self, other: Truth) -> Truth:
        if self._answer is not None and other._answer is not None:
            return Truth.of(pc.or_kleene(self._answer, other._answer))
        holds = self.holds | other.holds
        return _settled(holds, holds, self, other)


def _bits(values: Mask, valid: Mask | None = None) -> pa.BooleanArray:
    """As Arrow has them. Its own conversion goes from bit to bit."""
    buffers = [
        None if each is None else pa.py_buffer(np.packbits(each, bitorder="little"))
        for each in (valid, values)
    ]
    return pa.Array.from_buffers(pa.bool_(), len(values), buffers)


def _settled(values: Mask, decided: Mask, left: Truth, right: Truth) -> Truth:
    """One side can settle the matter where the other is unknown."""
    valid = both(left.valid, right.valid)
    known = None if valid is None else np.asarray(valid | decided)
    return Truth.known(np.asarray(values), known)


def null_safe(equal: Mask, left: Mask | None, right: Mask | None) -> Truth:
    """Equality in which two nulls are equal, and a null differs from what is none."""
    if left is None and right is None:
        return Truth.known(equal, None)
    here, there = (np.asarray(True) if valid is None else valid for valid in (left, right))
    return Truth.known(np.asarray((equal & here & there) | ~(here | there)), None)


def compare_floats(compare: Any, left: Any, right: Any) -> Mask:
    """In Spark NaN equals itself and is greater than every other number."""
    values = compare(left, right)
    left_nan, right_nan = np.isnan(left), np.isnan(right)
    if left_nan.any() or right_nan.any():
        values = np.where(left_nan | right_nan, compare(left_nan, right_nan), values)
    return np.asarray(values, np.bool_)


def at_least(needed: int, columns: Sequence[Data]) -> Data:
    """Where so many of the columns are neither null nor NaN."""
    present = [pc.is_valid(each).cast(pa.int32()) for each in map(_without_nan, columns)]
    return pc.greater_equal(reduce(pc.add, present), pa.scalar(needed, pa.int32()))


def _without_nan(data: Data) -> Data:
    if not pt.is_floating(data.type):
        return data
    return pc.if_else(pc.is_nan(data), pa.scalar(None, data.type), data)


def compared(sign: str, left: Data, right: Data) -> Data:
    """Values of one type that Arrow has: true, false or null for each row."""
    if sign == "<=>":
        both_null = pc.and_(pc.is_null(left), pc.is_null(right))
        equal = compared("=", left, right)
        return pc.or_(both_null, pc.coalesce(equal, pa.scalar(False)))
    if pt.is_floating(left.type) and (_has_nan(left) or _has_nan(right)):
        return _WITH_NAN[sign](left, right)
    return _PLAIN[sign](left, right)


def _has_nan(data: Data) -> bool:
    return bool(pc.any(pc.is_nan(data)).as_py())


def _equal(left: Data, right: Data) -> Data:
    return pc.or_(pc.equal(left, right), pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _less(left: Data, right: Data) -> Data:
    below_nan = pc.and_(pc.is_nan(right), pc.invert(pc.is_nan(left)))
    return pc.or_(pc.less(left, right), below_nan)


_PLAIN: dict[str, Callable[[Data, Data], Data]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_WITH_NAN: dict[str, Callable[[Data, Data], Data]] = {
    "=": _equal,
    "<>": lambda left, right: pc.invert(_equal(left, right)),
    "<": _less,
    "<=": lambda left, right: pc.invert(_less(right, left)),
    ">": lambda left, right: _less(right, left),
    ">=": lambda left, right: pc.invert(_less(left, right)),
}
