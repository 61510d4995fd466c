"""Translates `on` and `condition` of a join on Spark: names, Columns or SQL text.

Spark's analyzer parses them and finds names, types and conversions. Its expressions are translated
into ours if those give the same value for every row, and refused otherwise.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.types as pt
from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql import functions as sf

from watersmeet.errors import InvalidArgument
from watersmeet.expressions import nodes as expressions
from watersmeet.model import JoinType, Side
from watersmeet.operators.enriching import EnrichQuestion
from watersmeet.operators.question import Question
from watersmeet.rows.on import KeyNames, Near
from watersmeet.rows.output import Schemas
from watersmeet.rows.schema import JoinSchema
from watersmeet.spark.columns import result_columns
from watersmeet.spark.condition import TranslatedCondition
from watersmeet.spark.keys import (
    Frames,
    JoinedPlan,
    collations,
    compared,
    first_line,
    named_keys,
    parsed,
    spelled_bands,
)
from watersmeet.spark.scans.files import JavaObject
from watersmeet.spark.scans.filters import ExprId, Node, Translation
from watersmeet.spark.scans.refusal import Refused

Asked = TypeVar("Asked", Question, EnrichQuestion)

_REMEDY = (
    "Compute the value as a column of a DataFrame before the join and compare that column, or "
    "give a pyarrow.compute expression or a function of a record batch."
)


def settled(frames: Frames, schemas: Schemas, question: Asked) -> tuple[Asked, Schemas]:
    """The question with `on` and `condition` as Spark understands them. Metadata in the schemas
    says which texts are padded before they are compared."""
    keys: list[KeyNames]
    keys, plan, others = named_keys(frames, question.on)
    schemas = compared(frames, keys, schemas)
    bands: list[Near] = spelled_bands(frames, question.on)
    plain = replace(question, on=[*keys, *bands], condition=None)
    condition: Any = question.condition
    if not others and not isinstance(condition, str | Column):
        return replace(plain, condition=condition), schemas
    pair = _Pair(frames, plain.resolve(*schemas), plain, schemas)
    trees: list[expressions.Node] = []
    texts: list[str] = []
    if isinstance(condition, Column):
        joined = JoinedPlan.of(frames, condition, argument="condition")
        trees.append(pair.translated(joined, joined.node, argument="condition"))
        texts.append(str(condition))
    elif isinstance(condition, str):
        trees.append(pair.read(condition))
        texts.append(condition)
    elif condition is not None:
        raise InvalidArgument(
            "on= has parts that are no equality of two columns, and condition= is no Column.",
            remedy="Give all but the equalities as condition=, in one form.",
        )
    if plan is not None:
        trees += [pair.translated(plan, node, argument="on") for node in others]
        texts += [f"the rest of {question.on}"] if others else []
    tree = reduce(lambda one, other: expressions.Logic("AND", one, other, pa.bool_()), trees)
    found = TranslatedCondition(" AND ".join(texts), tree)
    return replace(plain, condition=found), schemas


class _Pair:
    """The columns of a pair that conditions may use, and those that a condition does use."""

    def __init__(
        self,
        frames: Frames,
        join: JoinSchema,
        question: Question | EnrichQuestion,
        schemas: Schemas,
    ) -> None:
        shape = join
        if not question.how.emits_pairs:
            # A condition of a semi or anti join sees both rows, though the result has one.
            shape = replace(question, how=JoinType.INNER).resolve(*schemas)
        self._frames = frames
        self._join = shape
        self._columns = result_columns(frames, shape)
        self._padded = {key.left for key in join.keys if any(key.padding)}
        self._shared = {key.right: key for key in join.keys if key.shared}

    def read(self, text: str) -> expressions.Node:
        """Translate a condition in SQL over the names of the result."""
        try:
            plan = self._empty().where(text)._jdf.queryExecution().analyzed()
        except PySparkException as error:
            raise InvalidArgument(
                f"Spark does not understand condition={text!r}: {first_line(error)}",
                remedy=f"The columns are {', '.join(self._columns.names)}.",
            ) from error
        live = plan.condition()
        output = plan.child().output()
        numbers = {int(output.apply(n).exprId().id()): n for n in range(output.size())}

        def find(identity: ExprId) -> expressions.Column | None:
            place = numbers.get(identity[0])
            return None if place is None else self._use(place)

        return self._translated(live, parsed(live), find, what=f"condition={text!r}")

    def translated(self, plan: JoinedPlan, node: Node, *, argument: str) -> expressions.Node:
        """Translate a part of the analyzed form of a Column over both DataFrames."""

        def find(identity: ExprId) -> expressions.Column | None:
            place = plan.places.get(identity[0])
            return None if place is None else self._use_of(*place)

        return self._translated(plan.condition, node, find, what=argument)

    def _translated(
        self, live: JavaObject, node: Node, find: Any, *, what: str
    ) -> expressions.Node:
        try:
            return Translation(live, find).of(node)
        except Refused as reason:
            raise InvalidArgument(
                f"{what} is not computed outside Spark, because {reason}.", remedy=_REMEDY
            ) from None

    def _empty(self) -> Any:
        """A DataFrame with the result's columns and no rows."""
        spark = self._frames[0].sparkSession
        columns = [
            sf.lit(None).cast(each.dataType).alias(each.name, metadata=each.metadata)
            for each in self._columns
        ]
        return spark.range(0).select(*columns)

    def _use_of(self, side: Side, position: int) -> expressions.Column:
        for place, column in enumerate(self._join.columns):
            if (side, position) in column.suppliers:
                return self._use(place)
        # A shared key is one column of the result, with the left side's name.
        name = self._frames[side].columns[position]
        key = self._shared[name]
        mine, other = (self._frames[s].schema[key.of(s)].dataType for s in Side)
        exact = not (pt.is_floating(key.kind) or pt.is_struct(key.kind) or any(key.padding))
        if mine != other or not exact:
            raise Refused(f"the right side's {name!r} is not in the result; use the left side's")
        return self._use([c.field.name for c in self._join.columns].index(key.left))

    def _use(self, place: int) -> expressions.Column:
        field = self._columns[place]
        if next(collations(field.dataType), None) is not None:
            raise Refused(f"column {field.name!r} has a collation")
        return expressions.Column(Side.LEFT, field.name, self._join.columns[place].field.type)
