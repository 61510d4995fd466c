"""Operators for tests that look inside them."""

from __future__ import annotations

from typing import Any

from watersmeet.operators.family import make_operator
from watersmeet.operators.progressive.join import ProgressiveJoin
from watersmeet.operators.rectangle.join import RectangleJoin
from watersmeet.rows.schema import JoinSchema


def make_progressive(name: str, schema: JoinSchema, **settings: Any) -> ProgressiveJoin:
    join = make_operator(name, schema, **settings)
    assert isinstance(join, ProgressiveJoin), f"{name} is a rectangle join"
    return join


def make_rectangle(name: str, schema: JoinSchema, **settings: Any) -> RectangleJoin:
    join = make_operator(name, schema, **settings)
    assert isinstance(join, RectangleJoin), f"{name} is a progressive join"
    return join
