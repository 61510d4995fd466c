"""Which products of moments an aggregate needs, and how they are packed.

The moments of a group are [pairs, then n, s, q per expression]. An aggregate is a function of
the pairs alone or of one expression's triple, so of all products of two moments only
1 + 6 E are kept (pairs x pairs, then the six of each triple), and 1 + 10 E of three.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_OF_TRIPLE = {
    order: np.array(list(combinations_with_replacement(range(3), order)), np.int64)
    for order in (2, 3)
}
# How often a product stands in the full (symmetric) array: permutations of its indices.
_TIMES = {
    2: np.array([1.0 if i == j else 2.0 for i, j in _OF_TRIPLE[2]]),
    3: np.array([{1: 1.0, 2: 3.0, 3: 6.0}[len({*row})] for row in _OF_TRIPLE[3].tolist()]),
}


@cache
def packed(moments: int, order: int) -> Integers:
    """The indices of the kept products: [products, order].

    >>> packed(4, 2).T.tolist()
    [[0, 1, 1, 1, 2, 2, 3], [0, 1, 2, 3, 2, 3, 3]]
    """
    triples = [_OF_TRIPLE[order] + 1 + 3 * number for number in range((moments - 1) // 3)]
    return np.concatenate([np.zeros((1, order), np.int64), *triples])


@cache
def place(moments: int) -> Integers:
    """[moments, moments]: where a product of two stands in the packed array, or -1."""
    places = np.full((moments, moments), -1, np.int64)
    first, second = packed(moments, 2).T
    places[first, second] = places[second, first] = np.arange(len(first))
    return places


def products(left: Floats, right: Floats | None = None) -> Floats:
    """Packed left x right, made symmetric; of one array with itself if there is no other."""
    first, second = packed(left.shape[-1], 2).T
    if right is None:
        return left[..., first] * left[..., second]
    return (left[..., first] * right[..., second] + right[..., first] * left[..., second]) / 2


def cubes(totals: Floats) -> Floats:
    first, second, third = packed(totals.shape[-1], 3).T
    return totals[..., first] * totals[..., second] * totals[..., third]


class LinearForm:
    """A linear form of the moments, one per group: of the pairs, or of an expression's triple."""

    def __init__(self, gradient: Floats, *, expression: int | None) -> None:
        self.gradient = gradient  # [G] or [G, 3]
        self.expression = expression

    def first(self, moments: Floats) -> Floats:
        return self._along(self.gradient, moments)

    def size(self, moments: Floats) -> Floats:
        """The terms of `first` without their signs: what rounding is relative to."""
        return self._along(np.abs(self.gradient), np.abs(moments))

    def _along(self, gradient: Floats, moments: Floats) -> Floats:
        if self.expression is None:
            return gradient * moments[:, 0]
        start = 1 + 3 * self.expression
        return _dot(gradient, moments[:, start : start + 3])

    def second(self, products: Floats) -> Floats:
        """The quadratic form: the variance, if the products are covariances."""
        return self._apply(products, 2)

    def third(self, products: Floats) -> Floats:
        return self._apply(products, 3)

    def count(self, moments: Floats) -> Floats:
        """What a ratio divides by: the rows with a value."""
        return moments[:, 0 if self.expression is None else 1 + 3 * self.expression]

    def second_by_count(self, products: Floats) -> Floats:
        """Of packed cubes, those of this form twice and the count once."""
        if self.expression is None:
            return self.third(products)
        # The products of three that start with the count come first, in the order of those of two.
        width = len(_TIMES[2])
        start = 1 + len(_TIMES[3]) * self.expression
        return _dot(self._weights(2), products[:, start : start + width])

    def _weights(self, order: int) -> Floats:
        of_indices: Floats = np.prod(self.gradient[:, _OF_TRIPLE[order]], axis=2)
        return _TIMES[order] * of_indices

    def _apply(self, products: Floats, order: int) -> Floats:
        if self.expression is None:
            result: Floats = self.gradient**order * products[:, 0]
            return result
        width = len(_TIMES[order])
        start = 1 + width * self.expression
        return _dot(self._weights(order), products[:, start : start + width])


def _dot(left: Floats, right: Floats) -> Floats:
    result: Floats = np.einsum("gi,gi->g", left, right)
    return result
