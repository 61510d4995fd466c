"""SQL arithmetic over the columns of a join, with the types and values Spark would give it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from watersmeet.expressions.evaluation import Evaluation
from watersmeet.expressions.nodes import Node, columns_of
from watersmeet.expressions.numbers import Bounds, Mask, Numbers
from watersmeet.expressions.parsing import parse
from watersmeet.expressions.promotion import is_number
from watersmeet.expressions.scope import Scope
from watersmeet.model import Side

# What the values of a block need on the way stays in the cache.
_BLOCK = 1 << 16

Columns = Mapping[tuple[Side, str], pa.Array]


@dataclass(frozen=True)
class Expression:
    """A resolved expression; equal trees are equal expressions, however they were spelled.

    >>> items = pa.schema({"price": pa.decimal128(15, 2), "discount": pa.decimal128(15, 2)})
    >>> expression = Expression.parse("price * (1 - discount)", Scope((items, pa.schema([]))))
    >>> expression.kind, expression.sides
    (Decimal128Type(decimal128(32, 4)), frozenset({<Side.LEFT: 0>}))
    """

    tree: Node

    @classmethod
    def parse(cls, text: str, scope: Scope) -> Expression:
        tree = parse(text, scope)
        sides = {column.side for column in columns_of(tree)}
        if len(sides) == 2 and scope.either:
            # A key of one name is in both inputs: from the right, it may leave one side alone.
            other = parse(text, replace(scope, preferred=scope.preferred.other))
            if len({column.side for column in columns_of(other)}) == 1 and other.kind == tree.kind:
                return cls(other)
        return cls(tree)

    @property
    def kind(self) -> pa.DataType:
        """The type of its values in Spark."""
        return self.tree.kind

    @property
    def sides(self) -> frozenset[Side]:
        return frozenset(column.side for column in columns_of(self.tree))

    @property
    def is_numeric(self) -> bool:
        return is_number(self.kind)

    def columns(self, side: Side) -> tuple[str, ...]:
        """The columns of one input that it looks at, in the order they are written."""
        return tuple(name for where, name in self._keys if where is side)

    def evaluate(self, columns: Columns, rows: int, *, active: Mask | None = None) -> Numbers:
        """Its value for each of `rows` rows (or gathered pairs): int64, float64 or, where 64 bits
        are not proven to be enough, Python integers. Zero where it is null. What is no number,
        and can only be counted, is zero or null; conditions are one or zero.

        SQL computes it for joined rows only: where `active` is false it cannot fail.
        """
        columns = {key: _whole(columns[key]) for key in self._keys}
        parts = _Parts(rows)
        for start in range(0, max(rows, 1), _BLOCK):
            stop = min(start + _BLOCK, rows)
            block = {key: array.slice(start, stop - start) for key, array in columns.items()}
            looked_at = None if active is None else active[start:stop]
            parts.put(start, stop, self._evaluate(Evaluation(block), looked_at))
        return parts.joined()

    def holds(self, columns: Columns, rows: int) -> pa.BooleanArray:
        """Of a condition: true where it holds, and false or null elsewhere."""
        columns = {key: _whole(columns[key]) for key in self._keys}
        parts = []
        for start in range(0, max(rows, 1), _BLOCK):
            stop = min(start + _BLOCK, rows)
            block = {key: array.slice(start, stop - start) for key, array in columns.items()}
            answer = Evaluation(block).truth(self.tree).answer
            if isinstance(answer, pa.Scalar):
                answer = pa.repeat(answer, stop - start)
            parts.append(answer)
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)

    @cached_property
    def _keys(self) -> tuple[tuple[Side, str], ...]:
        """The columns that it looks at."""
        return tuple(dict.fromkeys((column.side, column.name) for column in columns_of(self.tree)))

    def _evaluate(self, evaluation: Evaluation, active: Mask | None) -> Numbers:
        if not self.is_numeric and not pt.is_boolean(self.kind):
            return Numbers(np.asarray(0, np.int64), evaluation.valid(self.tree, active))
        result = evaluation.numbers(self.tree, active)
        if result.exact:
            return result
        return Numbers(result.values.astype(np.float64, copy=False), result.valid)


class _Parts:
    """Numbers of consecutive rows, copied into one column. Only that column is new memory: what a
    block needs on the way is used again by the next, which made evaluation three times as fast."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._values: NDArray[Any] | None = None
        self._valid: Mask | None = None
        self._scale = 0
        self._bounds: list[Bounds] = []

    def put(self, start: int, stop: int, part: Numbers) -> None:
        part = part.spread(stop - start)
        self._bounds.append(part.bounds)
        self._scale = part.scale
        if len(part.values) == self._rows:
            self._values, self._valid = part.values, part.valid
            return
        if self._values is None:
            self._values = np.empty(self._rows, part.values.dtype)
        elif part.values.dtype == object != self._values.dtype:
            self._values = self._values.astype(object)
        self._values[start:stop] = part.values
        if part.valid is not None:
            if self._valid is None:
                self._valid = np.ones(self._rows, np.bool_)
            self._valid[start:stop] = part.valid

    def joined(self) -> Numbers:
        assert self._values is not None
        bounds = (min(low for low, _ in self._bounds), max(high for _, high in self._bounds))
        return Numbers(self._values, self._valid, self._scale, bounds)


def _whole(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
