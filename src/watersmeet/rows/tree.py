"""The tree that the inputs of a join form, with the edges between them.

A table keeps its rows in one order for each attribute that it is joined on. Edges that join an
input on the same attribute have the same codes there, so they share an order: in a star around one
attribute every input has one.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from watersmeet.errors import InvalidArgument
from watersmeet.model import Side
from watersmeet.rows.edges import ByPart, Edge, RisingKeys
from watersmeet.rows.keys import CodeKeys, PackedKeys, PayloadKeys
from watersmeet.rows.on import name_of
from watersmeet.rows.predicates import EqualKeys
from watersmeet.rows.schema import JoinSchema


@dataclass(frozen=True)
class JoinTree:
    """Which edges there are at each input, and in which of its orders each finds rows."""

    edges: tuple[Edge, ...]
    at: tuple[tuple[int, ...], ...]
    """For each input, the numbers of its edges."""
    orders: tuple[tuple[int, ...], ...]
    """For each input, the number of the order that each of its edges uses."""

    @classmethod
    def of(cls, schema: JoinSchema) -> JoinTree:
        """The tree of a schema that is `in_order`."""
        inputs = range(len(schema.inputs))
        if len(schema.edges) >= len(inputs):
            raise _cyclic(schema.edges, len(inputs))
        at = tuple(tuple(schema.at(input)) for input in inputs)
        orders = tuple(_orders(schema.edges, input, at[input]) for input in inputs)
        return cls(schema.edges, at, orders)

    def order(self, input: int, edge: int) -> int:
        """The order of an input's table in which an edge finds rows."""
        return self.orders[input][self.at[input].index(edge)]

    def order_count(self, input: int) -> int:
        return 1 + max(self.orders[input])

    def edge_of(self, input: int, order: int) -> int:
        """An edge that uses an order of an input."""
        return self.at[input][self.orders[input].index(order)]

    def end(self, input: int, edge: int) -> Side:
        """Which end of an edge an input is."""
        return Side(self.edges[edge].ends.index(input))

    def neighbours(self, input: int) -> list[tuple[int, int]]:
        """The inputs that an input has edges with, as (edge, input)."""
        ends = [(edge, self.edges[edge].ends) for edge in self.at[input]]
        return [(edge, right if left == input else left) for edge, (left, right) in ends]

    @property
    def is_star(self) -> bool:
        """Whether all inputs are joined on one attribute each, by equality alone: then equal codes
        are equal keys of all inputs."""
        one_order = all(self.order_count(input) == 1 for input in range(len(self.at)))
        return one_order and all(
            len(edge.parts) == 1 and isinstance(edge.parts[0], EqualKeys) for edge in self.edges
        )


def _orders(edges: tuple[Edge, ...], input: int, at: tuple[int, ...]) -> tuple[int, ...]:
    attributes = list[Hashable]()
    orders = list[int]()
    for number in at:
        edge = edges[number]
        attribute = _attribute(edge, Side(edge.ends.index(input)))
        if attribute is None or attribute not in attributes:
            attributes.append(attribute)
            orders.append(len(attributes) - 1)
        else:
            orders.append(attributes.index(attribute))
    return tuple(orders)


def _attribute(edge: Edge, end: Side) -> Hashable | None:
    """What the codes of one end are computed from; None if no other edge has the same codes."""
    part = edge.order.part if isinstance(edge.order, ByPart) else None
    return attribute_of(part, end) if isinstance(part, EqualKeys) else None


def attribute_of(equal: EqualKeys, end: Side) -> Hashable | None:
    """What the codes of one end of an equality are computed from; None if that is not known. Two
    equalities with the same attribute of an input give its rows the same codes."""
    codec = equal.codec
    match codec:
        case RisingKeys():
            columns = codec.keys.columns
        case CodeKeys() | PackedKeys():
            columns = codec.columns
        case PayloadKeys():
            columns = (codec.column,)
        case _:
            return None
    read = tuple((each.of(end), str(each.kind), each.padding[end]) for each in columns)
    return type(codec).__name__, read


def _cyclic(edges: tuple[Edge, ...], inputs: int) -> InvalidArgument:
    """The error for edges that form a circle, naming one that closes it."""
    connected = [{input} for input in range(inputs)]
    for edge in edges:
        mine, others = (next(s for s in connected if end in s) for end in edge.ends)
        if mine is others:
            left, right = (name_of(end, inputs) for end in edge.ends)
            return InvalidArgument(
                f"The {left} and the {right} input are connected twice: by "
                f"{' and '.join(edge.describe())}, and through others.",
                remedy="Leave one predicate of the circle out of on=, and give it as condition=.",
            )
        connected.remove(others)
        mine |= others
    raise AssertionError("no circle")
