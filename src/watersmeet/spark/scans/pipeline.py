"""Follows a table's columns up through the nodes of a plan: filters, and columns that are chosen or
computed."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructField

from watersmeet.expressions import nodes as expressions
from watersmeet.model import Side
from watersmeet.spark.scans.call_plan import CallReader
from watersmeet.spark.scans.calls import Calls
from watersmeet.spark.scans.files import JavaObject
from watersmeet.spark.scans.filters import ExprId, Node, Translation
from watersmeet.spark.scans.formulas import Computed, Filter
from watersmeet.spark.scans.parquet import Dialect
from watersmeet.spark.scans.refusal import Refused
from watersmeet.spark.scans.selection import Selection, TableColumn


@dataclass(frozen=True)
class Table:
    """The relation's columns in its own order: those of the files, then those of their paths."""

    fields: tuple[StructField, ...]
    file_columns: int

    @classmethod
    def of(
        cls, inside: Sequence[StructField], outside: Sequence[StructField], dialect: Dialect
    ) -> Table:
        names = Counter(dialect.folded(field.name) for field in [*inside, *outside])
        for name, count in names.items():
            if count > 1:
                raise Refused(f"its files and their paths have several columns {name!r}")
        return cls((*inside, *outside), len(inside))

    def column(self, position: int) -> TableColumn:
        field = self.fields[position]
        if field.name.startswith("_tmp_metadata_"):
            raise Refused(f"Spark makes column {field.name!r} up while it reads")
        if "EXISTS_DEFAULT" in field.metadata:
            raise Refused(f"column {field.name!r} has a default for files that lack it")
        if "collate" in field.dataType.simpleString():
            raise Refused(f"column {field.name!r} has a collation")
        try:
            kind = to_arrow_type(field.dataType, timezone="UTC")
        except PySparkException as error:
            raise Refused(f"column {field.name!r} is {field.dataType.simpleString()}") from error
        place = position - self.file_columns
        return TableColumn(pa.field(field.name, kind), place if place >= 0 else None)


# A column of the table, by its position there, or one that is computed.
_Source = int | Computed
_COMPUTED = "column {name!r} is computed with {{}}, which may have other values outside Spark"
# What Spark calls a column that a function returns.
_RETURNED = re.compile(r"\bpythonUDF\d+\b")
_REMEDY = "compute that column after the join, or write the DataFrame to Parquet files before it"


class Pipeline:
    """What becomes of one table's columns and rows, from the relation up."""

    def __init__(self, table: Table, spark: SparkSession | None = None) -> None:
        """Functions of the user's can be called if there is a session, with what it says."""
        self._table = table
        self._spark = spark
        self._columns: list[TableColumn] = []
        self._filtered: Filter | None = None
        self._steps: list[Calls | Filter] = []
        # Of columns that functions return, as Spark calls them, the calls in words.
        self._called: dict[str, set[str]] = {}
        # The columns in sight by Spark's identity of them; of those that are read, their position
        # in `_columns`.
        self._visible: list[tuple[ExprId, _Source]] = []
        self._read: dict[int, int] = {}

    @property
    def identities(self) -> list[ExprId]:
        """Of the columns in sight, in their order."""
        return [identity for identity, _ in self._visible]

    def begin(self, relation: Mapping[str, Any]) -> None:
        """At the relation, which is given in Spark's JSON."""
        self._see([Node.parse(attribute) for attribute in relation["output"]])

    def step(self, node: JavaObject, fields: Mapping[str, Any]) -> None:
        """To the next node: the plan's object, and the same in Spark's JSON."""
        if "condition" in fields:
            self._filter(node.condition(), Node.parse(fields["condition"]))
        elif "projectList" in fields:
            columns = [Node.parse(column) for column in fields["projectList"]]
            self._choose(node.projectList(), columns)
        elif "udfs" in fields:
            self._call(node, fields)

    def unite(self, first: Pipeline) -> None:
        """Into a union, which has columns by their places and calls them as its first branch."""
        identities = first.identities
        if len(set(identities)) < len(identities):
            raise Refused("its union has a column twice")
        sources = [source for _, source in self._visible]
        self._visible = list(zip(identities, sources, strict=True))

    def selection(self, schema: pa.Schema, dialect: Dialect) -> Selection:
        """What is taken of files, if the plan ends here, with columns of this schema."""
        output = tuple(
            source if isinstance(source, Computed) else self._use(source)
            for _, source in self._visible
        )
        kinds = [
            source.tree.kind if isinstance(source, Computed) else self._columns[source].field.type
            for source in output
        ]
        if kinds != schema.types:
            raise Refused("its columns changed their types on the way to the files")
        return Selection(
            schema=schema,
            filter=self._filtered,
            columns=tuple(self._columns),
            output=output,
            dialect=dialect,
            steps=tuple(self._steps),
        )

    def _see(self, attributes: Sequence[Node]) -> None:
        names = [field.name for field in self._table.fields]
        if [attribute.fields["name"] for attribute in attributes] != names:
            raise Refused("it has columns that are not the table's, such as _metadata")
        self._visible = [(node.expr_id, place) for place, node in enumerate(attributes)]

    def _choose(self, live: JavaObject, columns: Sequence[Node]) -> None:
        visible = dict(self._visible)
        chosen = []
        for place, column in enumerate(columns):
            source = column.children[0] if column.name == "Alias" else column
            if source.name == "AttributeReference" and source.expr_id in visible:
                chosen.append((column.expr_id, visible[source.expr_id]))
            else:
                chosen.append((column.expr_id, self._computed(live.apply(place), column)))
        self._visible = chosen

    def _computed(self, live: JavaObject, column: Node) -> Computed:
        refused = _COMPUTED.format(name=column.fields.get("name"))
        try:
            tree = Translation(live, self._find, refused).value(column.children[0])
        except Refused as reason:
            raise Refused(str(reason), remedy=_REMEDY) from None
        return Computed(self._told(live.child().sql()), tree)

    def _find(self, identity: ExprId) -> expressions.Node | None:
        source = dict(self._visible).get(identity)
        if source is None:
            return None
        if isinstance(source, Computed):
            return source.tree
        field = self._columns[self._use(source)].field
        return expressions.Column(Side.LEFT, field.name, field.type)

    def _filter(self, condition: JavaObject, node: Node) -> None:
        found = Filter(self._told(condition.sql()), Translation(condition, self._find).of(node))
        match self._steps:
            case []:
                self._filtered = found if self._filtered is None else self._filtered.and_then(found)
            case [*before, Filter() as last]:
                self._steps = [*before, last.and_then(found)]
            case _:
                self._steps.append(found)

    def _call(self, node: JavaObject, fields: Mapping[str, Any]) -> None:
        """The results come behind the columns in sight."""
        if self._spark is None:
            raise Refused("it calls a Python function")
        reader = CallReader(self._spark, self._find)
        calls, columns = reader.read(node, fields, self._unused_names())
        self._steps.append(calls)
        self._visible += columns
        attributes = [Node.parse(each) for each in fields["resultAttrs"]]
        for attribute, (_, source) in zip(attributes, columns, strict=True):
            self._called.setdefault(attribute.fields["name"], set()).add(self._told(source.text))

    def _told(self, text: str) -> str:
        """What Spark writes of an expression, but with a call where that has a name for what it
        returned. Nodes that call functions use the same names, so one may stand for two calls."""

        def call(name: re.Match[str]) -> str:
            calls = self._called.get(name[0], set())
            return next(iter(calls)) if len(calls) == 1 else name[0]

        return _RETURNED.sub(call, text)

    def _unused_names(self) -> Iterator[str]:
        """For results of functions: names that no column of the table has."""
        used = {field.name for field in self._table.fields}
        calls = (step for step in self._steps if isinstance(step, Calls))
        used.update(field.name for step in calls for field in step.results)
        return (name for name in map("result {}".format, itertools.count(1)) if name not in used)

    def _use(self, position: int) -> int:
        if position not in self._read:
            column = self._table.column(position)
            self._read[position] = len(self._columns)
            self._columns.append(column)
        return self._read[position]
