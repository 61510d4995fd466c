"""The tree that the inputs of a join form: which edges share an order, and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from watersmeet.errors import InvalidArgument
from watersmeet.rows.bands import Band
from watersmeet.rows.on import Equal
from watersmeet.rows.schema import JoinSchema
from watersmeet.rows.tree import JoinTree

INPUT = pa.schema({"k": pa.int64(), "i": pa.int32(), "s": pa.string(), "t": pa.timestamp("us")})


def tree_of(*predicates: Equal | Band) -> JoinTree:
    inputs = 1 + max(end for each in predicates for end in each.ends)
    suffixes = [f"_{input}" for input in range(inputs)]
    schema = JoinSchema.resolve_many([INPUT] * inputs, predicates, suffixes=suffixes)
    return JoinTree.of(schema.in_order())


def equal(left: str, right: str, *ends: int) -> Equal:
    return Equal.of([(left, right)], (ends[0], ends[1]))


def test_edges_on_one_attribute_share_an_order() -> None:
    star = tree_of(equal("k", "k", 0, 1), equal("k", "k", 0, 2), equal("k", "k", 2, 3))
    assert [star.order_count(input) for input in range(4)] == [1, 1, 1, 1]
    assert star.is_star
    texts = tree_of(equal("s", "s", 0, 1), equal("s", "s", 1, 2))
    assert [texts.order_count(input) for input in range(3)] == [1, 1, 1]


def test_edges_on_other_attributes_have_orders_of_their_own() -> None:
    chain = tree_of(equal("k", "k", 0, 1), equal("s", "s", 1, 2))
    assert [chain.order_count(input) for input in range(3)] == [1, 2, 1]
    assert (chain.order(1, 0), chain.order(1, 1)) == (0, 1)
    assert (chain.edge_of(1, 0), chain.edge_of(1, 1)) == (0, 1)
    assert not chain.is_star


def test_a_key_that_is_compared_in_two_types_has_two_orders() -> None:
    """A code of an int is not that of the same number as a long."""
    mixed = tree_of(equal("i", "i", 0, 1), equal("i", "k", 1, 2))
    assert mixed.order_count(1) == 2


def test_bands_never_share_an_order() -> None:
    near = [Band("k", "k", low=-1, high=1, ends=ends) for ends in ((0, 1), (1, 2))]
    assert tree_of(*near).order_count(1) == 2
    assert not tree_of(*near).is_star


def test_neighbours_and_ends() -> None:
    tree = tree_of(equal("k", "k", 0, 1), equal("k", "k", 1, 2), equal("i", "i", 1, 3))
    assert tree.neighbours(1) == [(0, 0), (1, 2), (2, 3)]
    assert tree.end(1, 0) == 1
    assert tree.end(1, 1) == 0


def test_a_circle_is_refused_and_names_the_edge_that_closes_it() -> None:
    with pytest.raises(InvalidArgument, match="first and the third input are connected twice"):
        tree_of(equal("k", "k", 0, 1), equal("k", "k", 1, 2), equal("i", "i", 0, 2))
