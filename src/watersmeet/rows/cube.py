"""Instances of a join of many inputs as the cells of a cube: how many places each dimension has.

There is one dimension for each group of columns that must be equal (Afrati and Ullman, EDBT 2010:
"Optimizing joins in a map-reduce environment"). A row's key in a dimension gives its place there;
rows of an input that has no column in a dimension go to all places of it. So the rows of a result,
which have the same keys, are together in the one cell that their keys name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol


class Dimension(Protocol):
    """Columns of some inputs that must be equal."""

    @property
    def keys(self) -> Mapping[int, Any]:
        """By input, what is known of its columns; inputs that have none are not there."""
        ...


@dataclass(frozen=True)
class Cube:
    """How many places each dimension has. Their product is the number of instances."""

    shares: tuple[int, ...]

    @property
    def instances(self) -> int:
        return prod(self.shares)

    def copies(self, input: int, dimensions: Sequence[Dimension]) -> int:
        """To how many instances each row of an input goes."""
        free = (
            share
            for share, dimension in zip(self.shares, dimensions, strict=True)
            if input not in dimension.keys
        )
        return prod(free)

    def firsts(self, input: int, dimensions: Sequence[Dimension]) -> frozenset[int]:
        """The cells that have each row of an input once: the first place in each dimension in which
        the input has no column.

        >>> from types import SimpleNamespace as Group
        >>> chain = [Group(keys={0: "x", 1: "x"}), Group(keys={1: "y", 2: "y"})]
        >>> sorted(Cube((2, 3)).firsts(0, chain)), sorted(Cube((2, 3)).firsts(2, chain))
        ([0, 1], [0, 2, 4])
        """
        cells, stride = [0], 1
        for share, dimension in zip(self.shares, dimensions, strict=True):
            if input in dimension.keys:
                cells = [cell + place * stride for cell in cells for place in range(share)]
            stride *= share
        return frozenset(cells)

    def sent(self, rows: Sequence[int], dimensions: Sequence[Dimension]) -> int:
        """How many rows all instances get together, if tables have so many."""
        return sum(count * self.copies(input, dimensions) for input, count in enumerate(rows))

    @classmethod
    def of(cls, instances: int, rows: Sequence[int], dimensions: Sequence[Dimension]) -> Cube:
        """The cube of so many instances that gets the fewest rows.

        >>> from types import SimpleNamespace as Group
        >>> chain = [Group(keys={0: "x", 1: "x"}), Group(keys={1: "y", 2: "y"})]
        >>> Cube.of(4, [1_000_000, 1_000_000, 10], chain).shares
        (4, 1)
        """
        cubes = (cls(shares) for shares in _factorisations(instances, len(dimensions)))
        return min(cubes, key=lambda cube: (cube.sent(rows, dimensions), cube.shares))


def _factorisations(number: int, count: int) -> Iterator[tuple[int, ...]]:
    """All lists of `count` numbers whose product is `number`."""
    if count == 1:
        yield (number,)
        return
    for first in range(1, number + 1):
        if number % first == 0:
            for rest in _factorisations(number // first, count - 1):
                yield (first, *rest)
